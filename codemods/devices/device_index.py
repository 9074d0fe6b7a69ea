"""Which card: device_count, current_device, set_device, torch.cuda.device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Edit, Finding

from ._claims import claim
from ._dual import dual, either
from ._names import Name, NameRule, known, rank_like

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class DeviceIndex(NameRule):
    """``torch.cuda.set_device(local_rank)`` and its neighbours."""

    code = "HPU110"
    name = "cuda-device-index"
    severity = "error"
    codes: ClassVar[dict[str, str]] = {
        "device_count": "HPU110",
        "current_device": "HPU110",
        "set_device": "HPU110",
        "device": "HPU111",
        "device_of": "HPU111",
        "can_device_access_peer": "HPU110",
        "_device": "HPU111",
    }
    careful = frozenset({"can_device_access_peer"})
    also: ClassVar[dict[str, str]] = {"HPU111": "cuda-device-context"}

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        if use.below == "device" and isinstance(module.parent(use.node), ast.Call):
            return self._context(module, use, code)
        return None

    def _context(self, module: Module, use: Name, code: str) -> Iterator[Finding]:
        """``with torch.cuda.device(i)``: the process has card 0 and no other."""
        _, verdict = known(module, use.name)
        target = self.target(module, use)
        call = module.parent(use.node)
        if verdict is None or not target or not isinstance(call, ast.Call):
            yield self.finding(module, use.node, f"`{module.source(use.node)}` has no counterpart on Gaudi", code=code)  # fmt: skip
            return
        extra: tuple[Edit, ...] = ()
        given = call.args[0] if call.args else None
        if given is not None and rank_like(module, given) and module.constant(given) != 0:
            zero = either("0", module.source(given))[1:-1] if dual(module) else "0"
            extra = (module.replace(given, zero),)
        yield self.rename(module, use, code, target, "safe", verdict, extra)

    def prepare(self, module: Module, use: Name) -> None:
        super().prepare(module, use)
        call = module.parent(use.node)
        given = call.args[:1] if isinstance(call, ast.Call) and use.below == "device" else []
        for argument in given:
            if rank_like(module, argument):
                claim(module, argument)
