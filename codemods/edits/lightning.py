"""Gaudi as the accelerator of Lightning's trainer and of Fabric, where their releases know none."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Import, Replace, Rewrite
from hpushim.engine.python.module import Module

from .arguments import add, argument
from .imports import local_name
from .spelling import quoted, shared

PLUGIN = "hpushim.lightning"
#: The rows on the accelerator of a trainer and of Fabric.
ROWS = ("lightning.Trainer(accelerator=)", "lightning.Fabric(accelerator=)")


def with_accelerator(module: Module, call: ast.Call, given: ast.expr | None) -> Rewrite | None:
    """``accelerator=hpushim.lightning.HPUAccelerator()`` in ``call``, in the place of ``given``; in the dual style where there is a Gaudi."""
    name = local_name(module, PLUGIN)
    value = f"{name}.HPUAccelerator()"
    if shared(module):
        elsewhere = quoted(module, "auto") if given is None else module.source(given)
        value = f"{name}.accelerator({elsewhere})"
    change = add(call, f"accelerator={value}") if given is None else Replace(given, value)
    return Rewrite("pass the accelerator for Gaudi", "safe", (change, Import(PLUGIN)))


def with_default(module: Module, call: ast.Call) -> Rewrite | None:
    """Gaudi's accelerator as the default of a ``LightningCLI``; None where it is given defaults."""
    if argument(call, "trainer_defaults", 5) is not None:
        return None
    elsewhere = quoted(module, "auto") if shared(module) else ""
    value = f"{local_name(module, PLUGIN)}.accelerator_name({elsewhere})"
    default = f"trainer_defaults={{{quoted(module, 'accelerator')}: {value}}}"
    return Rewrite("pass the accelerator for Gaudi", "safe", (add(call, default), Import(PLUGIN)))


def has_plugin(module: Module) -> bool:
    """Does the file import the accelerator already?"""
    return any(
        (b.qualified or "").startswith(PLUGIN) or b.qualified == "hpushim"
        for b in module.import_bindings
    )
