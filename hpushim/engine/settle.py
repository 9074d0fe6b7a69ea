"""One text, rewritten until nothing is left to rewrite.

Each pass finds, plans, rewrites and proves; passes go on until one finds nothing more to do. What cannot be
proved, or does not come to rest, is taken back and reported.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Protocol

import msgspec

from hpushim.engine.assess import examine_document, examine_module, parse
from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.edits import Places, composed, overlap, splice
from hpushim.engine.base.text import Text
from hpushim.engine.context import Context, Examined, Unparsable
from hpushim.engine.data.document import Document
from hpushim.engine.plan import Group, Plan, groups, plan_changes, plan_edits
from hpushim.engine.python import imports, lines
from hpushim.engine.python.changes import Guard, Insert, Remove, Replace
from hpushim.engine.python.folding import folded
from hpushim.engine.python.module import Module
from hpushim.engine.python.proof import unproven
from hpushim.engine.python.rewrite import NotRewritable, rewrite
from hpushim.model import Edit, Finding, Fix, Origin, Span

_PASSES = 8


class Settled(msgspec.Struct, frozen=True):
    """What became of one text. ``steps`` are the edits of each pass, in terms of the text before it."""

    text: str
    findings: tuple[Finding, ...]
    steps: tuple[tuple[Edit, ...], ...] = ()


class Made(msgspec.Struct):
    """A text with some groups of fixes made, or why that cannot be trusted."""

    after: str
    edits: tuple[Edit, ...] = ()
    why: str | None = None
    #: The text afterwards, parsed for the proof and good for the next pass.
    module: Module | None = None


class Workshop(Protocol):
    """How texts of one kind are examined and rewritten."""

    def examine(self, text: str, module: Module | None) -> Examined: ...

    def plan(self, found: Examined, candidates: list[Group]) -> Plan: ...

    def make(self, found: Examined, taken: Sequence[Group]) -> Made: ...

    def folded(self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text) -> Made | None:
        """The text without the choices that the steps have made, if there are such."""
        ...

    def broken(
        self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text
    ) -> tuple[Edit, ...]:
        """The edits that break the lines which the steps have made too long."""
        ...


def settle_module(
    module: Module, context: Context, editable: Callable[[Edit], bool] | None = None
) -> Settled:
    """Applies the allowed fixes to Python source.

    What would need an edit that is not ``editable`` is shown, and not made.
    """
    return _settle(module.text, _Python(module, context, editable), context)


def settle_document(document: Document, context: Context) -> Settled:
    """Applies the allowed fixes to a file that is not Python."""
    return _settle(document.text, _Other(document, context), context)


def _settle(text: str, workshop: Workshop, context: Context) -> Settled:
    banned: set[str] = set()
    while True:
        outcome = _attempt(text, workshop, context, banned)
        if isinstance(outcome, Settled):
            return outcome
        if outcome <= banned:
            # Nothing new to blame: leave the text alone.
            return Settled(text, workshop.examine(text, None).findings)
        banned |= outcome


def allowed(
    found: Examined,
    context: Context,
    banned: Collection[str] = (),
    back: Callable[[int], int] = lambda offset: offset,
) -> list[bool]:
    """For each finding, whether its fix may be applied. ``back`` gives the place in the text as it was at first."""
    path = found.text.path
    return [
        finding.fix is not None
        and finding.fix.group not in found.held
        and finding.code not in banned
        and context.makes(finding.fix.safety, Origin(path, finding.code, back(finding.span.start)))
        for finding in found.findings
    ]


def _attempt(
    text: str, workshop: Workshop, context: Context, banned: set[str]
) -> Settled | set[str]:
    """The settled text, or the codes that keep on changing it."""
    record = _Record()
    current = text
    module: Module | None = None
    steps: list[tuple[Edit, ...]] = []
    for number in range(_PASSES):
        try:
            found = workshop.examine(current, module)
        except Unparsable:
            if not steps:
                raise
            return {code for codes in record.codes for code in codes}
        done = _pass(found, allowed(found, context, banned, record.back), workshop)
        module = done.made.module
        record.enter(found, done, first=number == 0)
        if not done.made.edits:
            left = workshop.folded(text, steps, found.text) if steps and number < _PASSES - 1 else None  # fmt: skip
            if left is not None and left.edits:
                steps.append(left.edits)
                current, module = left.after, left.module
                record.step(left.edits)
                continue
            record.close(banned)
            last = workshop.broken(text, tuple(steps), found.text) if steps else ()
            if last:
                current = splice(current.encode(), last).decode()
                steps.append(last)
            return Settled(current, tuple(record.findings), tuple(steps))
        steps.append(done.made.edits)
        current = done.made.after
        record.step(done.made.edits)
    return record.codes[-1]


class _Pass(msgspec.Struct):
    """What one pass did."""

    made: Made
    applied: frozenset[int]
    rejected: list[tuple[Group, str, str]]  # group, code, why
    shown: frozenset[int]  # findings whose fix cannot be made here


def _pass(found: Examined, permitted: list[bool], workshop: Workshop) -> _Pass:
    """Plans, rewrites and proves; groups that cannot be proved are left out one by one."""
    planned = workshop.plan(found, groups(found.findings, found.changes, permitted))
    rejected = [
        (group, "HPU006" if why.endswith("overlap") else "HPU004", why)
        for group, why in planned.broken
    ]
    taken = planned.taken
    made = workshop.make(found, taken)
    if made.why is not None:
        good: list[Group] = []
        for group in taken:
            alone = workshop.make(found, [group])
            if alone.why is None:
                good.append(group)
            else:
                rejected.append((group, "HPU004", alone.why))
        taken = good
        made = workshop.make(found, taken)
        if made.why is not None:
            taken, refused = together(found, good, workshop)
            rejected += refused
            made = workshop.make(found, taken)
    shown = {i for group, _, why in rejected if why == _NOT_EDITABLE for i in group.members}
    rejected = [item for item in rejected if item[2] != _NOT_EDITABLE]
    applied = frozenset(index for group in taken for index in group.members)
    return _Pass(made, applied, rejected, frozenset(shown))


def together(
    found: Examined, good: Sequence[Group], workshop: Workshop
) -> tuple[list[Group], list[tuple[Group, str, str]]]:
    """The groups that can be made one after the other, and those that cannot beside them."""
    taken: list[Group] = []
    refused: list[tuple[Group, str, str]] = []
    for group in good:
        why = workshop.make(found, [*taken, group]).why
        if why is None:
            taken.append(group)
        else:
            refused.append((group, "HPU004", why))
    return taken, refused


_NOT_EDITABLE = "its place cannot be edited"


class _Python:
    """Python source: changes of nodes, made by libcst."""

    def __init__(
        self, first: Module, context: Context, editable: Callable[[Edit], bool] | None
    ) -> None:
        self._first = first
        self._path = first.path
        self._context = context
        self._editable = editable
        #: The edits of each pass that lead from the first text to one.
        self._way: dict[str, tuple[tuple[Edit, ...], ...]] = {}

    def examine(self, text: str, module: Module | None) -> Examined:
        if module is None:
            first = self._first
            module = first if text == first.text else parse(text, self._path, self._context)
        return examine_module(module, self._context)

    def plan(self, found: Examined, candidates: list[Group]) -> Plan:
        assert isinstance(found.text, Module)
        return plan_changes(found.text, candidates)

    def make(self, found: Examined, taken: Sequence[Group]) -> Made:
        before = found.text
        assert isinstance(before, Module)
        changes = [change for group in taken for change in group.changes]
        texts = {edit for group in taken for edit in group.edits}  # of comments, which have no node
        if not changes and not texts:
            return Made(before.text)
        return self._made(before, imports.resolved(before, changes), texts)

    def _made(
        self, before: Module, changes: Iterable[Replace | Remove | Insert | Guard], texts: Collection[Edit],
        also: Collection[ast.AST] = (),
    ) -> Made:  # fmt: skip
        """``before`` with changes of nodes and edits of text, which touch the nodes ``also``."""
        try:
            made, touched = rewrite(before, changes)
        except NotRewritable as error:
            return Made(before.text, why=str(error))
        edits = tuple(sorted((*made, *texts), key=lambda edit: edit.span))
        if texts and any(overlap(one, other) for one, other in pairwise(edits)):
            return Made(before.text, why="another rewrite overlaps it")
        return self._proved(before, edits, {*touched, *also})

    def folded(self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text) -> Made | None:
        assert isinstance(after, Module)
        changes, edits, touched = folded(self._first, after, composed(before.encode(), steps))
        if not changes and not edits:
            return None
        return self._made(after, imports.resolved(after, changes), edits, touched)

    def broken(
        self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text
    ) -> tuple[Edit, ...]:
        if not isinstance(after, Module) or self._editable or after.target.style != "agnostic":
            return ()  # a cell of a notebook has lines of its own
        changed: list[Span] = []
        moved, most = 0, lines.limit(before)
        for edit in composed(before.encode(), steps):
            length = len(edit.new.encode())
            start = edit.span.start + moved
            if lines.longest(before.encode(), edit.span) <= most:  # the author keeps such lines
                changed.append(Span(start, start + length))
            moved += length - (edit.span.end - edit.span.start)
        edits = tuple(lines.broken(after, changed, most))
        try:
            same = ast.dump(ast.parse(splice(after.data, edits))) == ast.dump(after.tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            same = False
        return edits if same else ()

    def _proved(
        self, before: Module, edits: tuple[Edit, ...], touched: Collection[ast.AST]
    ) -> Made:
        after = splice(before.data, edits).decode()
        if self._editable is not None:
            way = (*self._way.get(before.text, ()), edits)
            if not all(map(self._editable, composed(self._first.data, way))):
                return Made(before.text, why=_NOT_EDITABLE)
            self._way[after] = way
        try:
            module = parse(after, self._path, self._context)
        except Unparsable as error:
            return Made(before.text, why=f"the result is {error.finding.message.partition(';')[0]}")
        why = unproven(before, module, edits, touched)
        return Made(before.text, why=why) if why else Made(after, edits, module=module)


class _Other:
    """Any other file: edits of text."""

    def __init__(self, document: Document, context: Context) -> None:
        self._first = document
        self._context = context

    def examine(self, text: str, module: Module | None) -> Examined:
        first = self._first
        document = first if text == first.text else first.again(text)
        return examine_document(document, self._context)

    def plan(self, found: Examined, candidates: list[Group]) -> Plan:
        return plan_edits(found.text.data, candidates)

    def make(self, found: Examined, taken: Sequence[Group]) -> Made:
        before = found.text
        assert isinstance(before, Document)
        edits = plan_edits(before.data, taken).edits
        if not edits:
            return Made(before.text)
        data = splice(before.data, edits)
        why = before.unproven(data)
        return Made(before.text, why=why) if why else Made(data.decode(), edits)

    def folded(self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text) -> Made | None:
        return None

    def broken(
        self, before: str, steps: Sequence[tuple[Edit, ...]], after: Text
    ) -> tuple[Edit, ...]:
        return ()


class _Record:
    """The findings of all passes in terms of the first text, with what was applied."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.codes: list[set[str]] = []  # that changed the text, by pass
        self._places: list[Places] = []
        self._known: dict[tuple[str, int], int] = {}
        self._rejected: dict[tuple[str, int], tuple[str, str]] = {}
        self._text: Examined | None = None
        self._last: set[tuple[str, int]] = set()  # what the last pass still found
        self._final: tuple[Finding, ...] = ()

    def enter(self, found: Examined, done: _Pass, *, first: bool) -> None:
        self._rejected = {}
        self._final = found.findings
        self._last = {(f.code, self.back(f.span.start)) for f in found.findings}
        if first:
            self._text = found
        self.codes.append({found.findings[index].code for index in done.applied})
        for index, finding in enumerate(found.findings):
            applied = index in done.applied
            start = self.back(finding.span.start)
            key = (finding.code, start)
            if first:
                self._known.setdefault(key, len(self.findings))
                self.findings.append(_entered(finding, applied, index in done.shown))
            elif applied and key in self._known:
                place = self._known[key]
                self.findings[place] = msgspec.structs.replace(self.findings[place], applied=True)
            elif applied:
                self._known[key] = len(self.findings)
                self.findings.append(self._moved(finding, start))
        for group, code, why in done.rejected:
            finding = found.findings[group.members[0]]
            self._rejected[code, self.back(finding.span.start)] = (finding.code, why)

    def step(self, edits: tuple[Edit, ...]) -> None:
        self._places.append(Places(edits))

    def close(self, banned: set[str]) -> None:
        """Adds what has to be said about rewrites that did not come about."""
        assert self._text is not None
        text = self._text.text
        for place, finding in enumerate(self.findings):
            # Waiting for a wider rewrite that took its code away: nothing is left to do.
            gone = (finding.code, finding.span.start) not in self._last
            if gone and self._places and finding.safety == "safe" and finding.fix is not None:
                self.findings[place] = msgspec.structs.replace(finding, applied=True)
        said = Counter((f.code, f.message) for f in self.findings)
        for finding in self._final:
            said[finding.code, finding.message] -= 1
            if finding.severity == "unknown" and said[finding.code, finding.message] < 0:
                # The rewrites have left it behind, and nobody has mentioned it before.
                moved = self._moved(finding, self.back(finding.span.start))
                self.findings.append(msgspec.structs.replace(moved, applied=False))
        for (code, start), (rule, why) in self._rejected.items():
            self.findings.append(
                diagnostic(
                    code,
                    f"the rewrite of {rule} is not applied: {why}",
                    Span(start, start),
                    text.position(start),
                )
            )
        for rule in sorted(banned):
            self.findings.append(
                diagnostic(
                    "HPU004",
                    f"the rewrites of {rule} are undone, since they do not converge; please report it",
                )
            )
        self.findings.sort(key=lambda finding: (finding.span.start, finding.code))

    def back(self, offset: int) -> int:
        """The place in the first text of one in the current text."""
        for places in reversed(self._places):
            offset = places.before(offset)
        return offset

    def _moved(self, finding: Finding, start: int) -> Finding:
        """A finding of a later pass, shown where its text came from."""
        assert self._text is not None
        end = max(start, self.back(finding.span.end))
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


def _entered(finding: Finding, applied: bool, shown: bool) -> Finding:
    if applied:
        return msgspec.structs.replace(finding, applied=True)
    if shown and finding.fix is not None:
        fix = Fix(finding.fix.title, "manual", (), finding.fix.group)
        return msgspec.structs.replace(finding, fix=fix)
    return finding
