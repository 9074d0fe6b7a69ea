"""CUDA and NCCL words in settings and scripts of which no rule has said anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from hpushim.engine.base.kind import Kind
from hpushim.engine.data.entries import Entry
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command, Word
from hpushim.model import Finding, Span

from ..analysis.cuda_words import CudaWord, explained, inside, whole
from ..analysis.launches import Elsewhere, commands
from ..analysis.options import builds

_DATA: frozenset[Kind] = frozenset({"yaml", "json", "toml"})
_SCRIPTS: frozenset[Kind] = frozenset({"shell", "dockerfile", "makefile", "notebook"})
#: Programs that write their words out, look for them, or install packages.
_NOT_STARTED = frozenset(["echo", "printf", "grep", "egrep", "sed", "awk", "pip", "pip3", "conda", "mamba", "apt", "apt-get", "yum", "dnf", "brew", "which", "ls", "cat", "rm", "cp", "mv", "mkdir", "cd", "git", "wget", "curl", "logger"])  # fmt: skip
#: ``device = cuda`` and ``DEVICE ?= cuda``, a line each.
_LINE = re.compile(rb"(?m)^[ \t]*(?P<name>[\w.\-]+)[ \t]*[?:+]?[=:][ \t]*(?P<value>[^#;\r\n]*)")
#: Longer words are shown in part.
_LONG = 60
#: Lines of a script that are no command and no assignment: tests, loops, the cases of a choice.
_OTHER_LINE = re.compile(
    rb"(?m)^[ \t]*(?:(?:(?:el)?if|while|until|unset|for|case|\[\[?|test)[ \t][^#\r\n]*|[\w\"'|]+\))"
)
_WORD = re.compile(
    rb"(?<![\w./\-$])(?:cuda(?::\d+)?|nccl|[A-Z]*_?(?:CUDA|NCCL)_[A-Z0-9_]+)(?![\w./\-])|(?<=\$)\{?(?:CUDA|NCCL)_[A-Z0-9_]+"
)
_READ = re.compile(r"\$\{?(?P<name>\w+)")


class LeftOverValue(TextRule):
    """``where: ${oc.env:WHERE,cuda}``, ``WHERE=${WHERE:-cuda}``."""

    HPU818 = Code(
        "cuda-value-unknown",
        severity="warning",
        lower={
            "unknown": "anything but an environment variable whose counterpart is known",
            "note": "the matrix says that it has no effect",
        },
    )
    kinds = _DATA | _SCRIPTS | {"ini"}
    markers = ("cuda", "nccl", "CUDA_", "NCCL_")

    @classmethod
    def files(cls, path: PurePath, kind: Kind) -> bool:
        return kind in _SCRIPTS or not builds(str(path))

    def check(self, document: Document) -> Iterator[Finding]:
        """Nothing by itself: see :meth:`finish`."""
        yield from ()

    def finish(self, document: Document, said: Said) -> Iterable[Finding]:
        variables: set[str] = set()
        elsewhere = Elsewhere(document) if document.kind in _SCRIPTS else None
        if elsewhere and elsewhere.all:
            return
        for span, found in sorted(_narrowed(document, self._places(document)), key=_place):
            if elsewhere and elsewhere.holds(span):
                continue
            if said.of(span):
                variables.add(found.text)
            elif found.kind != "variable" or found.text not in variables:
                variables.add(found.text)  # a variable is reported once in a file
                shown = found.text if found.kind == "variable" else document.source(span)
                shown = shown if len(shown) < _LONG and "\n" not in shown else found.text
                message, row, severity = explained(
                    document, found.kind, found.text, shown, "in this file"
                )
                yield self.finding(span, message, row=row, severity=severity)

    def _places(self, document: Document) -> Iterator[tuple[Span, CudaWord]]:
        if document.kind in _DATA:
            for entry in document.entries:
                yield from _entry(document, entry)
        elif document.kind in _SCRIPTS:
            yield from _script(document)
        if document.kind in ("ini", "makefile"):
            yield from _lines(document)


def _narrowed(
    document: Document, places: Iterable[tuple[Span, CudaWord]]
) -> Iterator[tuple[Span, CudaWord]]:
    """Each place once; in a value of several lines the word's own."""
    after: dict[tuple[Span, str], int] = {}
    for span, found in dict.fromkeys(places):
        if b"\n" in document.data[span.start : span.end]:
            written = found.text.encode()
            at = document.data.find(written, after.get((span, found.text), span.start), span.end)
            if at >= 0:
                after[span, found.text] = at + len(written)
                yield Span(at, at + len(written)), found
                continue
        yield span, found


def _place(place: tuple[Span, CudaWord]) -> Span:
    return place[0]


# -- settings -------------------------------------------------------------------------------


def _entry(document: Document, entry: Entry) -> Iterator[tuple[Span, CudaWord]]:
    key = whole(entry.name)
    if entry.key is not None and key is not None and key.kind == "variable":
        yield entry.key, key
    if isinstance(entry.value, str):
        found = [word] if (word := whole(entry.value)) else [*inside(entry.value)]
        yield from ((entry.span, word) for word in found)


def _lines(document: Document) -> Iterator[tuple[Span, CudaWord]]:
    for line in _LINE.finditer(document.data):
        span = Span(*line.span("value"))
        yield from _value(document, span, line["value"].decode(errors="replace").strip())
        name = whole(line["name"].decode())
        if name is not None and name.kind == "variable":
            yield Span(*line.span("name")), name


def _value(document: Document, span: Span, text: str) -> Iterator[tuple[Span, CudaWord]]:
    plain = text.strip("\"'")
    found = whole(plain)
    for word in [found] if found else inside(f"={text}" if text.startswith("$") else text):
        yield span, word


# -- scripts --------------------------------------------------------------------------------


def _script(document: Document) -> Iterator[tuple[Span, CudaWord]]:
    for assignment in document.script.assignments:
        name = whole(assignment.name)
        if name is not None and name.kind == "variable":
            yield assignment.name_span, name
        for word in (assignment.value, *assignment.items):
            if word is not None:
                yield from _value(document, word.span, word.text)
                yield from _reads(word)
    for instruction in document.instructions:
        for assignment in instruction.assignments:
            name = whole(assignment.name)
            if name is not None and name.kind == "variable":
                yield assignment.name_span, name
            if assignment.value is not None:
                yield from _value(document, assignment.value.span, assignment.value.text)
    for line in _OTHER_LINE.finditer(document.data) if document.kind != "notebook" else ():
        for match in _WORD.finditer(document.data, *line.span()):
            found = whole(match.group().decode().strip("{"))
            if found is not None:
                yield Span(*match.span()), found
    for command in commands(document):
        if command.program not in _NOT_STARTED:
            yield from _command(document, command)


def _command(document: Document, command: Command) -> Iterator[tuple[Span, CudaWord]]:
    for word in command.words[1:]:
        if not word.text.startswith(("/", "./")):
            yield from _value(document, word.span, word.text)
    for word in command.words:
        yield from _reads(word)


def _reads(word: Word) -> Iterator[tuple[Span, CudaWord]]:
    """Variables that a word expands."""
    if not word.constant:
        for read in _READ.finditer(word.text):
            found = whole(read["name"])
            if found is not None and found.kind == "variable":
                yield word.span, found
