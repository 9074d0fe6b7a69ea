"""Training in float32: a Gaudi is made for bfloat16, and ports switch it on."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield
from hpushim.patterns import lazily

from ..analysis.entry import is_entry
from ..analysis.placement import is_of_torch, is_on_device
from ..analysis.verdict import ask
from ..values.training import step_regions

#: Any word on precision, or a library that decides it.
_DECIDED = lazily(
    rb"autocast|\bamp\b|_amp\b|\bamp_|bf16|bfloat16|fp16|fp8|float16|float64|\bhalf\b|\.double\(|precision"
    rb"|[Aa]ccelerator\(|deepspeed|lightning|[Ff]abric|\bhmp\b"
)


class FullPrecision(Rule):
    """A program whose loop takes gradients, without a word on precision."""

    HPU217 = Code("training-in-float32", severity="note", effect="speed")
    also = Wants(words=("backward",), required=("cuda", "hpu", "device"))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        if not is_of_torch(module) or not module.view(is_on_device):
            return
        loops = [
            each for each in module.view(step_regions) if isinstance(each, (ast.For, ast.While))
        ]
        if not loops or module.matches(_DECIDED) or not is_entry(module):
            return
        for call in module.index.calls("backward"):
            if isinstance(call.func, ast.Attribute) and any(
                a in loops for a in module.ancestors(call)
            ):
                yield self.finding(
                    call.func,
                    'this step trains in float32, which is slow on Gaudi; use `torch.autocast("hpu", '
                    "dtype=torch.bfloat16)` for model and loss",
                    row=ask(module, "torch.bfloat16").row,
                )
                return  # once in a file
