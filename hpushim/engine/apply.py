"""Fixes into text: what is applied together, what has to wait, and the proof that nothing else moved.

A *unit* is what stands or falls together: one fix, or all fixes of one group. Units are taken in text
order, wider ones first; a unit that overlaps one already taken waits for the next pass, when it is
found anew in the changed text. Edits that are the same in several units are made once.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from hpushim.model import Edit, Finding


@dataclass(slots=True, eq=False)
class Unit:
    """Findings whose fixes are applied together, by their index, with all their edits."""

    members: list[int]
    edits: tuple[Edit, ...]
    codes: tuple[str, ...]


@dataclass(slots=True)
class Plan:
    """What one pass does to a text."""

    #: Ordered, not overlapping.
    edits: tuple[Edit, ...] = ()
    taken: list[Unit] = field(default_factory=list)
    #: They overlap a unit that is taken; the next pass may find them again.
    waiting: list[Unit] = field(default_factory=list)
    #: They contradict themselves or the text: unit and why.
    broken: list[tuple[Unit, str]] = field(default_factory=list)


def units(findings: Sequence[Finding], allowed: Sequence[bool]) -> list[Unit]:
    """The units of the findings whose fix is allowed, in the order in which they are tried.

    A group with one member that is not allowed falls as a whole.
    """
    groups: dict[str, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.fix is not None and (finding.fix.edits or finding.fix.group):
            groups.setdefault(finding.fix.group or f"\0{index}", []).append(index)
    found: list[Unit] = []
    for members in groups.values():
        if all(allowed[index] for index in members):
            edits: dict[Edit, None] = {}
            for index in members:
                fix = findings[index].fix
                edits.update(dict.fromkeys(fix.edits if fix else ()))
            codes = tuple(sorted({findings[index].code for index in members}))
            if edits:
                found.append(Unit(members, tuple(edits), codes))
    found.sort(key=_order)
    return found


def _order(unit: Unit) -> tuple[int, int, tuple[str, ...], int]:
    start = min(edit.span.start for edit in unit.edits)
    end = max(edit.span.end for edit in unit.edits)
    return start, -end, unit.codes, unit.members[0]


def plan(data: bytes, candidates: Iterable[Unit]) -> Plan:
    """Which units can be applied to ``data`` at once."""
    result = Plan()
    taken = _Taken()
    for unit in candidates:
        why = _contradiction(data, unit.edits)
        if why is not None:
            result.broken.append((unit, why))
        elif any(taken.overlaps(edit) for edit in unit.edits):
            result.waiting.append(unit)
        else:
            for edit in unit.edits:
                taken.add(edit)
            result.taken.append(unit)
    result.edits = tuple(taken.edits)
    return result


def splice(data: bytes, edits: Iterable[Edit]) -> bytes:
    """``data`` with ``edits`` made; they are ordered and do not overlap."""
    parts: list[bytes] = []
    at = 0
    for edit in edits:
        parts += (data[at : edit.span.start], edit.new.encode())
        at = edit.span.end
    parts.append(data[at:])
    return b"".join(parts)


def overlap(a: Edit, b: Edit) -> bool:
    """Do two different edits want the same bytes? Two insertions at one place do not."""
    if a.span.start == a.span.end:
        return b.span.start < a.span.start < b.span.end
    if b.span.start == b.span.end:
        return a.span.start < b.span.start < a.span.end
    return a.span.start < b.span.end and b.span.start < a.span.end


def _contradiction(data: bytes, edits: tuple[Edit, ...]) -> str | None:
    for edit in edits:
        start, end = edit.span.start, edit.span.end
        if not 0 <= start <= end <= len(data):
            return f"its place {start}–{end} is outside the text"
        if data[start:end] != edit.old.encode():
            found = data[start:end].decode(errors="replace")
            return f"it expected {edit.old[:60]!r} and found {found[:60]!r}"
    ordered = sorted(edits, key=lambda edit: edit.span)
    if any(overlap(a, b) for a, b in pairwise(ordered)):
        return "its own edits overlap"
    return None


class _Taken:
    """The edits taken so far, ordered by place, each once."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self._keys: list[tuple[int, int]] = []
        self._seen: set[Edit] = set()

    def overlaps(self, edit: Edit) -> bool:
        if edit in self._seen:
            return False
        at = bisect.bisect_left(self._keys, (edit.span.start, edit.span.end))
        # Edits that are taken do not overlap each other, so only neighbours can; insertions at
        # one place may be several, hence the walk.
        for step in (-1, 1):
            index = at - 1 if step < 0 else at
            while 0 <= index < len(self.edits):
                other = self.edits[index]
                if other.span.start != other.span.end:
                    if overlap(edit, other):
                        return True
                    if other.span.start != edit.span.start:
                        break
                elif not edit.span.start <= other.span.start <= edit.span.end:
                    break
                elif overlap(edit, other):
                    return True
                index += step
        return False

    def add(self, edit: Edit) -> None:
        if edit in self._seen:
            return
        self._seen.add(edit)
        key = (edit.span.start, edit.span.end)
        at = bisect.bisect_right(self._keys, key)
        self._keys.insert(at, key)
        self.edits.insert(at, edit)


# -- the way back ---------------------------------------------------------------------------


class Places:
    """Offsets of a changed text in terms of the text before."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self._new: list[int] = []  # where each edit's new text starts
        self._edits = edits
        shift = 0
        for edit in edits:
            self._new.append(edit.span.start + shift)
            shift += len(edit.new.encode()) - (edit.span.end - edit.span.start)

    def before(self, offset: int) -> int:
        """Where the byte at ``offset`` stood; bytes that are new stand where they were put."""
        index = bisect.bisect_right(self._new, offset) - 1
        if index < 0:
            return offset
        edit = self._edits[index]
        inside = offset - self._new[index]
        length = len(edit.new.encode())
        if inside < length:
            return min(edit.span.start + inside, edit.span.end)
        return edit.span.end + inside - length

    def after(self, offset: int) -> int:
        """Where the byte at ``offset`` of the text before, which no edit touches, stands now."""
        shift = 0
        for edit in self._edits:
            if edit.span.end > offset:
                break
            shift += len(edit.new.encode()) - (edit.span.end - edit.span.start)
        return offset + shift


# -- the proof ------------------------------------------------------------------------------


def unproven(
    before: bytes, after: bytes, edits: Sequence[Edit], tree: ast.Module, changed: ast.Module
) -> str | None:
    """Why a changed Python text that parses cannot be trusted; None when all is well.

    ``tree`` and ``changed`` are the trees before and after. Every statement that no edit touches must be there
    as before: a quote or bracket that swallows its surroundings moves statements even where it parses.
    """
    old, new = _statements(before, tree), _statements(after, changed)
    mapped: dict[tuple[str, int, int], None] = {}
    starts = [edit.span.start for edit in edits]
    longest = max((edit.span.end - edit.span.start for edit in edits), default=0)
    places = _Shift(edits)
    for kind, start, end in old:
        first = bisect.bisect_left(starts, start - longest)
        touched = False
        for edit in edits[first:]:
            if edit.span.start > end:
                break
            if edit.span.end >= start:
                touched = True
                break
        if not touched:
            mapped[kind, start + places.at(start), end + places.at(end)] = None
    missing = mapped.keys() - set(new)
    if missing:
        kind, start, _ = min(missing, key=lambda item: item[1])
        line = after[:start].count(b"\n") + 1
        return f"a statement that no edit touches ({kind}, line {line}) changed"
    return None


class _Shift:
    def __init__(self, edits: Sequence[Edit]) -> None:
        self._ends = [edit.span.end for edit in edits]
        self._sums = [0]
        for edit in edits:
            grown = len(edit.new.encode()) - (edit.span.end - edit.span.start)
            self._sums.append(self._sums[-1] + grown)

    def at(self, offset: int) -> int:
        return self._sums[bisect.bisect_right(self._ends, offset)]


def _statements(data: bytes, tree: ast.Module) -> list[tuple[str, int, int]]:
    """Kind, start and end of every statement."""
    from hpushim.engine.text import starts_of_lines

    starts = starts_of_lines(data)
    found: list[tuple[str, int, int]] = []
    kind: Any  # mypy takes a class of nodes for unhashable
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
            found.append(
                (
                    node.__class__.__name__,
                    starts[node.lineno - 1] + node.col_offset,
                    starts[end_line - 1] + end_column,
                )
            )
        kind = node.__class__
        for part in _blocks(kind):
            stack += getattr(node, part)
    return found


@cache
def _blocks(kind: type) -> tuple[str, ...]:
    """The fields of a statement, a handler or a case that hold statements, handlers or cases."""
    if not issubclass(kind, (ast.stmt, ast.ExceptHandler, ast.match_case)):
        return ()
    parts = ("body", "orelse", "finalbody", "handlers", "cases")
    return tuple(part for part in parts if part in getattr(kind, "_fields", ()))
