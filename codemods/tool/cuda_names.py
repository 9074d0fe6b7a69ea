"""Names below torch.cuda that no other rule takes: what the matrix says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding

from ._names import Name, NameRule, taken

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: Handled by rules of their own, with more than a name in hand.
_ELSEWHERE = ("amp", "is_available", "nccl")


class CudaName(NameRule):
    """Any other ``torch.cuda`` name."""

    code = "HPU005"
    name = "cuda-name-without-rule"
    severity = "error"
    also: ClassVar[dict[str, str]] = {}

    def takes(self, module: Module, use: Name) -> str:
        below = use.below
        if use.name.startswith("torch._C._cuda"):
            return self.code
        if not below or below.split(".")[0] in _ELSEWHERE or taken(module, use):
            return ""
        return self.code

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        if not use.name.startswith("torch._C._cuda") and not use.below.startswith("_"):
            return None
        return self._private(module, use)

    def _private(self, module: Module, use: Name) -> Iterator[Finding]:
        yield self.finding(
            module,
            use.node,
            f"`{module.source(use.node)}` is private to torch's CUDA side and has no counterpart on Gaudi",
        )
