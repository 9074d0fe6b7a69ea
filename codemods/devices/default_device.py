"""The device that new tensors are made on."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any, NamedTuple

from hpushim.engine.python.changes import Change, Insert, Remove, Rename, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.devices import Devices
from ..analysis.names import called
from ..analysis.project_facts import SETS_TYPE
from ..analysis.roles import Role
from ..analysis.tensor_types import DTYPES, SET_DEFAULT
from ..analysis.verdict import ask
from ..bases.torch_name import CUDA
from ..edits.imports import torch
from ..edits.spelling import quoted

#: The constructor that follows the default type of tensors.
_LEGACY = "torch.Tensor"


class _Kind(NamedTuple):
    """A type of tensors that may become the default one: the node that names it, ``FloatTensor``, whether it is CUDA's."""

    node: ast.expr
    name: str
    cuda: bool


class DefaultDevice(Rule):
    """``torch.set_default_tensor_type("torch.cuda.FloatTensor")``, ``torch.set_default_device("cuda")``."""

    HPU115 = Code("cuda-default-device", severity="error", fix=("safe", "manual"))
    wants = Wants(
        names=(SET_DEFAULT,),
        words=("set_default_device",),
        texts=(f"{_LEGACY}(",),
        required=("cuda", f"{_LEGACY}("),
        facts=(SETS_TYPE,),
    )
    also = Wants(names=(_LEGACY,))

    def __init__(self) -> None:
        self._calls: list[ast.Call] = []
        self._legacy: list[ast.Call] = []

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node) if module.qualified(node) == name else None
        if name == _LEGACY:
            self._legacy += [call] if call is not None and not _is_moved(module, call) else []
            return ()
        if call is not None and len(call.args) == 1 and not call.keywords:
            self._calls.append(call)
        return ()

    def _follows_the_type(self, module: Module, call: ast.Call) -> Found:
        """``torch.Tensor(values)``, which is made on the default type's device, not on the default device."""
        device = next((k for k in call.keywords if k.arg == "device"), None)
        default, needed = torch(module, call, "get_default_device")
        place = module.source(device.value) if device else f"{default}()"
        changes: list[Change] = [Replace(call, partial(_moved, place), place), *needed]
        if device is not None:
            changes.append(Remove(device))
        return self.finding(
            call,
            f"`{module.source(call.func)}(…)` follows the default tensor type, which is not for Gaudi, and makes a "
            "CPU tensor; move it to the default device",
            fix=Rewrite("move it", "safe", tuple(changes), "default device"),
            row=ask(module, SET_DEFAULT).row,
        )

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.DEFAULT):
            yield self.finding(
                site.node,
                f"`{module.source(site.node)}` does not exist on Gaudi; set the default device `hpu` "
                "for new tensors",
                fix=Rewrite("write hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                claims=site.claims,
            )
        kinds = [_kinds(module, call.args[0]) for call in self._calls]
        here = any(kind.cuda for found in kinds for kind in found)
        if here or (not self._calls and module.project.reaches(SETS_TYPE.name, module.path)):
            yield from (self._follows_the_type(module, call) for call in self._legacy)
        if not here:
            return
        # One that is not understood could be the one that takes the others back.
        whole = all(kinds)
        floats = {kind.name for found in kinds for kind in found} == {"FloatTensor"}
        for call, found in zip(self._calls, kinds, strict=True):
            yield self._assess(module, call, found if whole else [], floats=floats)

    def _assess(self, module: Module, call: ast.Call, kinds: list[_Kind], *, floats: bool) -> Found:
        message = (
            f"`{module.source(call)}` sets a CUDA tensor type, which Gaudi does not have; use "
            "`torch.set_default_device`"
        )
        statement = module.parent(call)
        types = {kind.name for kind in kinds}
        if len(types) != 1 or not isinstance(statement, ast.Expr):
            return self.finding(call, message)
        changes: list[Change] = [Rename(call.func, "torch.set_default_device")]
        for kind in kinds:
            changes.append(Replace(kind.node, quoted(module, "hpu" if kind.cuda else "cpu")))
        if not floats:
            set_dtype, needed = torch(module, call, "set_default_dtype")
            dtype, _ = torch(module, call, DTYPES[types.pop()])
            changes += [Insert(statement, f"{set_dtype}({dtype})"), *needed]
        return self.finding(
            call,
            message,
            fix=Rewrite(
                "set the default device", "safe", tuple(changes), "default device", harmless=True
            ),
            row=ask(module, SET_DEFAULT).row,
        )


def _is_moved(module: Module, call: ast.Call) -> bool:
    """``torch.Tensor(values).float().cuda()``: does the chain move it itself?"""
    above = module.parent(call)
    while isinstance(above, (ast.Attribute, ast.Call)):
        if isinstance(above, ast.Attribute) and above.attr in ("cuda", "to", "cpu", "numpy"):
            return True
        if isinstance(above, ast.Call) and not isinstance(above.func, ast.Attribute):
            return False
        above = module.parent(above)
    return False


def _moved(place: str, call: Any) -> Any:
    import libcst as cst

    return cst.Call(cst.Attribute(call, cst.Name("to")), [cst.Arg(cst.parse_expression(place))])


def _kinds(module: Module, node: ast.expr) -> list[_Kind]:
    """The types that an argument may be; empty when one is not seen."""
    found: list[_Kind] = []
    for part in [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]:
        text = module.constant(part)
        name = (text if isinstance(text, str) else module.qualified(part)) or ""
        kind = name.rpartition(".")[2]
        if kind not in DTYPES:
            return []
        found.append(_Kind(part, kind, name.startswith(CUDA)))
    return found
