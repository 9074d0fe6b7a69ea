"""What the card is called and what it can: names, capabilities, properties, CUDA's version."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding, Fix

from . import _imports
from ._names import Name, NameRule, known, said

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: What people read from the properties, and the call that answers it on Gaudi.
_PROPERTIES = {"total_memory": ("torch.hpu.mem_get_info", "()[1]"), "name": ("torch.hpu.get_device_name", "()")}  # fmt: skip


class DeviceInfo(NameRule):
    """``torch.cuda.get_device_name`` and other questions about the hardware."""

    code = "HPU112"
    name = "cuda-device-info"
    severity = "warning"
    codes: ClassVar[dict[str, str]] = {
        "get_device_name": "HPU112",
        "get_device_properties": "HPU112",
        "_get_device_properties": "HPU112",
        "utilization": "HPU112",
        "temperature": "HPU112",
        "power_draw": "HPU112",
        "clock_rate": "HPU112",
        "is_bf16_supported": "HPU112",
        "get_device_capability": "HPU113",
        "get_arch_list": "HPU113",
        "get_gencode_flags": "HPU113",
        "init": "HPU116",
        "is_initialized": "HPU116",
        "_lazy_init": "HPU116",
        "_initialized": "HPU116",
        "_lazy_call": "HPU116",
        "_is_in_bad_fork": "HPU116",
        "_is_compiled": "HPU116",
        "has_half": "HPU116",
        "has_magma": "HPU116",
    }
    careful = frozenset({"get_arch_list", "utilization", "get_gencode_flags"})
    card: ClassVar[dict[str, int]] = {"get_device_name": 0, "utilization": 0}
    also: ClassVar[dict[str, str]] = {
        "HPU113": "cuda-capability",
        "HPU116": "cuda-initialisation",
        "HPU122": "cuda-version",
    }

    def takes(self, module: Module, use: Name) -> str:
        if use.name.startswith(("torch.version.cuda", "torch.backends.cuda.is_built")):
            return "HPU122"
        return super().takes(module, use)

    def prepare(self, module: Module, use: Name) -> None:
        if self._property(module, use) is None and self._ordinary(use):
            super().prepare(module, use)

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        if (read := self._property(module, use)) is not None:
            return self._instead(module, use, code, read)
        if not self._ordinary(use):
            return self._shape(module, use, code)
        return None

    def _ordinary(self, use: Name) -> bool:
        return use.below not in ("get_device_properties", "get_device_capability") and bool(
            use.below
        )

    def _property(self, module: Module, use: Name) -> ast.Attribute | None:
        """The attribute that is read from the properties, if it is one that Gaudi answers."""
        if use.below != "get_device_properties":
            return None
        call = module.parent(use.node)
        read = module.parent(call) if isinstance(call, ast.Call) else None
        if isinstance(read, ast.Attribute) and read.attr in _PROPERTIES:
            return read
        return None

    def _instead(
        self, module: Module, use: Name, code: str, read: ast.Attribute
    ) -> Iterator[Finding]:
        target, tail = _PROPERTIES[read.attr]
        text, needed = _imports.of(module).through(use.node, target)
        yield self.finding(
            module,
            read,
            f"`{module.source(read)}` is `{target}{tail}` on Gaudi",
            fix=Fix(f"ask {target}", "safe", (module.replace(read, text + tail), *needed)),
            row=use.name,
            code=code,
        )

    def _shape(self, module: Module, use: Name, code: str) -> Iterator[Finding]:
        """Answers that code takes apart, and that are something else on Gaudi."""
        part, verdict = known(module, use.name)
        note = said(verdict.note) if verdict is not None else "it has no counterpart on Gaudi"
        yield self.finding(
            module, use.node, f"`{module.source(use.node)}` answers for NVIDIA hardware: {note}",
            row=part if verdict is not None else None, code=code, safety="manual",
        )  # fmt: skip
