"""Tests that replace a part of ``torch.cuda``: what they expect belongs to what they replace."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hpushim.engine.python.module import Module
    from hpushim.engine.rules.rule import Found

#: The code of what is replaced: ``mock.patch("torch.cuda.is_available")``.
TARGET = "HPU018"


def together(module: Module, found: Sequence[Found]) -> Mapping[Found, Found]:
    """The findings with fixes in such tests, old and new: one group, as sure as what is replaced, or without a fix where that has none.

    A test that says that CUDA is there and expects ``hpu`` holds on no machine, and neither does the reverse.
    """
    owners: dict[ast.AST, list[Found]] = {}
    for item in found:
        if item.finding.code == TARGET and (owner := _owner(module, item.node)) is not None:
            owners.setdefault(owner, []).append(item)
    members, tied = _members(module, found, owners.keys())
    changed: dict[Found, Found] = {}
    for owner, targets in owners.items():
        inside = dict.fromkeys(members.get(owner, ()))
        for item in tuple(inside):
            inside.update(dict.fromkeys(tied.get(_group(item), ())))
        turns = all(target.finding.fix is not None for target in targets)
        group = f"mocked:{targets[0].finding.span.start}"
        changed.update({item: _joined(item, group if turns else None) for item in inside})
    return changed


def _members(
    module: Module, found: Sequence[Found], owners: Collection[ast.AST]
) -> tuple[dict[ast.AST, list[Found]], dict[str, list[Found]]]:
    """The findings with fixes inside each owner, and those of each group."""
    members: dict[ast.AST, list[Found]] = {}
    tied: dict[str, list[Found]] = {}
    for item in found if owners else ():
        if item.finding.fix is None:
            continue
        if group := _group(item):
            tied.setdefault(group, []).append(item)
        for above in (item.node, *module.ancestors(item.node)) if item.node is not None else ():
            if above in owners:
                members.setdefault(above, []).append(item)
    return members, tied


def _group(item: Found) -> str:
    return item.finding.fix.group or "" if item.finding.fix is not None else ""


def _owner(module: Module, node: ast.AST | None) -> ast.AST | None:
    """The outermost function, or the class, that the replacement is for."""
    found: ast.AST | None = None
    for above in module.ancestors(node) if node is not None else ():
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            found is None and isinstance(above, ast.ClassDef)
        ):
            found = above
    return found


def _joined(item: Found, group: str | None) -> Found:
    fix = item.finding.fix
    if fix is None or group is None:
        return item.with_fix(None)
    return item.with_fix(msgspec.structs.replace(fix, group=group)).unsafe()
