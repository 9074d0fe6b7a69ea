"""What is the same for every file of one run, and what comes of looking at one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.base.diagnostics import CODES
from hpushim.engine.base.text import ALONE, Project, Text
from hpushim.engine.python.changes import Change
from hpushim.model import Finding, Origin, Safety, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix


class Context(msgspec.Struct, frozen=True):
    """What is the same for every file of one run."""

    target: Target
    matrix: Matrix
    project: Project = ALONE
    #: Codes or prefixes; empty for all.
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    #: Whether unsafe fixes are made: all, none, or these.
    unsafe: bool | frozenset[Origin] = False

    def makes(self, safety: Safety, origin: Origin) -> bool:
        """May a fix of this safety be made at this place?"""
        if safety != "unsafe" or isinstance(self.unsafe, bool):
            return safety == "safe" or (safety == "unsafe" and bool(self.unsafe))
        return origin in self.unsafe or Origin(origin.path) in self.unsafe

    def selects(self, code: str) -> bool:
        """Is this code requested? The engine's own findings always are, unless ignored."""
        if self.ignore and code.startswith(self.ignore):
            return False
        return not self.select or code in CODES or code.startswith(self.select)


class Examined(msgspec.Struct, frozen=True):
    """What was found in one text."""

    text: Text
    findings: tuple[Finding, ...]
    #: The changes of nodes that each finding's fix makes, in Python.
    changes: tuple[tuple[Change, ...], ...]
    #: Groups that must not be applied: a member is suppressed or was not requested.
    held: frozenset[str] = frozenset()


class Unparsable(Exception):
    """The text is not what its kind promises; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding
