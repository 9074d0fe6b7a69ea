"""Is CUDA there? The check goes with the literals that it chooses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Found, Yield
from hpushim.pycode.walk import walk

from ..analysis.devices import Devices
from ..analysis.kernels import nvidia_only
from ..analysis.names import called
from ..analysis.verdict import known
from ..bases.torch_name import Name, NameRule

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


_TOOLKIT = "torch.utils.cpp_extension.CUDA_HOME"


class Availability(NameRule):
    """``torch.cuda.is_available()``."""

    HPU108 = Code("cuda-availability-check", fix="safe")
    HPU109 = Code("check-guards-nvidia-only-code", severity="info", effort="hours")

    def special(self, module: Module, use: Name, code: str) -> Yield:
        if not module.view(Devices).handles_hpu(use.node):
            yield self._judged(module, use)

    def _judged(self, module: Module, use: Name) -> Found:
        shown = module.source(use.node)
        if self._guards_nvidia(module, use):
            return self.finding(
                module,
                use.node,
                f"`{shown}` guards code for NVIDIA hardware; it is not changed, and is False on Gaudi",
                code="HPU109",
                safety="manual",
            )
        _, verdict = known(module, use.name)
        target = self.target(module, use)
        if verdict is None or not target:
            return self.finding(module, use.node, f"`{shown}` has no known counterpart on Gaudi")
        return self.rename(module, use, self.code, target, "safe", verdict)

    def group(self, module: Module, use: Name) -> str:
        return module.view(Devices).group(use.node)

    def _guards_nvidia(self, module: Module, use: Name) -> bool:
        """Is everything behind the check made for NVIDIA hardware alone?"""
        call = called(module, use.node)
        guard = module.parent(call) if call is not None else None
        if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
            return any(_is_toolkit(module, each) for part in guard.values for each in walk(part))
        if not isinstance(guard, ast.If) or guard.test is not call or guard.orelse:
            return False
        return all(nvidia_only(module, statement) for statement in guard.body)


def _is_toolkit(module: Module, node: ast.AST) -> bool:
    """Is it the folder of the CUDA toolkit, which builds kernels?"""
    return isinstance(node, (ast.Name, ast.Attribute)) and module.qualified(node) == _TOOLKIT
