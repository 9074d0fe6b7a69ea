"""CUDA device strings that reach torch.device, a variable, a default or an option."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

    from ._devices import Site

_CODES = {"option": "HPU013"}


class DeviceLiteral(Rule):
    """``torch.device("cuda")`` and every string that becomes a device."""

    code = "HPU101"
    name = "cuda-device-literal"
    severity = "error"
    also: ClassVar[dict[str, str]] = {
        "HPU013": "cuda-option-default",
        "HPU015": "cuda-text-unproven",
        "HPU121": "several-cards-in-one-process",
    }

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        _devices.of(module)
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        devices = _devices.of(module)
        for site in devices.of_kind("device", "name", "branch", "option"):
            shown = module.source(site.node)
            word = '`"hpu:0"`' if site.text.index == "0" else '`"hpu"`'
            yield self.finding(
                module,
                site.node,
                f"`{shown}` is no device on Gaudi; it is {word}{_index_note(site)}",
                fix=Fix("write hpu", "safe", site.edits, devices.group(site.node)),
                row="cuda",
                code=_CODES.get(site.kind),
            )
        for site in devices.of_kind("unproven", "cut"):
            yield self._unproven(module, site)
        yield from self._several(module, devices)
        if any(site.text.index not in ("", "0") for site in devices.sites):
            yield from self._index_reads(module, devices)

    def _index_reads(self, module: Module, devices: _devices.Devices) -> Iterator[Finding]:
        """``device.split(":")[1]``, in a file whose device strings lose their index."""
        for node in module.of_type(ast.Subscript):
            if module.constant(node.slice) not in (1, -1):
                continue
            call = node.value
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in ("split", "rsplit", "partition")
                and [module.constant(a) for a in call.args] == [":"]
                and devices.flow.device_like(call.func.value)
            ):
                yield self.finding(
                    module,
                    node,
                    f"`{module.source(node)}` reads an index that `hpu` does not have",
                    code="HPU015",
                    safety="manual",
                )

    def _unproven(self, module: Module, site: Site) -> Finding:
        shown = module.source(site.node)
        if site.kind == "cut":
            message = (
                f"`{shown}` is taken out of a device string; `hpu` has other letters and no index"
            )
        else:
            message = f"`{shown}` is not known to be a device; write `hpu` if it is one"
        return self.finding(
            module, site.node, message, code="HPU015", severity="info", safety="manual"
        )

    def _several(self, module: Module, devices: _devices.Devices) -> Iterator[Finding]:
        """Fixed indices of more than one card: a model or a pipeline that is split in one process."""
        seen: dict[str, Site] = {}
        for site in devices.sites:
            if site.text.index.isdigit() and site.kind in ("device", "to", "argument", "name"):
                seen.setdefault(site.text.index, site)
        if len(seen) < 2:
            return
        for index, site in seen.items():
            if index != "0":
                yield self.finding(
                    module,
                    site.node,
                    f"`{module.source(site.node)}` is a second card in one process; "
                    "a process on Gaudi holds one card, start a process per card",
                    code="HPU121",
                    safety="manual",
                )


def _index_note(site: Site) -> str:
    return "" if site.text.index in ("", "0") else ", the one card of the process"
