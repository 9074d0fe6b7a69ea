"""``PT_HPU_LAZY_MODE`` in launchers and containers says the mode that the code is written for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from hpushim.engine.data.entries import Entry
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command, Word
from hpushim.model import Finding, Fix, Span

from ..analysis.modes import VARIABLE, contradicts, wanted
from ..analysis.verdict import ask

_PAIR = re.compile(rf"{VARIABLE}=(?P<value>\w*)")
_DEFAULT = re.compile(r"\$\{\w+:?-(?P<value>\w*)\}[\"']?$")


class ExecutionMode(TextRule):
    """``export PT_HPU_LAZY_MODE=1`` where eager mode is the target."""

    HPU830 = Code("lazy-mode-disagrees", fix="safe")
    kinds = frozenset({"shell", "dockerfile", "makefile", "notebook", "yaml"})
    markers = (VARIABLE,)

    def check(self, document: Document) -> Iterator[Finding]:
        if not wanted(document):
            return
        if document.kind == "yaml":
            for entry in document.entries:
                yield from self._entry(document, entry)
            return
        given = [*document.script.assignments]
        given += [a for i in document.instructions for a in i.assignments]
        words = {a.value.span: a.value for a in given if a.name == VARIABLE and a.value is not None}
        for command in document.script.commands:
            words.update((value.span, value) for value in _handed_on(command))
        for place in sorted(words):
            yield from self._word(document, words[place])

    def _word(self, document: Document, word: Word) -> Iterator[Finding]:
        default = _DEFAULT.search(document.source(word.span))
        value = default["value"] if default else word.text
        if not contradicts(document, value):
            return
        at = word.inner
        if default:
            start = word.span.start + default.start("value")
            at = Span(start, start + len(value))
        yield self._mode_finding(document, word.span, value, at)

    def _entry(self, document: Document, entry: Entry) -> Iterator[Finding]:
        """A mapping, an item ``NAME=value`` or Kubernetes' ``name`` and ``value``."""
        written = document.source(entry.span)
        pair = _PAIR.fullmatch(str(entry.value))
        value = pair["value"] if pair else str(entry.value)
        named = bool(entry.path) and entry.path[-1] == VARIABLE
        if not (pair or named or self._of_kubernetes(document, entry)):
            return
        if entry.kind == "scalar" and contradicts(document, value) and value in written:
            end = entry.span.start + len(written[: written.rindex(value)].encode()) + len(value)
            yield self._mode_finding(document, entry.span, value, Span(end - len(value), end))

    def _of_kubernetes(self, document: Document, entry: Entry) -> bool:
        if not entry.path or entry.path[-1] != "value":
            return False
        beside = (*entry.path[:-1], "name")
        return any(e.path == beside and e.value == VARIABLE for e in document.entries)

    def _mode_finding(
        self, document: Document, where: Span, value: str, at: Span | None
    ) -> Finding:
        new = wanted(document)
        fix = None
        if at is not None:
            fix = Fix(f"set {VARIABLE}={new}", "safe", (document.replace(at, new),))
        return self.finding(
            where,
            f"`{VARIABLE}` is {value} here; {document.target.mode} mode needs {new}",
            fix=fix,
            row=ask(document, VARIABLE).row,
        )


def _handed_on(command: Command) -> Iterator[Word]:
    """The values in `docker run -e NAME=1`, `mpirun -x NAME=1`, `env NAME=1 python`."""
    for before, word in pairwise(command.words):
        option = before.text.startswith("-") or command.program == "env"
        if option and word.key == VARIABLE and word.value is not None:
            yield word.value
