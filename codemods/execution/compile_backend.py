"""torch.compile on Gaudi has a backend of its own."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Remove, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.model import Safety

from ..analysis.kinds import defines_method
from ..analysis.names import is_none
from ..analysis.verdict import ask
from ..edits import neutral
from ..edits.arguments import add, argument, called, drop
from ..edits.spelling import COMPILER, agnostic, is_either, kept_for_cuda, quoted, retext, shared
from ..values.tensors import Is, Kinds, used_as_torch

#: Backends that generate code for CUDA; the others work anywhere or are the user's own.
_CUDA_BACKENDS = ("inductor", "cudagraphs", "tensorrt", "torch_tensorrt")
_COMPILE = "torch.compile"
#: What `torch.compile` takes besides the model; Keras has a `compile` with others.
_OPTIONS = {"fullgraph", "dynamic", "backend", "mode", "options", "disable"}
_MESSAGE = f"inductor does not generate code for Gaudi; use the backend `{COMPILER}`"
_LAZY = "`torch.compile` does not work in lazy mode on Gaudi; remove it, or target eager mode"
_TITLE = f"compile with {COMPILER}"


class CompileBackend(Rule):
    """``torch.compile`` without a backend, or with one that writes CUDA code."""

    HPU510 = Code(
        "compile-default-backend",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={"warning": "the backend is chosen elsewhere"},
    )
    HPU511 = Code("compile-inductor-options", severity="error", fix="safe")
    wants = Wants(names=(_COMPILE,), calls=("compile",))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != _COMPILE:
            return
        parent = module.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            yield from self._call(module, parent)
        elif isinstance(parent, ast.FunctionDef) and node in parent.decorator_list:
            yield from self._decorator(module, node)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``model.compile()``, which compiles a module in place."""
        func = node.func
        if not isinstance(func, ast.Attribute) or module.qualified(func) == _COMPILE or node.args:
            return
        given = {keyword.arg for keyword in node.keywords}
        if not given <= {*_OPTIONS, None}:
            return  # Keras' compile(optimizer=…)
        sure = module.view(Kinds).is_surely(func.value, Is.MODULE)
        if sure or (None not in given and used_as_torch(module, func.value) and not defines_method(module, "compile")):  # fmt: skip
            yield from self._call(module, node, None if sure else "unsafe")

    def _call(self, module: Module, call: ast.Call, safety: Safety | None = None) -> Yield:
        backend = argument(call, "backend")
        answer = ask(module, _COMPILE)
        handed = next((keyword for keyword in call.keywords if keyword.arg is None), None)
        if handed is not None:
            if backend is None and module.target.mode != "lazy":
                yield self.finding(
                    call.func,
                    f"the backend comes from `**{module.source(handed.value)}`, or is inductor, which "
                    f"does not support Gaudi; use `{COMPILER}`",
                    row=answer.row,
                    severity="warning",
                )
            return
        if backend is not None and module.constant(backend) not in _CUDA_BACKENDS:
            if module.target.mode != "lazy" and _is_chosen(module, backend):
                yield self.finding(
                    backend,
                    f"the backend comes from `{module.source(backend)}`; on Gaudi, set it to `{COMPILER}`",
                    row=answer.row,
                    severity="warning",
                )
            return
        if module.target.mode == "lazy":
            yield self.finding(
                call.func,
                _LAZY,
                fix=Rewrite("drop the compiler", safety or "safe", _uncompiled(module, call)),
                row=answer.row,
            )
            return
        yield self.finding(
            call.func,
            _MESSAGE,
            fix=Rewrite(_TITLE, safety or answer.safety, (_with_backend(module, call, backend),)),
            row=answer.row,
        )
        yield from self._options(module, call)

    def _options(self, module: Module, call: ast.Call) -> Yield:
        given = [k for k in call.keywords if k.arg in ("mode", "options") and not is_none(k.value)]
        given = [k for k in given if not is_either(k.value)]
        if not given:
            return
        answer = ask(module, "torch.compile(mode='max-autotune')")
        changes: tuple[Change, ...] = drop(call, "mode", "options")
        if shared(module):
            changes = tuple(c for k in given for c in kept_for_cuda(module, k.value, "None"))
        names = " and ".join(f"`{k.arg}`" for k in given)
        yield self.finding(
            given[0],
            f"{names} is for inductor; `{COMPILER}` does not accept it",
            fix=Rewrite("drop it", answer.safety, changes),
            row=answer.row,
            code="HPU511",
        )

    def _decorator(self, module: Module, node: ast.expr) -> Yield:
        """``@torch.compile`` without parentheses."""
        answer = ask(module, _COMPILE)
        change: Change = called(node, f"(backend={quoted(module, COMPILER)})")
        if agnostic(module):
            change = Replace(node, neutral.NONE)
        fix = Rewrite(_TITLE, answer.safety, (change,))
        lazy = module.target.mode == "lazy"
        if lazy:
            fix = Rewrite("drop the compiler", "safe", (Remove(node),))
        yield self.finding(node, _LAZY if lazy else _MESSAGE, fix=fix, row=answer.row)


def _uncompiled(module: Module, call: ast.Call) -> tuple[Change, ...]:
    """What is compiled, without the compiler; nothing left of ``f = torch.compile(f)``."""
    above = module.parent(call)
    if isinstance(above, ast.Expr):
        return (Remove(above),)
    if not call.args or isinstance(call.args[0], ast.Starred):
        return ()
    inner = module.source(call.args[0])
    statement = module.parent(call)
    if isinstance(statement, ast.Assign):
        targets = [module.source(target) for target in statement.targets]
        if targets == [inner]:
            return (Remove(statement),)
    return (Replace(call, inner),)


def _with_backend(module: Module, call: ast.Call, backend: ast.expr | None) -> Change:
    if backend is not None:
        return retext(module, backend, COMPILER)
    if agnostic(module):
        return Replace(call, neutral.NONE)  # torch has no word for the compiler of a device
    text = f"backend={quoted(module, COMPILER)}"
    return add(call, text, behind=call.args[-1]) if call.args else add(call, text, first=True)


def _is_chosen(module: Module, backend: ast.expr) -> bool:
    """Is the backend an option or a parameter, so that the file does not show which one it is?"""
    if isinstance(backend, ast.Attribute):
        return module.qualified(backend) is None
    if not isinstance(backend, ast.Name):
        return False
    return any(b.kind == "param" and b.value is None for b in module.bindings(backend))
