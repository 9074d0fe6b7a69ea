"""Fused optimizers of torch have kernels for CUDA; whether Gaudi has them is the matrix's to say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._arguments import drop
from ._claims import claim, kept_whole
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_OPTIONS = ("fused",)
_ROW = "torch.optim.Adam(fused=True)"


class FusedOptimizer(Rule):
    """``fused=True``, and the test for CUDA that decides it."""

    code = "HPU601"
    name = "fused-optimizer"
    markers = (b"fused",)
    also: ClassVar[dict[str, str]] = {"HPU605": "fused-if-cuda"}

    def __init__(self) -> None:
        self._tests: dict[ast.expr, ast.keyword] = {}
        self._plain: list[tuple[ast.Call, ast.keyword]] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        if ask(module, _ROW).status in ("native", "changed", "partial"):
            return
        for part in module.of_type(ast.keyword):
            if part.arg in _OPTIONS:
                call = module.parent(part)
                if isinstance(call, ast.Call) and self._for_optimizer(module, call):
                    self._option(module, call, part)
        for test in self._tests:
            claim(module, test)
        yield from ()

    def _for_optimizer(self, module: Module, call: ast.Call) -> bool:
        name = module.qualified(call.func) or ""
        return name.startswith("torch.optim.") or name == "builtins.dict"

    def _option(self, module: Module, call: ast.Call, option: ast.keyword) -> None:
        if module.constant(option.value) is not True:
            for value in _assigned(module, option.value):
                if _asks_for_cuda(module, value):
                    self._tests[value] = option
            return
        guarded = False
        for test in _guards(module, call):
            for value in _assigned(module, test):
                if _asks_for_cuda(module, value):
                    self._tests[value] = option
                    guarded = True
        optimizer = (module.qualified(call.func) or "").startswith("torch.optim.")
        if optimizer and not guarded:
            self._plain.append((call, option))

    def on_module(self, module: Module) -> Iterator[Finding]:
        answer = ask(module, _ROW)
        for test, option in self._tests.items():
            yield self.finding(
                module,
                test,
                f"this decides `{option.arg}=`, whose kernels for Gaudi are not established; "
                "it stays off, the numbers are the same",
                fix=Fix("leave the optimizer unfused", "safe", (module.replace(test, "False"),)),
                row=answer.row,
                code="HPU605",
            )
        for call, option in self._plain:
            yield self.finding(
                module,
                option,
                f"`{module.source(option)}` needs kernels that are not established for Gaudi; "
                "without it the numbers are the same",
                fix=Fix(
                    "leave the optimizer unfused", "safe", tuple(drop(module, call, *_OPTIONS))
                ),
                row=answer.row,
            )


def _assigned(module: Module, node: ast.expr) -> list[ast.expr]:
    """The whole expressions that a name is given, or the expression itself."""
    if not isinstance(node, ast.Name):
        return [node]
    return [b.value for b in module.bindings(node) if b.kind == "assign" and b.value is not None]


def _guards(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The conditions under which ``node`` is evaluated, innermost first, inside its function."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if (isinstance(above, ast.IfExp) and above.body is child) or (
            isinstance(above, ast.If) and any(s is child for s in above.body)
        ):
            yield above.test
        child = above


def _asks_for_cuda(module: Module, test: ast.expr) -> bool:
    """Does the expression test for CUDA, in words or through ``is_available``?"""
    for part in ast.walk(test):
        if isinstance(part, ast.Compare) and any(
            isinstance(item, ast.Constant) and item.value == "cuda"
            for side in (part.left, *part.comparators)
            for item in ast.walk(side)
        ):
            return True
        if isinstance(part, ast.Attribute) and part.attr in ("is_cuda", "is_available"):
            name = module.qualified(part)
            if part.attr == "is_cuda" or name == "torch.cuda.is_available":
                return True
    return False
