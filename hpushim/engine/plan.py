"""Which fixes are made together in one pass: groups whole, and no node changed by two of them."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from hpushim.engine.base.edits import overlap
from hpushim.engine.python.changes import Change, Guard, Insert, Remove, Rename, Replace
from hpushim.model import Edit, Finding

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


@dataclass(slots=True, eq=False)
class Group:
    """Findings whose fixes are made together, by their index: changes of nodes in Python, edits of text elsewhere."""

    members: list[int]
    codes: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    edits: tuple[Edit, ...] = ()


@dataclass(slots=True)
class Plan:
    """What one pass does to a text."""

    taken: list[Group] = field(default_factory=list)
    #: They want what another group has taken; the next pass may find them again.
    waiting: list[Group] = field(default_factory=list)
    #: They contradict themselves or the text: group and why.
    broken: list[tuple[Group, str]] = field(default_factory=list)
    #: Of files that are not Python, in text order.
    edits: tuple[Edit, ...] = ()


def groups(
    findings: Sequence[Finding], changes: Sequence[tuple[Change, ...]], allowed: Sequence[bool]
) -> list[Group]:
    """The groups of the findings whose fix is allowed, in the order in which they are tried.

    A group with one member that is not allowed falls as a whole.
    """
    named: dict[str, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.fix is not None and (finding.fix.edits or changes[index] or finding.fix.group):
            named.setdefault(finding.fix.group or f"\0{index}", []).append(index)
    found: list[Group] = []
    for members in named.values():
        if all(allowed[index] for index in members):
            edits: dict[Edit, None] = {}
            wanted: dict[Change, None] = {}
            for index in members:
                fix = findings[index].fix
                edits.update(dict.fromkeys(fix.edits if fix else ()))
                wanted.update(dict.fromkeys(changes[index]))
            codes = tuple(sorted({findings[index].code for index in members}))
            if edits or wanted:
                found.append(Group(members, codes, tuple(wanted), tuple(edits)))
    found.sort(key=lambda group: _order(findings, group))
    return found


def _order(findings: Sequence[Finding], group: Group) -> tuple[int, int, tuple[str, ...], int]:
    spans = [edit.span for edit in group.edits] or [findings[i].span for i in group.members]
    return min(s.start for s in spans), -max(s.end for s in spans), group.codes, group.members[0]


# -- Python ---------------------------------------------------------------------------------


def plan_changes(module: Module, candidates: Iterable[Group]) -> Plan:
    """Which groups can be made to one module at once."""
    result = Plan()
    taken = _Taken(module)
    for group in candidates:
        changes = _without_swallowed(module, group.changes)
        if taken.admits(changes):
            taken.add(changes)
            group.changes = changes
            result.taken.append(group)
        else:
            result.waiting.append(group)
    return result


def swallows(change: Change) -> bool:
    """Is nothing left of what stood in the node?"""
    return isinstance(change, (Remove, Rename)) or (isinstance(change, Replace) and change.swallows)


def _about(change: Change) -> ast.AST | None:
    if isinstance(change, Insert):
        return change.anchor
    if isinstance(change, Guard):
        return change.statement
    return change.node if isinstance(change, (Replace, Remove, Rename)) else None


def _without_swallowed(module: Module, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes of one group without those inside a node that another of them replaces or removes."""
    nodes = {
        change.node
        for change in changes
        if isinstance(change, (Remove, Replace, Rename)) and swallows(change)
    }
    if not nodes:
        return changes
    return tuple(
        change
        for change in changes
        if (about := _about(change)) is None
        or not any(above in nodes for above in module.ancestors(about))
    )


class _Taken:
    """The nodes that the changes taken so far are about."""

    def __init__(self, module: Module) -> None:
        self._ancestors: Callable[[ast.AST], Iterable[ast.AST]] = module.ancestors
        self._changes: dict[ast.AST, Change] = {}
        self._swallowed: set[ast.AST] = set()
        #: Everything around a node that is changed.
        self._around: set[ast.AST] = set()

    def admits(self, changes: Iterable[Change]) -> bool:
        return all(self._admits(change) for change in changes)

    def _admits(self, change: Change) -> bool:
        node = _about(change)
        if node is None:
            return True
        known = self._changes.get(node)
        if known is not None and not isinstance(change, (Insert, Guard)):
            return known == change
        if node in self._swallowed or any(
            above in self._swallowed for above in self._ancestors(node)
        ):
            return False
        return not (swallows(change) and node in self._around)

    def add(self, changes: Iterable[Change]) -> None:
        for change in changes:
            node = _about(change)
            if node is None:
                continue
            if not isinstance(change, (Insert, Guard)):
                self._changes[node] = change
                if swallows(change):
                    self._swallowed.add(node)
            self._around.update(self._ancestors(node))


# -- other files ----------------------------------------------------------------------------


def plan_edits(data: bytes, candidates: Iterable[Group]) -> Plan:
    """Which groups can be made to a text at once."""
    result = Plan()
    taken = _TakenEdits()
    for group in candidates:
        why = _contradiction(data, group.edits)
        if why is not None:
            result.broken.append((group, why))
        elif any(taken.overlaps(edit) for edit in group.edits):
            result.waiting.append(group)
        else:
            for edit in group.edits:
                taken.add(edit)
            result.taken.append(group)
    result.edits = tuple(taken.edits)
    return result


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


class _TakenEdits:
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
