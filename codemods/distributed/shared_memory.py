"""Models and tensors shared between processes: torch shares the memory of NVIDIA GPUs, not of Gaudi."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.batches import moved
from ..analysis.kinds import defines_method
from ..analysis.names import word
from ..analysis.verdict import ask, sentence
from ..values.tensors import proven, used_as_torch


class SharedMemory(Rule):
    """``model.share_memory()`` of a model that is on the device."""

    HPU322 = Code(
        "shared-device-memory",
        severity="error",
        lower={"warning": "it is unknown whether the tensor is on the device"},
    )
    wants = Wants(calls=("share_memory", "share_memory_"), required=("cuda", "device"))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute):
            return
        sure = proven(module, func.value) or used_as_torch(module, func.value)
        if not sure and defines_method(module, func.attr):
            return
        if _is_new(module, func.value):
            return
        answer = ask(module, "torch.nn.Module.share_memory")
        on_device = _on_device(module, func.value)
        where = "" if on_device else ", if it is on the device"
        yield self.finding(
            func,
            f"`{module.source(func)}` does not work on Gaudi{where}. {sentence(answer.note)}",
            row=answer.row,
            severity="error" if on_device else "warning",
        )


def _is_new(module: Module, shared: ast.expr) -> bool:
    """Was the object made by its class further up in the same function, and not moved since? Then it is on the CPU."""
    function = module.function(shared)
    name, place = module.source(shared), module.span(shared).start
    made = [
        statement
        for statement in module.index.statements(ast.Assign)
        if module.function(statement) is function
        and any(module.source(target) == name for target in statement.targets)
        and module.span(statement).end < place
    ]
    value = made[-1].value if made else None
    if not isinstance(value, ast.Call):
        return False
    if word(value.func) == "cpu" and not value.args:
        return not _moved_between(module, name, made[-1], place)
    if not word(value.func)[:1].isupper():
        return False
    return moved(module, value) is None and not _moved_between(module, name, made[-1], place)


def _moved_between(module: Module, name: str, made: ast.stmt, place: int) -> bool:
    """Does anything between the statement and the place move the object?"""
    moves = (*module.index.calls("cuda"), *module.index.calls("to"))
    return any(
        isinstance(call.func, ast.Attribute)
        and module.source(call.func.value) == name
        and module.span(made).end < module.span(call).start < place
        for call in moves
    )


def _on_device(module: Module, shared: ast.expr) -> bool:
    """Does the file move the object to a device?"""
    if moved(module, shared) is not None:
        return True
    if any(v is not shared and moved(module, v) is not None for v in module.values(shared)):
        return True
    name = module.source(shared)
    return any(
        isinstance(call.func, ast.Attribute)
        and module.source(call.func.value) == name
        and moved(module, call) is call
        for call in (*module.index.calls("cuda"), *module.index.calls("to"))
    )
