"""Moves to a CUDA device with .to()."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.model import Safety

from ..analysis.device_numbers import device_or_number, is_device_number
from ..analysis.devices import Devices
from ..analysis.kinds import defines_method
from ..analysis.names import foreign
from ..analysis.roles import Role
from ..edits.spelling import agnostic, numbered
from ..values.tensors import proven, used_as_torch

#: A file that says none of these moves nothing to a device by its number.
_NUMBERS = (
    *(".to(0", ".to(rank", ".to(local_rank", ".to(gpu", ".to(device_id"),
    *(".to(args.local_rank", ".to(args.gpu"),
    *(".to(self.rank", ".to(self.local_rank", ".to(self.gpu"),
    *("device = rank", "device = local_rank", "device = gpu", "device = args.local_rank", "device = args.gpu", "LOCAL_RANK"),
)  # fmt: skip


class ToDevice(Rule):
    """``x.to("cuda")``, ``x.to(0)``, ``x.to(rank)``."""

    HPU104 = Code("to-cuda", severity="error", fix=("safe", "unsafe", "manual"))
    wants = Wants(calls=("to",), required=("cuda", *_NUMBERS))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or not node.args or foreign(module, func):
            return
        if agnostic(module):
            return  # a number names no vendor: torch takes it for one of the accelerator's devices
        number = node.args[0]
        if is_device_number(module, number):
            if _is_renamed(module, number) and self._safety(module, node, func.value) != "safe":
                return  # hpu's number 0, whatever it is given to
            fix = Rewrite("write hpu", self._safety(module, node, func.value), (numbered(module, number),))  # fmt: skip
            yield self.finding(
                number,
                f"`.to({module.source(number)})` selects a device by index; a process on Gaudi has "
                "one device, `hpu`",
                fix=fix,
                row="cuda",
                claims=(number,),
            )
        else:
            yield from self._either(module, number)

    def _either(self, module: Module, number: ast.expr) -> Yield:
        """``x.to(gpu)`` where ``gpu`` is a number or ``"cpu"``: it depends on the run, and a number is no device on Gaudi."""
        other = device_or_number(module, number)
        if other is not None:
            shown = module.source(number)
            yield self.finding(
                number,
                f"`.to({shown})` gets a device index or `{other}`; a process on Gaudi has one device: "
                f"set `{shown}` to `hpu` where it is an index",
                row="cuda",
                safety="manual",
            )

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.TO):
            yield self.finding(
                site.node,
                f"`.to({module.source(site.node)})` names a device that does not exist on Gaudi; use "
                f"{devices.counterpart(site)}",
                fix=Rewrite("write hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                claims=site.claims,
            )

    def _safety(self, module: Module, call: ast.Call, receiver: ast.expr) -> Safety:
        """Safe for tensors and modules, and for a rank, which is nothing else than a device."""
        if proven(module, receiver) or used_as_torch(module, receiver):
            return "safe"
        constant = isinstance(call.args[0], ast.Constant)
        return "unsafe" if constant or defines_method(module, "to") else "safe"


def _is_renamed(module: Module, number: ast.expr) -> bool:
    """Is it ``torch.cuda.current_device()``, which gets another name?"""
    return isinstance(number, ast.Call) and module.qualified(number.func) == "torch.cuda.current_device"  # fmt: skip
