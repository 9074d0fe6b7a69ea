"""The bridge to Gaudi is imported by the program that uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _imports
from ._claims import kept_whole
from ._entry import is_entry
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_DEVICE = re.compile(r"cuda(:\d+)?|nccl")


class HabanaCore(Rule):
    """A program that puts work on CUDA, and does not import ``habana_frameworks.torch.core``."""

    code = "HPU520"
    name = "bridge-not-imported"
    severity = "info"
    markers = (b"cuda", b"nccl")

    def on_module(self, module: Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        torch = [
            s for s in module.imports if module.scope(s) is module.global_scope and _is_torch(s)
        ]
        if not torch or not is_entry(module) or b"habana_frameworks" in module.markers:
            return
        places = (*module.of_type(ast.Constant), *module.of_type(ast.Attribute))
        if not any(_on_cuda(module, node) for node in places):
            return
        _, edits = _imports.of(module).add(_imports.CORE, _imports.CORE_ALIAS)
        if edits:
            yield self.finding(
                module,
                torch[0],
                "a program for Gaudi imports `habana_frameworks.torch.core`; "
                "from release 1.18 on torch loads it by itself",
                fix=Fix("import the bridge", "safe", edits),
                row=ask(module, _imports.CORE).row,
            )


def _is_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "torch"
    return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)


def _on_cuda(module: Module, node: ast.AST) -> bool:
    """Does ``node`` place something on CUDA, or ask for it?"""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _DEVICE.fullmatch(node.value) is not None
    if isinstance(node, ast.Attribute) and node.attr == "cuda":
        called = isinstance(module.parent(node), ast.Call)
        return called or module.qualified(node) == "torch.cuda"
    return False
