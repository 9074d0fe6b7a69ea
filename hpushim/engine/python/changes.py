"""What a fix may say of Python code: which node becomes what.

A change names a node of :mod:`ast`. What it becomes is a text, which libcst parses, or a function from the libcst node
to the new one, which sees what other changes have done inside it::

    Replace(literal, '"hpu"')
    Replace(call, lambda node: node.with_changes(args=()))
    Rename(attribute, "torch.amp.autocast")       # the name is written as the file's imports allow
    Remove(keyword)                             # also a statement, a decorator, an item of `with`, an element
    Insert(statement, "htcore.mark_step()", after=True)
    Guard(statement, "rank == 0")                # `if rank == 0:` around it
    Import("habana_frameworks.torch.core", "htcore")
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hpushim.model import Safety, Style

#: From a libcst node to the one that takes its place.
Function = Callable[[Any], Any]


class Replace(msgspec.Struct, frozen=True):
    """``node`` becomes ``new``. A text replaces all of it; a function keeps what it does not touch."""

    node: ast.AST
    new: str | Function
    #: What a function writes, where that names a device.
    writes: str = ""

    @property
    def swallows(self) -> bool:
        """Is nothing left of what stood inside?"""
        return isinstance(self.new, str)


class Rename(msgspec.Struct, frozen=True):
    """A name, or a whole chain of attributes, comes to mean the dotted ``name``.

    How that is written is decided when all changes of the file are known: through the name that the file imports,
    which moves along when every use of it does, or through the package.
    """

    node: ast.expr
    name: str
    #: Written behind the name.
    tail: str = ""
    #: The shorter name for the same, where it is written through the package.
    short: str = ""


class Remove(msgspec.Struct, frozen=True):
    """A statement, argument, decorator, item of ``with`` or element of a list goes, with its comma, line or block."""

    node: ast.AST
    #: With the branch that it leaves empty, whichever branch is taken then.
    branch: bool = False


class Insert(msgspec.Struct, frozen=True):
    """A statement is before or after ``anchor``: one of several lines parts the statements of one that it comes between."""

    anchor: ast.stmt
    code: str
    after: bool = True
    #: Also beside the first or last of several statements in a line.
    own_line: bool = False
    #: Before the comments right above ``anchor`` as well, which are about it.
    above_comments: bool = False


class Guard(msgspec.Struct, frozen=True):
    """``statement``, which has lines of its own, runs only where ``test`` holds."""

    statement: ast.stmt
    test: str


class Import(msgspec.Struct, frozen=True):
    """The file imports ``module``, as ``alias`` where one is given; nothing is done where it does already.

    ``code`` is written instead of the plain statement. ``there`` says that it does import it where that is needed, so that
    nothing is added: the import only has to stay. What is imported from ``brings`` is only there after it.
    """

    module: str
    alias: str = ""
    code: str = ""
    there: bool = False
    brings: str = ""


class Define(msgspec.Struct, frozen=True):
    """A statement behind the imports that gives ``name`` its value, once in the file.

    Where ``user``, the first statement of the top level that needs the value, runs before that, ``early`` is in front of it.
    """

    name: str
    code: str
    user: ast.stmt | None = None
    early: str = ""


Change = Replace | Rename | Remove | Insert | Guard | Import | Define


class Rewrite(msgspec.Struct, frozen=True):
    """Changes that are made together or not at all; those of one ``group`` in the file change together as well."""

    title: str
    safety: Safety
    changes: tuple[Change, ...]
    group: str = ""
    #: Nobody needs what is removed or renamed. The styles for several devices make no other rewrite that removes or renames.
    harmless: bool = False
    #: It names Gaudi on purpose, behind a condition or a helper, because the target requests it.
    vendor: bool = False

    def fits(self, style: Style, is_named: Callable[[str], bool]) -> bool:
        """May the rewrite be made in code of this style: does it run where it ran before, and name no vendor if it must not?"""
        if style == "native":
            return True
        given_up = (Remove, Rename) if style == "dual" else (Remove,)
        if not self.harmless and any(isinstance(c, given_up) for c in self.changes):
            return False
        if style == "dual" or self.vendor:
            return True
        texts = (t for c in self.changes for t in (*written(c), getattr(c, "writes", "")))
        return not any(map(is_named, texts))


def written(change: Change) -> Iterator[str]:
    """The texts that a change writes, as far as it has them."""
    for field in ("new", "name", "tail", "code", "test", "module"):
        text = getattr(change, field, None)
        if isinstance(text, str) and not getattr(change, "there", False):
            yield text
