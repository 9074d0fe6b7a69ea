"""Files that handle Gaudi themselves: what their branches for it govern stays, the rest is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Claim, Rule, Strength, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.gaudi_code import GaudiCode

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class GaudiAware(Rule):
    """``if is_hpu_available(): …``."""

    HPU009 = Code("file-handles-gaudi", severity="info")
    also = Wants(texts=("hpu", "HPU", "Hpu"))

    def on_module(self, module: Module) -> Yield:
        code = module.view(GaudiCode)
        if not code.governed:
            return
        yield from map(Claim, code.governed)
        left = code.left()
        yield Claim(module.tree)
        yield from (Claim(node, Strength.OPEN) for node in left)
        if module.holds("cuda"):  # else nothing that the user would look for stays
            yield self.finding(
                module,
                min(code.named, key=module.span),
                "the file already has code for Gaudi, which is not changed"
                + ("; its other CUDA code is reported" if left else ""),
            )
