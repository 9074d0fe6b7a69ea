"""A region without autocast that relies on what CUDA keeps in float32 outside of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.pycode.values import Values

from ..analysis.autocast import CUDA_ONLY, GENERIC, site
from ..analysis.placement import is_on_device
from ..analysis.verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_ROW = "layer_norm under autocast"
#: What multiplies by weights, which are float32, and refuses another dtype beside them.
_WEIGHED = ("torch.nn.Linear", "torch.nn.Bilinear", "torch.nn.Conv", "torch.nn.functional.linear", "torch.nn.functional.conv")  # fmt: skip
#: A word of any of these in the function chooses the dtype.
_CASTS = frozenset({"float", "double", "to", "type", "type_as", "float32", "float64"})


class AutocastOff(Rule):
    """``with torch.autocast("cuda", enabled=False): y = self.linear(x)``."""

    HPU218 = Code("autocast-off-without-cast", severity="warning")
    wants = Wants(names=(*sorted(CUDA_ONLY), *sorted(GENERIC)))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        found = site(module, node)
        if found is None or not found.is_off or not module.view(is_on_device):
            return
        function = module.function(found.call)
        if function is None or {each.attr for each in ast.walk(function) if isinstance(each, ast.Attribute)} & _CASTS:  # fmt: skip
            return
        for region in ast.walk(function):
            if not isinstance(region, ast.With) or not any(
                found.call in module.values(item.context_expr) for item in region.items
            ):
                continue
            calls = [each for part in region.body for each in ast.walk(part) if isinstance(each, ast.Call) and each.args and _is_weighed(module, each)]  # fmt: skip
            first = next((c for c in calls if not set(calls) & set(ast.walk(c.args[0]))), None)
            if first is not None:
                yield self.finding(
                    first.args[0],
                    f"layer_norm and softmax give bfloat16 under autocast on Gaudi, float32 on CUDA: if `{module.source(first.args[0])}` comes from one "
                    f"of them, `{module.source(first.func)}` raises an error here; add `.float()`",
                    row=ask(module, _ROW).row,
                )
                return


def _is_weighed(module: Module, call: ast.Call) -> bool:
    """Is it a layer with weights that is called, or its function?"""
    made = [*module.view(Values).origins(call.func), call.func]
    names = [module.qualified(each.func if isinstance(each, ast.Call) else each) or "" for each in made if isinstance(each, ast.expr)]  # fmt: skip
    return any(name.startswith(_WEIGHED) for name in names)
