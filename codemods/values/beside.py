"""The device of a tensor beside a place of the agnostic style, where the code has no other at hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.matrix import signatures
from hpushim.pycode.scope import Binding
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import is_in_module
from ..edits.at_hand import FUNCTIONS, is_own
from ..edits.spelling import agnostic, device_type, quoted
from .tensors import is_tensor, stays_on_host

_MOVES = ("to", "cuda", "cpu", "tolist", "numpy")
#: It takes the lengths from the CPU.
_PACKS = "torch.nn.utils.rnn.pack_padded_sequence"
_PARTS = (ast.BinOp, ast.Compare)


def kind_beside(module: Module, call: ast.Call) -> str:
    """The type of the device: the one at hand, or in the agnostic style that of a tensor which the block works on."""
    kind = device_type(module, call)
    function = module.function(call)
    if not agnostic(module) or not kind.startswith(FUNCTIONS) or function is None:
        return kind
    if any(function in module.ancestors(move) and not move.args for move in module.index.calls("cuda")):  # fmt: skip
        return kind  # what is moved there gives the function a device
    for name in _works_on(module, call, function):
        uses = [use for use in module.index.names(name.id) if function in module.ancestors(use)]
        behind = [use for use in uses if use.lineno >= call.lineno]
        moved = any(getattr(module.parent(use), "attr", "") in _MOVES for use in behind)
        given = len(behind) < len(uses) or any(b.kind == "param" for b in module.bindings(name))
        called = any(getattr(module.parent(use), "func", None) is use for use in uses)
        anew = bool(behind) and module.statement(behind[0]) not in [module.statement(use) for use in behind if isinstance(use.ctx, ast.Load)]  # fmt: skip
        fixed = not moved and not called and not anew
        if given and fixed and any(_is_tensor(module, use) for use in uses):
            return f"{name.id}.device.type"
    return kind


def device_beside(module: Module, call: ast.Call) -> str:
    """The device for ``x.cuda()``: the one at hand, or in the agnostic style that of a tensor which a method of a module is given.

    A tensor that ``x`` is computed with (``x.cuda() < labels``), or that ``x`` has the size of (``torch.rand(labels.size(0)).cuda()``).
    """
    device = quoted(module, "hpu", call)
    function = module.function(call)
    if not agnostic(module) or not device.startswith(FUNCTIONS) or function is None:
        return device
    if not is_in_module(module, call) or getattr(function, "name", "") == "__init__":
        return device
    for name in _sizes(module, call):
        uses = [use for use in module.index.names(name.id) if function in module.ancestors(use)]
        bound = module.bindings(name)
        above = [b for b in bound if b.kind == "param" or module.statement(b.node).lineno < call.lineno]  # fmt: skip
        given = bool(above) and all(function in module.ancestors(b.node) and _is_there(module, b) for b in above)  # fmt: skip
        if given and not any(_is_moved(module, use) for use in uses):
            return f"{name.id}.device"
    return device


def _is_there(module: Module, bound: Binding) -> bool:
    """Is the value a parameter, or what is computed of tensors on the device?"""
    if bound.kind == "param":
        return True
    return bound.kind == "assign" and bound.value is not None and is_tensor(module, bound.value) and not stays_on_host(module, bound.value)  # fmt: skip


def _sizes(module: Module, call: ast.Call) -> Iterator[ast.Name]:
    """The names of tensors beside the call, or in what it moves."""
    around = module.parent(call)
    if isinstance(around, _PARTS) and isinstance(call.func, ast.Attribute):
        sides = [around.left, around.right] if isinstance(around, ast.BinOp) else [around.left, *around.comparators]  # fmt: skip
        for side in sides:
            if isinstance(side, ast.Name) and _is_tensor(module, side):
                yield side
    for part in walk(call.func):
        if isinstance(part, ast.Name):
            kept = [getattr(module.statement(b.node), "value", None) for b in module.bindings(part)]
            parts = (part, *(each for value in kept if value is not None for each in walk(value)))
            yield from (n for n in parts if isinstance(n, ast.Name) and _is_sized(module, n))


def _is_sized(module: Module, name: ast.Name) -> bool:
    """``x.size(0)``, ``x.shape[0]``, ``rows, columns = x.shape``."""
    if is_own(module, name):
        return False
    above = module.parent(name)
    outer = module.parent(above) if isinstance(above, ast.Attribute) and above.value is name else None  # fmt: skip
    if not isinstance(above, ast.Attribute) or outer is None:
        return False
    if above.attr == "size":
        return isinstance(outer, ast.Call) and outer.func is above
    return above.attr == "shape" and isinstance(outer, (ast.Subscript, ast.Call, ast.Starred, ast.Assign))  # fmt: skip


def _is_moved(module: Module, use: ast.Name) -> bool:
    """Is the tensor moved in the function, or given to what takes it from the CPU?"""
    above = module.parent(use)
    if isinstance(above, ast.Attribute):
        return above.attr in _MOVES
    return isinstance(above, ast.Call) and module.qualified(above.func) == _PACKS


def _works_on(module: Module, call: ast.Call, function: ast.AST) -> Iterator[ast.Name]:
    """The names of the function that the block behind ``with autocast():`` reads; of a question, its parameters."""
    statement = module.statement(call)
    if not isinstance(statement, ast.With):
        taken = {arg.arg for arg in getattr(getattr(function, "args", None), "args", ())}
        yield from (use for use in walk(function) if isinstance(use, ast.Name) and use.id in taken and isinstance(use.ctx, ast.Load))  # fmt: skip
        return
    for part in walk(statement):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            bound = module.bindings(part)
            if bound and all(function in module.ancestors(b.node) for b in bound):
                yield part


def _is_tensor(module: Module, use: ast.Name) -> bool:
    """Is the name used as only a tensor is, or given to one of torch's layers?"""
    if is_own(module, use):
        return False
    call = module.parent(use)
    if isinstance(call, ast.Call) and use in call.args[:1]:
        made = module.view(Values).origins(call.func)
        if any(isinstance(m, ast.Call) and (module.qualified(m.func) or "").startswith("torch.nn.") for m in made):  # fmt: skip
            return True
    attribute = module.parent(use)
    run = module.parent(attribute) if isinstance(attribute, ast.Attribute) else None
    called = isinstance(run, ast.Call) and run.func is attribute
    method = attribute.attr if isinstance(attribute, ast.Attribute) and called else ""
    only = signatures.of(f"torch.Tensor.{method}") and not signatures.of(
        f"torch.nn.Module.{method}"
    )
    return bool(only) and is_tensor(module, use)
