"""Checks whether tensors are on CUDA."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.kinds import defines_method
from ..analysis.names import foreign, word
from ..analysis.verdict import ask
from ..edits import comparisons
from ..edits.arguments import arguments, call_of, unwrapped
from ..edits.spelling import agnostic, quoted
from ..values.trained import unmoved

_PACKED = ("PackedSequence", "pack_padded_sequence", "pack_sequence")


class IsCuda(Rule):
    """``x.is_cuda``."""

    HPU106 = Code("is-cuda-attribute", severity="error", fix=("safe", "manual"))
    wants = Wants(attributes=("is_cuda",), calls=("getattr", "attrgetter"))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``getattr(x, "is_cuda", False)``, ``attrgetter("is_cuda")``: read by its name."""
        read = node.args[:1] if word(node.func) == "getattr" else []
        texts = (str(module.constant(name)) for name in node.args[len(read) :])
        if not any(text.rpartition(".")[2] == "is_cuda" for text in texts):
            return
        own = module.index.stored("is_cuda") or defines_method(module, "is_cuda")
        if own or any(module.qualified(of) or _is_own(module, of) for of in read):
            return
        yield self.finding(
            node,
            f"`{module.source(node)}` reads `is_cuda`, which is False for tensors on Gaudi; ask for `.device.type`, which is `hpu`",
            safety="manual",
            row=ask(module, "torch.Tensor.is_cuda").row,
        )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        if not isinstance(node.ctx, ast.Load):
            return
        parent = module.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return  # a method of that name is not a tensor's
        if foreign(module, node) or defines_method(module, "is_cuda"):
            return
        if _is_own(module, node.value):
            return  # a property of the project, whose body is rewritten
        if isinstance(node.value, ast.Name) and module.index.stored("is_cuda"):
            return  # the file gives objects of its own such an attribute
        if agnostic(module) and _is_one_of_few(module, node, parent):
            shown = module.source(node)
            yield self.finding(node, f"`{shown}` is not changed: it is one of the devices that the condition lists", row="torch.Tensor.is_cuda", safety="manual")  # fmt: skip
            return
        answer = ask(module, "torch.Tensor.is_cuda")
        yield self.finding(
            node,
            f"`{module.source(node)}` is False for tensors on Gaudi, whose `.device.type` is `hpu`; compare that",
            fix=Rewrite(
                "compare the device type", answer.safety, (_device_test(module, node, parent),)
            ),
            row=answer.row,
        )


def _is_own(module: Module, node: ast.expr) -> bool:
    """Is it an object of a class of the file that has ``is_cuda`` itself?"""
    calls = module.view(Values).calls
    return bool(module.index.definitions("is_cuda")) and any(calls.method(owner, "is_cuda") for each in _made(module, node) for owner in calls.classes_of(each))  # fmt: skip


def _made(module: Module, node: ast.expr) -> list[ast.expr]:
    """What makes an object, through names and moves."""
    found, todo = {node}, [node]
    for each in todo:  # grows
        moved = unmoved(each)
        for one in (moved,) if moved is not each else module.view(Values).origins(each):
            if isinstance(one, ast.expr) and one not in found:
                found.add(one)
                todo.append(one)
    return todo


def _device_test(module: Module, node: ast.Attribute, parent: ast.AST | None) -> Replace:
    """``x.is_cuda`` to ``x.device.type == "hpu"``, and ``not x.is_cuda`` to ``!=``."""
    word, same, other = quoted(module, "hpu", node), "==", "!="
    if agnostic(module):
        word, same, other = quoted(module, "cpu", node), "!=", "=="
        whole = comparisons.of_tensor(module, parent)
        if whole is not None:
            place, new = whole
            return Replace(place, lambda _: arguments(new)[0].value)  # without its parentheses
    device = ".data.device.type" if _is_packed(module, node.value) else ".device.type"
    if isinstance(parent, ast.BoolOp) and agnostic(module) and _is_any(module, node, parent):
        compared = f"{module.operand(node.value)}{device} {same} {word}"
        return Replace(parent, lambda there: unwrapped(there, arguments(compared)[0].value))
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
        return Replace(
            parent, lambda there: unwrapped(there, _compared(there.expression, device, other, word))
        )
    return Replace(node, lambda there: unwrapped(there, _compared(there, device, same, word)))


def _is_any(module: Module, node: ast.Attribute, parent: ast.BoolOp) -> bool:
    """``x.is_cuda or x.is_xpu``: a list of the accelerators that the author knew."""
    return isinstance(parent.op, ast.Or) and all(
        isinstance(each, ast.Attribute)
        and each.attr in ("is_cuda", "is_xpu", "is_mps", "is_hpu", "is_npu")
        and module.source(each.value) == module.source(node.value)
        for each in parent.values
    )


def _is_one_of_few(module: Module, node: ast.Attribute, parent: ast.AST | None) -> bool:
    """``x.is_cuda or "cpu" in str(x.device)``: does the condition list the devices that what it decides runs on?"""
    if not isinstance(parent, ast.BoolOp) or not isinstance(parent.op, ast.Or):
        return False
    others = [part for value in parent.values if value is not node for part in ast.walk(value)]
    return any(module.constant(part) == "cpu" for part in others if isinstance(part, ast.Constant)) or any(getattr(part, "attr", "") == "is_cpu" for part in others)  # fmt: skip


def _is_packed(module: Module, node: ast.expr) -> bool:
    """Whether it is a ``PackedSequence``: a tuple of tensors, which has ``is_cuda`` and no device."""
    made = [each for each in _made(module, node) if isinstance(each, ast.Call) and unmoved(each) is each] if any(map(module.holds, _PACKED)) else []  # fmt: skip
    names = {(module.qualified(call.func) or "").rpartition(".") for call in made}
    return bool(names) and all(of.startswith("torch.nn.utils.rnn") and name in _PACKED for of, _, name in names)  # fmt: skip


def _compared(attribute: Any, device: str, operator: str, word: str) -> Any:
    """A comparison of the device's type for libcst's ``x.is_cuda``."""
    import libcst as cst

    compared = cst.parse_expression(f"x {operator} {word}")
    return compared.with_changes(left=call_of(attribute.value, device))
