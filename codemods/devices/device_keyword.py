"""CUDA device strings given to a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.device_numbers import device_or_number, is_device_number
from ..analysis.devices import Devices
from ..analysis.names import called, word
from ..analysis.project_facts import DEVICE_PARAMETERS
from ..analysis.roles import Role
from ..edits.arguments import argument
from ..edits.spelling import agnostic, numbered

#: What the number of a device is called where it is handed on.
_NUMBERS = ("rank", "local_rank", "gpu")
_MAKERS = ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to")


class DeviceKeyword(Rule):
    """``torch.zeros(3, device="cuda")``."""

    HPU105 = Code("cuda-device-argument", severity="error", fix=("safe", "unsafe", "manual"))
    wants = Wants(
        names=("torch.device",),
        keywords=("device",),
        words=("cuda",),
        required=("cuda", *_NUMBERS),
        facts=(DEVICE_PARAMETERS,),
    )
    also = Wants(words=_NUMBERS)

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """``torch.device(rank)``, ``torch.device(torch.cuda.current_device())``."""
        call = called(module, node)
        if call is None or len(call.args) != 1 or call.keywords or agnostic(module):
            return  # a number names no vendor
        number = call.args[0]
        if is_device_number(module, number):
            yield self.finding(
                number,
                f"`{module.source(call)}` selects a device by index; a process on Gaudi has one device, `hpu:0`",
                fix=Rewrite("write hpu:0", "safe", (numbered(module, number, "hpu:0"),)),
                row="cuda",
                claims=(number,),
            )

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``torch.zeros(3, device=rank)``: the number of a device."""
        call = module.parent(node)
        if (
            isinstance(call, ast.Call)
            and _makes_tensors(module, call)
            and is_device_number(module, node.value)
        ):
            yield self.finding(
                node.value,
                f"`{module.source(node)}` selects a device by index; a process on Gaudi has one "
                "device, `hpu`",
                fix=Rewrite("write hpu", "safe", (numbered(module, node.value),)),
                row="cuda",
                claims=(node.value,),
            )
        elif isinstance(call, ast.Call) and _makes_tensors(module, call) and not agnostic(module):
            other = device_or_number(module, node.value)
            if other is not None:
                shown = module.source(node.value)
                yield self.finding(
                    node.value,
                    f"`{module.source(node)}` gets a device index or `{other}`; a process on Gaudi has one device: "
                    f"set `{shown}` to `hpu` where it is an index",
                    row="cuda",
                    safety="manual",
                )

    def on_module(self, module: Module) -> Yield:
        for number in _handed(module):
            yield self.finding(
                number,
                f"`{module.source(number)}` selects a device by index in a function or class of this project; "
                "a process on Gaudi has one device, `hpu`",
                fix=Rewrite("write hpu", "unsafe", (numbered(module, number),)),
                row="cuda",
            )
        devices = module.view(Devices)
        for site in devices.of_role(Role.ARGUMENT):
            yield self.finding(
                site.node,
                f"`{module.source(site.node)}` does not exist on Gaudi; use {devices.counterpart(site)}",
                fix=Rewrite("write hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                claims=site.claims,
            )


def _handed(module: Module) -> Iterator[ast.expr]:
    """Devices by number in the place of the parameter ``device`` of a function that the project defines."""
    for each in sorted(module.project.names(DEVICE_PARAMETERS.name)):
        name, _, place = each.partition(":")
        for call in module.index.calls(name):
            number = argument(call, "device", int(place))
            named = any(keyword.arg == "device" for keyword in call.keywords) and isinstance(number, ast.Name)  # fmt: skip
            if (
                number is not None
                and (named or word(number) in _NUMBERS)
                and is_device_number(module, number)
                and (_is_own(module, call, name) or (named and module.qualified(call.func) is None))
            ):
                yield number


def _is_own(module: Module, call: ast.Call, name: str) -> bool:
    """Does the name come from the project: imported from one of its modules, defined here, a method of this class?"""
    func = call.func
    if isinstance(func, ast.Attribute):
        return word(func.value) == "self" or word(func.value) in module.project.modules
    return bool(module.index.definitions(name)) or name in module.view(_imported)


def _imported(module: Module) -> frozenset[str]:
    """What the files of the project import from each other."""
    return frozenset(name for _, name in module.project.imported)


def _makes_tensors(module: Module, call: ast.Call) -> bool:
    name = module.qualified(call.func) or ""
    if name.startswith("torch.") and not name.startswith(("torch.cuda.", "torch.device")):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _MAKERS
