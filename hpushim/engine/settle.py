"""One text, rewritten until nothing is left to rewrite.

Each pass finds, plans, splices and proves; passes go on until one finds nothing more to do. What cannot be
proved, or does not come to rest, is taken back and reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hpushim.engine import apply
from hpushim.engine.diagnostics import diagnostic
from hpushim.engine.document import Document, Kind
from hpushim.engine.run import Context, Examined, Unparsable, examine, parse
from hpushim.engine.syntax import Module
from hpushim.engine.text import Text
from hpushim.model import Edit, Finding, Span

_PASSES = 8


class Settled(msgspec.Struct, frozen=True):
    """What became of one text. ``steps`` are the edits of each pass, in terms of the text before it."""

    text: str
    findings: tuple[Finding, ...]
    steps: tuple[tuple[Edit, ...], ...] = ()


class _Pass(msgspec.Struct):
    """What one pass did."""

    edits: tuple[Edit, ...]
    applied: frozenset[int]
    rejected: tuple[tuple[apply.Unit, str, str], ...]  # unit, code, why
    after: str
    #: The text afterwards, parsed for the proof and good for the next pass.
    module: Module | None


def settle(text: str, kind: Kind, path: str, context: Context) -> Settled:
    """Applies the allowed fixes to ``text``. Raises :class:`Unparsable` when it does not parse."""
    banned: set[str] = set()
    while True:
        outcome = _attempt(text, kind, path, context, banned)
        if isinstance(outcome, Settled):
            return outcome
        if outcome <= banned:
            # Nothing new to blame: leave the text alone.
            return Settled(text, examine(text, kind, path, context).findings)
        banned |= outcome


def allowed(found: Examined, context: Context, banned: set[str] | frozenset[str]) -> list[bool]:
    """For each finding, whether its fix may be applied."""
    return [
        finding.fix is not None
        and finding.fix.group not in found.held
        and finding.code not in banned
        and (finding.fix.safety == "safe" or (context.unsafe and finding.fix.safety == "unsafe"))
        for finding in found.findings
    ]


def _attempt(
    text: str, kind: Kind, path: str, context: Context, banned: set[str]
) -> Settled | set[str]:
    """The settled text, or the codes that keep on changing it."""
    ledger = _Ledger()
    current = text
    module: Module | None = None
    steps: list[tuple[Edit, ...]] = []
    for number in range(_PASSES):
        try:
            found = examine(current, kind, path, context, module)
        except Unparsable:
            if not steps:
                raise
            return {code for codes in ledger.codes for code in codes}
        done = _pass(found, allowed(found, context, banned), context)
        module = done.module
        ledger.enter(found, done, first=number == 0)
        if not done.edits:
            ledger.close(banned)
            if kind == "notebook" and steps:
                current, steps = _tidied(text, current, steps)
            return Settled(current, tuple(ledger.findings), tuple(steps))
        steps.append(done.edits)
        current = done.after
        ledger.step(done.edits)
    return ledger.codes[-1]


def _tidied(
    before: str, after: str, steps: list[tuple[Edit, ...]]
) -> tuple[str, list[tuple[Edit, ...]]]:
    """A notebook without the empty strings that deletions leave in its cells."""
    from hpushim.engine import notebook

    data = after.encode()
    edits = notebook.tidy(before.encode(), data)
    return (apply.splice(data, edits).decode(), [*steps, edits]) if edits else (after, steps)


def _pass(found: Examined, permitted: list[bool], context: Context) -> _Pass:
    """Plans and proves; units that cannot be proved are left out one by one."""
    data = found.text.data
    candidates = apply.units(found.findings, permitted)
    planned = apply.plan(data, candidates)
    rejected = [
        (unit, "HPU006" if why.endswith("overlap") else "HPU004", why)
        for unit, why in planned.broken
    ]
    proof = _Proof(found.text, planned.edits, context)
    if proof.why is not None:
        good: list[apply.Unit] = []
        for unit in planned.taken:
            alone = _Proof(found.text, apply.plan(data, [unit]).edits, context)
            if alone.why is None:
                good.append(unit)
            else:
                rejected.append((unit, "HPU004", alone.why))
        planned = apply.plan(data, good)
        proof = _Proof(found.text, planned.edits, context)
        if proof.why is not None:
            rejected += [(unit, "HPU004", proof.why) for unit in planned.taken]
            planned = apply.Plan()
            proof = _Proof(found.text, (), context)
    applied = frozenset(index for unit in planned.taken for index in unit.members)
    return _Pass(planned.edits, applied, tuple(rejected), proof.after, proof.module)


class _Proof:
    """A text with edits made, and why they cannot be trusted, if so."""

    def __init__(self, text: Text, edits: Sequence[Edit], context: Context) -> None:
        self.module: Module | None = None
        self.why: str | None = None
        if not edits:
            self.after = text.text
            return
        data = apply.splice(text.data, edits)
        self.after = data.decode()
        if isinstance(text, Module):
            try:
                self.module = parse(self.after, text.path, context)
            except Unparsable as error:
                self.why = f"the result is {error.finding.message.partition(';')[0]}"
            else:
                self.why = apply.unproven(text.data, data, edits, text.tree, self.module.tree)
        elif isinstance(text, Document):
            self.why = text.unproven(data)


class _Ledger:
    """The findings of all passes in terms of the first text, with what was applied."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.codes: list[set[str]] = []  # that changed the text, by pass
        self._places: list[apply.Places] = []
        self._known: dict[tuple[str, int], int] = {}
        self._rejected: dict[tuple[str, int], tuple[apply.Unit, str, str]] = {}
        self._text: Examined | None = None
        self._last: set[tuple[str, int]] = set()  # what the last pass still found

    def enter(self, found: Examined, done: _Pass, *, first: bool) -> None:
        self._rejected = {}
        self._last = {(f.code, self._back(f.span.start)) for f in found.findings}
        if first:
            self._text = found
        self.codes.append({found.findings[index].code for index in done.applied})
        for index, finding in enumerate(found.findings):
            applied = index in done.applied
            start = self._back(finding.span.start)
            key = (finding.code, start)
            if first:
                self._known.setdefault(key, len(self.findings))
                self.findings.append(
                    msgspec.structs.replace(finding, applied=True) if applied else finding
                )
            elif applied and key in self._known:
                place = self._known[key]
                self.findings[place] = msgspec.structs.replace(self.findings[place], applied=True)
            elif applied:
                self._known[key] = len(self.findings)
                self.findings.append(self._moved(finding, start))
        for unit, code, why in done.rejected:
            finding = found.findings[unit.members[0]]
            self._rejected[code, self._back(finding.span.start)] = (unit, finding.code, why)

    def step(self, edits: tuple[Edit, ...]) -> None:
        self._places.append(apply.Places(edits))

    def close(self, banned: set[str]) -> None:
        """Adds what has to be said about rewrites that did not come about."""
        assert self._text is not None
        text = self._text.text
        for place, finding in enumerate(self.findings):
            # Waiting for a wider rewrite that took its code away: nothing is left to do.
            gone = (finding.code, finding.span.start) not in self._last
            if gone and self._places and finding.safety == "safe" and finding.fix is not None:
                self.findings[place] = msgspec.structs.replace(finding, applied=True)
        for (code, start), (_, rule, why) in self._rejected.items():
            self.findings.append(
                diagnostic(
                    code,
                    f"the rewrite of {rule} was not made: {why}",
                    Span(start, start),
                    text.position(start),
                )
            )
        for rule in sorted(banned):
            self.findings.append(
                diagnostic(
                    "HPU004",
                    f"the rewrites of {rule} were taken back: they never came to an end; please report it",
                )
            )
        self.findings.sort(key=lambda finding: (finding.span.start, finding.code))

    def _back(self, offset: int) -> int:
        for places in reversed(self._places):
            offset = places.before(offset)
        return offset

    def _moved(self, finding: Finding, start: int) -> Finding:
        """A finding of a later pass, shown where its text came from; its edits mean nothing there."""
        assert self._text is not None
        end = max(start, self._back(finding.span.end))
        line, column = self._text.text.position(start)
        end_line, end_column = self._text.text.position(end)
        return msgspec.structs.replace(
            finding,
            span=Span(start, end),
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            fix=None,
            applied=True,
        )
