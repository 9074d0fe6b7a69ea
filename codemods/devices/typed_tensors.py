"""Typed tensors of the old interface: torch.cuda.FloatTensor and its family."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from hpushim.engine.python.changes import Change, Remove, Rename, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Safety

from ..analysis.names import called
from ..analysis.tensor_types import (
    DTYPES,
    Alias,
    aliases,
    conversion,
    is_default_type,
    is_host_type,
)
from ..analysis.verdict import ask
from ..bases.torch_name import CUDA
from ..edits import arguments, neutral
from ..edits.imports import torch
from ..edits.makers import on_device
from ..edits.spelling import ACCELERATOR, agnostic, quoted, retext, shared
from ..values.sizes import of_sizes

_DEVICE = "tensor_device"
_WARNINGS = {
    "DoubleTensor": "; Gaudi computes float64 in 32-bit floating point, with about seven digits"
}


class TypedTensor(Rule):
    """``torch.cuda.FloatTensor``."""

    HPU114 = Code(
        "cuda-typed-tensor",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={"warning": "it is only compared with"},
    )
    wants = Wants(names=tuple(CUDA + kind for kind in DTYPES), strings=(CUDA,))

    def __init__(self) -> None:
        self._typed: dict[ast.expr, str] = {}
        #: The device variables, by the block and the test of the aliases that share them.
        self._variables: dict[tuple[int, str], str] = {}

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) == name and not isinstance(module.parent(node), ast.Attribute):
            self._typed[node] = name.removeprefix(CUDA)
        return ()

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``x.type() == "torch.cuda.FloatTensor"``, ``x.type("torch.cuda.FloatTensor")``."""
        text = str(node.value)
        kind = text.removeprefix(CUDA)
        if not text.startswith(CUDA) or kind not in DTYPES:
            return
        call = conversion(module, node)
        if call is not None:
            word = quoted(module, "hpu")
            yield self._typed_finding(module, node, kind, _converted(module, call, kind, word))
        elif isinstance(module.parent(node), (ast.Compare, ast.Dict, ast.List, ast.Tuple, ast.Set)):
            change = retext(module, node, f"torch.hpu.{kind}")
            if agnostic(module):
                change = Replace(node, neutral.NONE)
            elif shared(module):
                change = Replace(node, f'f"torch.{{{ACCELERATOR}}}.{kind}"')
            yield self._typed_finding(module, node, kind, (change,))

    def on_module(self, module: Module) -> Yield:
        self._typed = dict(sorted(self._typed.items(), key=lambda item: module.span(item[0])))
        known = {} if module.bindings_of(_DEVICE) else aliases(module, self._typed)
        groups = {use: _group(module, alias) for alias in known.values() for use in alias.uses}
        for node, kind in self._typed.items():
            alias = known.get(node)
            if node in groups:
                yield self._typed_finding(module, node, kind, (), group=groups[node])
            elif alias is None:
                yield from self._direct(module, node, kind)
            elif alias.other is None:
                yield self._named(module, alias, kind)
            else:
                yield self._named_dtype(module, alias, kind)

    def _typed_finding(
        self, module: Module, node: ast.expr, kind: str, changes: Iterable[Change],
        safety: Safety = "safe", group: str = "",
    ) -> Found:  # fmt: skip
        compares = isinstance(module.parent(node), ast.Compare) and isinstance(node, ast.Attribute)
        return self.finding(
            node,
            f"`{module.source(node)}` is a CUDA tensor type, which Gaudi does not have; name the "
            f"device and `torch.{DTYPES[kind]}`{_WARNINGS.get(kind, '')}",
            fix=Rewrite(
                "use device and dtype", safety, tuple(changes), group, harmless=safety == "safe"
            ),
            row=ask(module, f"{CUDA}{kind}").row,
            severity="warning" if compares else None,  # False without CUDA, and stops nothing
        )

    # -- where it is written ----------------------------------------------------------------

    def _direct(self, module: Module, node: ast.expr, kind: str) -> Yield:
        parent = module.parent(node)
        word = quoted(module, "hpu", node)
        if (made := called(module, node)) is not None:
            yield self._typed_finding(module, node, kind, _made(module, made, kind, word))
        elif (call := conversion(module, node)) is not None:
            yield self._typed_finding(module, node, kind, _converted(module, call, kind, word))
        elif isinstance(parent, ast.IfExp) and (chosen := _chosen(module, parent, node, kind)):
            yield self._typed_finding(module, node, kind, chosen)
        elif (
            isinstance(parent, ast.Call) and module.qualified(parent.func) == "builtins.isinstance"
        ):
            yield self._typed_finding(module, node, kind, _dtype_test(module, parent, kind))
        elif not is_default_type(module, node):
            yield self._typed_finding(
                module, node, kind, (Rename(node, f"torch.hpu.{kind}"),), "unsafe"
            )

    # -- through a name ---------------------------------------------------------------------

    def _named(self, module: Module, alias: Alias, kind: str) -> Found:
        """The name becomes that of a device, which all aliases of one test share; each use says its dtype."""
        block, test = id(module.block(alias.statement)), _test(module, alias)
        name = self._variables.get((block, test))
        changes: list[Change] = []
        if agnostic(module) and _is_of_machine(module, alias):
            name = quoted(module, "hpu", alias.node)
            changes.append(Remove(alias.statement))
        elif name is None:
            others = sum(other == block for other, _ in self._variables)
            name = f"{_DEVICE}_{others + 1}" if others else _DEVICE
            self._variables[block, test] = name
            changes += [Replace(alias.target, name), Replace(alias.node, quoted(module, "hpu"))]
            if alias.host is not None:
                changes.append(Replace(alias.host, quoted(module, "cpu")))
        else:
            changes.append(Remove(alias.statement))
        for use in alias.uses:
            if (made := called(module, use)) is not None:
                changes += _made(module, made, kind, name)
            elif (call := conversion(module, use)) is not None:
                changes += _converted(module, call, kind, name)
        return self._typed_finding(module, alias.node, kind, changes, group=_group(module, alias))

    def _named_dtype(self, module: Module, alias: Alias, kind: str) -> Found:
        """``kind = torch.cuda.HalfTensor if half else torch.cuda.FloatTensor``: a choice of dtypes."""
        changes: list[Change] = [Rename(alias.node, f"torch.{DTYPES[kind]}")]
        if alias.choice is not None and alias.choice.body is alias.node:  # else the other half
            calls = [conversion(module, use) for use in alias.uses]
            word = quoted(module, "hpu")
            changes += [_moved(call, word, first=True) for call in calls if call is not None]
        return self._typed_finding(module, alias.node, kind, changes, group=_group(module, alias))


def _is_of_machine(module: Module, alias: Alias) -> bool:
    """Is the device chosen by nothing but whether there is an accelerator, as the device at hand is?"""
    test = alias.choice.test if alias.choice is not None and alias.host is not None else None
    if test is None or alias.choice is None or alias.choice.body is not alias.node:
        return False
    values = module.values(test)
    return bool(values) and all(_only_tests(module, value) for value in values)


def _only_tests(module: Module, value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        sides = module.constant(value.body), module.constant(value.orelse)
        return sides == (True, False) and _only_tests(module, value.test)
    name = module.qualified(value.func) if isinstance(value, ast.Call) else None
    return name in ("torch.cuda.is_available", "torch.accelerator.is_available")


def _test(module: Module, alias: Alias) -> str:
    """What chooses between the device and the host."""
    return module.source(alias.choice.test) if alias.choice is not None and alias.host else ""


def _group(module: Module, alias: Alias) -> str:
    """Aliases that share a device variable change together, each with its uses."""
    first = alias.statement if alias.other else module.block(alias.statement)[0]
    return f"typed:{first.lineno}:{_test(module, alias)}"


def _made(module: Module, call: ast.Call, kind: str, device: str) -> tuple[Change, ...]:
    """``torch.cuda.FloatTensor(…)`` to ``torch.FloatTensor(…).to(device)``; of sizes, to ``torch.empty`` on the device."""
    if of_sizes(module, call):
        return on_device(module, call, DTYPES[kind], device)
    moved = arguments.called(call, f".to({device})")
    return Rename(call.func, f"torch.{kind}"), moved, *arguments.drop(call, "device")


def _converted(module: Module, call: ast.Call, kind: str, device: str) -> tuple[Change, ...]:
    """``x.type(…)`` to ``x.to(device, dtype)``."""
    dtype, needed = torch(module, call, DTYPES[kind])
    return Replace(call.args[0], device), _moved(call, dtype), *needed


def _chosen(
    module: Module, choice: ast.IfExp, node: ast.expr, kind: str
) -> tuple[Change, ...] | None:
    """``x.type(torch.cuda.FloatTensor if cuda else torch.FloatTensor)``."""
    call = conversion(module, choice)
    side = choice.orelse if choice.body is node else choice.body
    if call is None or not is_host_type(module, side, kind):
        return None
    dtype, needed = torch(module, call, DTYPES[kind])
    words = (Replace(node, quoted(module, "hpu")), Replace(side, quoted(module, "cpu")))
    return (*words, _moved(call, dtype), *needed)


def _moved(call: ast.Call, argument: str, *, first: bool = False) -> Replace:
    """``x.type(…)`` to ``x.to(…)`` with a further argument."""

    def moved(there: Any) -> Any:
        there = arguments.renamed_method(there, "to")
        return arguments.with_arguments(there, argument, first=first)

    return Replace(call, moved, argument)


def _dtype_test(module: Module, call: ast.Call, kind: str) -> tuple[Change, ...]:
    """``isinstance(x, torch.cuda.FloatTensor)``: the device and the dtype are requested, of what is a tensor."""
    dtype, needed = torch(module, call, DTYPES[kind])
    tensor, also_needed = torch(module, call, "Tensor")
    word, same = quoted(module, "hpu"), "=="
    if agnostic(module):
        word, same = quoted(module, "cpu"), "!="

    def compares(there: Any) -> Any:
        import libcst as cst

        subject = there.args[0].value
        is_tensor = there.with_deep_changes(
            there.args[1], value=cst.parse_expression(tensor)
        ).with_changes(lpar=(), rpar=())
        three: Any = cst.parse_expression(f"t and x {same} {word} and x == {dtype}")
        both = three.left.with_changes(
            left=is_tensor,
            right=three.left.right.with_changes(left=arguments.call_of(subject, ".device.type")),
        )
        type_ = three.right.with_changes(left=arguments.call_of(subject, ".dtype"))
        return arguments.unwrapped(there, three.with_changes(left=both, right=type_))

    return Replace(call, compares), *dict.fromkeys((*needed, *also_needed))
