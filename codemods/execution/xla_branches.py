"""Branches for XLA devices: what a program does there, a Gaudi often needs as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import kept_whole
from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_NAMES = frozenset(["is_xla_tensor", "is_xla_device", "is_torch_xla_available", "is_tpu", "use_xla", "use_tpu", "tpu", "xla"])  # fmt: skip


class XlaBranch(Rule):
    """``if x.device.type == "xla":``, ``if is_xla_tensor(x):``."""

    code = "HPU523"
    name = "branch-for-xla"
    severity = "info"
    safety = "manual"
    markers = ()  # no reason to read a file

    def __init__(self) -> None:
        self._tests: set[ast.AST] = set()

    @classmethod
    def applies(cls, module: Module) -> bool:
        return b"torch" in module.data and (b"xla" in module.data or b"tpu" in module.data)

    def on_If(self, module: Module, node: ast.If) -> Iterator[Finding]:
        yield from self._test(module, node.test)

    def on_IfExp(self, module: Module, node: ast.IfExp) -> Iterator[Finding]:
        yield from self._test(module, node.test)

    def _test(self, module: Module, test: ast.expr) -> Iterator[Finding]:
        if kept_whole(module):
            return
        found = next((part for part in ast.walk(test) if _of_xla(module, part)), None)
        if found is not None:
            yield self.finding(
                module,
                found,
                f"`{module.source(found)}` tells XLA devices apart; static shapes, fewer reads and steps that are marked "
                "serve a Gaudi too: see whether it should take this branch",
            )


def _of_xla(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return any(module.constant(side) in ("xla", "tpu") for side in sides)
    if isinstance(node, ast.Attribute):
        return node.attr in _NAMES and not (dotted(module, node) or "").startswith("torch.")
    return isinstance(node, ast.Name) and node.id in _NAMES
