"""Subscripts whose index is a mask: ``x[x < 0]``, ``x[mask]``, ``x[~keep, :]``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from hpushim.engine.python.module import Module

from ..analysis.names import word
from .tensors import is_mask, is_tensor

# The patterns begin with the one byte that they look for: everything else is passed over at the speed of memory.
_BRACKETS = re.compile(rb"\[([^\[\]\"']+)\]")
_NESTED = re.compile(rb"\[(?<=[A-Za-z0-9_)\]]\[)([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)+)\]")
_INNER = re.compile(rb"\[[^\[\]]*\]")
_SUBSCRIPTED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_)]")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_COMPARES = re.compile(rb"[<>~]|[=!]=")
_MASK = re.compile(rb"(.*_)?masks?")
_SHAPED = re.compile(r"(\w+)\.(?:unsqueeze|expand|expand_as|repeat|view|reshape)\(")
#: What is in the value of a mask.
_TRUTH = re.compile(
    r"[<>~]|[=!]=|torch\.bool|\.bool\(|is(?:nan|inf|finite|in)\(|logical_|\.(?:eq|ne|gt|lt|ge|le)\("
)


class Masked(NamedTuple):
    """A subscript with a mask among its indices."""

    node: ast.Subscript
    mask: ast.expr


def masked(module: Module) -> list[Masked]:
    """Every subscript of the file that takes or sets what a mask selects, in source order."""
    found: dict[ast.Subscript, Masked] = {}
    for name in _candidates(module):
        for subscript in _around(module, name):
            mask = _mask_of(module, subscript)
            if mask is not None and subscript not in found:
                found[subscript] = Masked(subscript, mask)
    return sorted(found.values(), key=lambda item: module.span(item.node))


def _candidates(module: Module) -> Iterator[ast.expr]:
    """Names and attributes that are in an index which may be a mask."""
    words: set[bytes] = set()
    alone: set[bytes] = set()
    for inside in _BRACKETS.finditer(module.data):
        written = _WORD.findall(inside[1])
        if not written or module.data[inside.start() - 1] not in _SUBSCRIPTED:
            continue
        if _COMPARES.search(inside[1]):
            words.add(written[0])
        else:
            alone.update(written)
    for inside in _NESTED.finditer(module.data):  # `x[batch["mask"] > 0]`
        written = _WORD.findall(inside[1]) if _COMPARES.search(_INNER.sub(b"", inside[1])) else []
        words.update(written[:1])
    alone -= words
    if alone:
        words.update(each for each in alone if _MASK.fullmatch(each))
        true = {*_assigned_truth(module, alone)}
        words.update(true)
        words.update(_shaped_from(module, alone - true))
    for each in sorted(written.decode() for written in words):
        yield from module.index.names(each)
        yield from module.index.attributes(each)


def _assigned_truth(module: Module, names: set[bytes]) -> Iterator[bytes]:
    """Those of some names that are given a value which looks like a mask's."""
    given: list[ast.Assign | ast.AugAssign] = [
        *module.index.statements(ast.Assign),
        *module.index.statements(ast.AugAssign),
    ]
    for statement in given:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in (part for each in targets for part in getattr(each, "elts", [each])):
            name = word(target).encode()
            if name in names and _TRUTH.search(module.source(statement.value)):
                yield name


def _shaped_from(module: Module, names: set[bytes]) -> Iterator[bytes]:
    """Those of some names that are given another shape of a mask: ``pos_idx = pos.unsqueeze(2).expand_as(x)``."""
    shaped: dict[bytes, list[bytes]] = {}
    for statement in module.index.statements(ast.Assign) if names else ():
        for target in statement.targets:
            name = word(target).encode()
            found = _SHAPED.match(module.source(statement.value)) if name in names else None
            if found:
                shaped.setdefault(found[1].encode(), []).append(name)
    for origin in _assigned_truth(module, {*shaped}) if shaped else ():
        yield from shaped[origin]


def _around(module: Module, node: ast.AST) -> Iterator[ast.Subscript]:
    """The subscripts whose index contains a node."""
    above = module.parent(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.Subscript) and above.slice is node:
            yield above
        node, above = above, module.parent(above)


def _mask_of(module: Module, node: ast.Subscript) -> ast.expr | None:
    if isinstance(node.ctx, ast.Del) or not is_tensor(module, node.value):
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return next((part for part in parts if is_mask(module, part)), None)
