"""Tables whose keys are device types, and tables that merely have such words as keys.

``{"cuda": fast, "cpu": slow}[device.type]`` is looked up with a device; ``{"cuda": seeds, "cpu": seeds}`` that is read
back as ``state["cuda"]``, perhaps in another file, is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.compare.subjects import Evidence

from .device_texts import other_device, read

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_LOOKUPS = ("get", "pop", "setdefault", "__getitem__")


def by_device(module: Module, table: ast.Dict) -> bool:
    """Are the table's keys device types that something is looked up by?"""
    if not all(k is not None and (other_device(k) or read(k)) for k in table.keys):
        return False
    looked_up = list(_lookups(module, table))
    if looked_up:
        return any(map(module.view(Evidence).is_device, looked_up))
    # A constant of the module that this file never reads is read by others, by what they have: a device.
    return len(table.keys) > 1 and _shared_constant(module, table)


def _lookups(module: Module, table: ast.Dict) -> Iterator[ast.expr]:
    """What the table is asked for in this file."""
    for holder in (table, *_reads(module, table)):
        parent = module.parent(holder)
        if isinstance(parent, ast.Subscript) and parent.value is holder:
            yield parent.slice
        elif isinstance(parent, ast.Attribute) and parent.attr in _LOOKUPS:
            call = module.parent(parent)
            if isinstance(call, ast.Call) and call.args:
                yield call.args[0]
        elif isinstance(parent, ast.Compare) and parent.left is not holder:
            yield parent.left


def _reads(module: Module, table: ast.Dict) -> list[ast.expr]:
    """The places that read the name or the attribute which holds the table."""
    statement = module.parent(table)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    found: list[ast.expr] = []
    for target in targets:
        if isinstance(target, ast.Name):
            found += [
                node
                for node in module.index.names(target.id)
                if isinstance(node.ctx, ast.Load)
                and any(b.value is table for b in module.bindings(node))
            ]
        elif isinstance(target, ast.Attribute):
            reads = module.index.attributes(target.attr)
            found += [node for node in reads if isinstance(node.ctx, ast.Load)]
    return found


def _shared_constant(module: Module, table: ast.Dict) -> bool:
    statement = module.parent(table)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return False
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return isinstance(target, ast.Name) and isinstance(module.parent(statement), ast.Module) and target.id.isupper()  # fmt: skip


def table_of(module: Module, node: ast.expr) -> ast.Dict | None:
    """The table that an expression is, in this file."""
    for value in module.values(node):
        if isinstance(value, ast.Dict):
            return value
    return None
