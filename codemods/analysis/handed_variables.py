"""Variables of a script that only hand a value to an option: ``BACKEND=nccl`` for ``--backend $BACKEND``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .launches import commands
from .options import gaudi_value, options

if TYPE_CHECKING:
    from hpushim.engine.data.document import Document
    from hpushim.engine.shell.words import Word

_READ = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_READS = re.compile(rb"\$\{?[#!]?(\w+)")


def handed(document: Document) -> Iterator[tuple[Word, str, str, str]]:
    """Each such value with the option that gets it, what it is, and what it is on Gaudi.

    A variable that is read elsewhere as well, in a test or in a name, is none: what it does there is not seen.
    """
    values = [a for a in document.script.assignments if a.value is not None and a.value.constant]
    if not any(value.value and value.value.text.startswith(("cuda", "nccl")) for value in values):
        return
    given: dict[str, list[str]] = {}
    for command in commands(document):
        for _, option, text in options(command):
            if found := _READ.fullmatch(text):
                given.setdefault(found[1] or found[2], []).append(option)
    reads: dict[str, int] = {}
    for read in _READS.findall(document.data):
        reads[read.decode()] = reads.get(read.decode(), 0) + 1
    for assignment in values:
        named, word = given.get(assignment.name, []), assignment.value
        if word is None or not named or len(named) != reads.get(assignment.name):
            continue
        there = {gaudi_value(option, word.text, document.project) for option in named}
        new = there.pop()
        if new is not None and not there:
            yield word, named[0], word.text, new
