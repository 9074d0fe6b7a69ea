"""Names below torch.cuda that no other rule takes: what the matrix says of them."""

from __future__ import annotations

from hpushim.engine.rules.rule import Code, Module, Wants, Yield

from ..bases.torch_name import CUDA, Name, NameRule, is_taken, rule_of

_PRIVATE = "torch._C._cuda"
#: Handled by rules of their own, with more than a name in hand.
_OTHER_RULES = ("amp", "is_available", "nccl")


class CudaName(NameRule):
    """Any other ``torch.cuda`` name."""

    HPU005 = Code("cuda-name-without-rule", severity="error")
    wants = Wants(names=(f"{CUDA}*", "torch._C.*"))

    def takes(self, module: Module, use: Name) -> str:
        if use.name.startswith(_PRIVATE):
            return self.code
        below = use.below
        if not below or below.split(".")[0] in _OTHER_RULES:
            return ""
        return "" if is_taken(module, use) and rule_of(module, use.name) != self.code else self.code

    def special(self, module: Module, use: Name, code: str) -> Yield | None:
        private = use.name.startswith(_PRIVATE) or use.below.startswith("_")
        if not private or rule_of(module, use.name) == self.code:
            return None
        message = (
            f"`{module.source(use.node)}` is private to torch's CUDA code and has no counterpart "
            "on Gaudi"
        )
        return [self.finding(use.node, message)]
