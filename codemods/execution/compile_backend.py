"""torch.compile on Gaudi has a backend of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix

from ._arguments import argument, drop
from ._claims import kept_whole
from ._strings import quoted, retext
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

BACKEND = "hpu_backend"
#: Backends that generate code for CUDA; the others work anywhere or are the user's own.
_CUDA_BACKENDS = ("inductor", "cudagraphs", "tensorrt", "torch_tensorrt")
_COMPILE = "torch.compile"


class CompileBackend(Rule):
    """``torch.compile`` without a backend, or with one that writes CUDA code."""

    code = "HPU510"
    name = "compile-default-backend"
    severity = "error"
    markers = (b"h.compile", b"import compile")
    also: ClassVar[dict[str, str]] = {"HPU511": "compile-inductor-options"}

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if kept_whole(module):
            return
        if module.qualified(node.func) != _COMPILE or any(k.arg is None for k in node.keywords):
            return
        backend = argument(node, "backend")
        if backend is not None and module.constant(backend) not in _CUDA_BACKENDS:
            return
        answer = ask(module, _COMPILE)
        message = "the inductor writes no code for Gaudi; the backend there is `hpu_backend`"
        if module.target.mode == "lazy":
            yield self.finding(
                module,
                node.func,
                "`torch.compile` and lazy mode exclude each other on Gaudi; drop it, or target eager mode",
                row=answer.row,
            )
            return
        edits: list[Edit] = []
        if backend is not None:
            edits.append(retext(module, backend, BACKEND))
        else:
            edits.append(self._given(module, node))
        yield self.finding(
            module,
            node.func,
            message,
            fix=Fix("compile with hpu_backend", answer.safety, tuple(edits)),
            row=answer.row,
        )
        yield from self._options(module, node)

    def _given(self, module: Module, call: ast.Call) -> Edit:
        text = f"backend={quoted(module, BACKEND)}"
        parts = [*call.args, *call.keywords]
        if not parts:
            return module.insert(module.span(call).end - 1, text)
        last = max(parts, key=lambda part: module.span(part).end)
        if last in call.keywords or last in call.args:
            return (
                module.insert(module.span(parts[0]).start, f"{text}, ")
                if not call.args
                else (module.insert(_end(module, call, call.args[-1]), f", {text}"))
            )
        return module.insert(module.span(last).end, f", {text}")

    def _options(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        given = [k for k in call.keywords if k.arg in ("mode", "options") and not _is_none(k.value)]
        if not given:
            return
        answer = ask(module, "torch.compile(mode='max-autotune')")
        names = " and ".join(f"`{k.arg}`" for k in given)
        yield self.finding(
            module,
            given[0],
            f"{names} tunes the inductor; `hpu_backend` takes none of it",
            fix=Fix("drop it", answer.safety, tuple(drop(module, call, "mode", "options"))),
            row=answer.row,
            code="HPU511",
        )

    def on_FunctionDef(self, module: Module, node: ast.FunctionDef) -> Iterator[Finding]:
        if kept_whole(module):
            return
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call) and module.qualified(decorator) == _COMPILE:
                answer = ask(module, _COMPILE)
                text = f"(backend={quoted(module, BACKEND)})"
                edit = module.insert(module.span(decorator).end, text)
                lazy = module.target.mode == "lazy"
                yield self.finding(
                    module,
                    decorator,
                    "the inductor writes no code for Gaudi; the backend there is `hpu_backend`",
                    fix=None if lazy else Fix("compile with hpu_backend", answer.safety, (edit,)),
                    row=answer.row,
                )


def _end(module: Module, call: ast.Call, part: ast.expr) -> int:
    """Where an argument ends, closing parentheses around it included."""
    start, end = module.span(call.func).end, module.span(part).end
    opened = module.data[start : module.span(part).start].count(b"(") - 1
    while opened > 0 and b")" in module.data[end : module.span(call).end - 1]:
        end = module.data.index(b")", end) + 1
        opened -= 1
    return end


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
