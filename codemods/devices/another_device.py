"""A device beside CUDA that has a check, an option and a branch of its own: ``torch.accelerator`` covers it."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Remove, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.devices import Devices
from ..analysis.other_devices import CHECKS, NAMES, Group, OtherDevices, questions
from ..edits.spelling import agnostic


class AnotherDevice(Rule):
    """``use_mps = torch.backends.mps.is_available()`` … ``elif use_mps:``, in the agnostic style."""

    HPU127 = Code("check-for-another-device", severity="note", fix=("safe", "manual"))
    wants = Wants(
        names=(*CHECKS, *(f"torch.{name}.*" for name in NAMES)),
        strings=NAMES,
        calls=tuple(question for name in NAMES for question in questions(name)),
    )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        return ()

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        return ()

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        return ()

    def on_module(self, module: Module) -> Yield:
        for group in module.view(OtherDevices).groups if agnostic(module) else ():
            fix = self._folded(module, group)
            for part in group.parts():
                option = isinstance(part, ast.Call) and part in group.options
                shown = part.args[0] if option and isinstance(part, ast.Call) else part
                yield self.finding(
                    shown,
                    f"`{module.source(shown)}` is for one device, which `torch.accelerator` covers; "
                    + ("it goes" if fix else "its check, option and branch can go"),
                    fix=fix,
                )
                fix = Rewrite(fix.title, "safe", (), fix.group, harmless=True) if fix else None

    def _folded(self, module: Module, group: Group) -> Rewrite | None:
        if not group.gone or group.into is None:
            return None
        together = module.view(Devices).group(group.into)
        changes = tuple(Remove(statement, branch=True) for statement in group.gone)
        return Rewrite("fold it into the accelerator", "safe", changes, together, harmless=True)
