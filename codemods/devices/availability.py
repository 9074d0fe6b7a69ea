"""Is CUDA there? The check goes with the literals that it chooses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding

from . import _devices, _imports
from ._kernels import nvidia_only
from ._names import Name, NameRule, known

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class Availability(NameRule):
    """``torch.cuda.is_available()``."""

    code = "HPU108"
    name = "cuda-availability-check"
    severity = "error"
    codes: ClassVar[dict[str, str]] = {"is_available": "HPU108"}
    also: ClassVar[dict[str, str]] = {"HPU109": "check-guards-nvidia-only-code"}

    def prepare(self, module: Module, use: Name) -> None:
        if self._left(module, use):
            return
        if target := self.target(module, use):
            group = _devices.of(module).raw_group(use.node)
            _imports.of(module).want(use.node, target, group)

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        return self._judge(module, use)

    def _judge(self, module: Module, use: Name) -> Iterator[Finding]:
        if _devices.of(module).handles_hpu(use.node):
            return
        if self._left(module, use):
            yield self.finding(
                module,
                use.node,
                f"`{module.source(use.node)}` guards code that only NVIDIA hardware runs; "
                "it stays and is False on Gaudi",
                code="HPU109",
                severity="info",
                safety="manual",
            )
            return
        _, verdict = known(module, use.name)
        target = self.target(module, use)
        if verdict is None or not target:
            yield self.finding(
                module, use.node, f"`{module.source(use.node)}` has no known counterpart on Gaudi"
            )
            return
        found = self.rename(module, use, self.code, target, "safe", verdict)
        yield found

    def fix_group(self, module: Module, use: Name) -> str:
        devices = _devices.of(module)
        return _imports.of(module).group(use.node, group=devices.raw_group(use.node))

    def _left(self, module: Module, use: Name) -> bool:
        """Is everything behind the check made for NVIDIA hardware alone?"""
        if _devices.of(module).handles_hpu(use.node):
            return True
        call = module.parent(use.node)
        guard = module.parent(call) if call is not None else None
        if not isinstance(guard, ast.If) or guard.test is not call or guard.orelse:
            return False
        return all(nvidia_only(module, statement) for statement in guard.body)
