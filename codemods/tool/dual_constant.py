"""The constant of the dual style: which accelerator this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Define, Import, Rewrite
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..edits.imports import local_name
from ..edits.spelling import ACCELERATOR, dual

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class DualConstant(Rule):
    """``ACCELERATOR`` where the file uses it and nothing gives it a value."""

    code = "HPU023"
    name = "accelerator-constant"
    severity = "info"
    wants = Wants(words=(ACCELERATOR,))
    uncovered = True

    def on_module(self, module: Module) -> Yield:
        if not dual(module) or ACCELERATOR in module.global_scope.bindings:
            return
        uses = [use for use in module.index.names(ACCELERATOR) if not module.bindings(use)]
        if not uses:
            return
        torch = local_name(module, "torch")
        value = f'"hpu" if hasattr({torch}, "hpu") and {torch}.hpu.is_available() else "cuda"'
        changes = (Import("torch"), Define(ACCELERATOR, f"{ACCELERATOR} = {value}"))
        yield self.finding(
            module,
            uses[0],
            f"`{ACCELERATOR}` is the device that this machine has, `hpu` or `cuda`; it is defined behind the imports",
            fix=Rewrite(f"define {ACCELERATOR}", "safe", changes),
        )
