"""Where a library chooses the device: which ones find a Gaudi, and how it is said to those that do not."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield

from ..analysis.names import called
from ..analysis.trainers import NAMES as TRAINERS
from ..analysis.trainers import is_settings, used
from ..analysis.verdict import ask, inside
from ..edits.arguments import argument
from ..edits.imports import torch
from ..edits.spelling import DEVICE, quoted, shared

#: Finds a Gaudi by itself; the argument that keeps it on the CPU all the same.
_FINDS = {
    "accelerate.Accelerator": "cpu",
    "accelerate.PartialState": "cpu",
}
_SETTINGS = "transformers.TrainingArguments"
_ON_CPU = ("use_cpu", "no_cuda")
_PYG = "torch_geometric.device"
_IGNITE = "ignite.distributed"
_IGNITES = tuple(f"{_IGNITE}.{name}" for name in ("device", "auto_model", "auto_dataloader"))


class ChosenDevice(Rule):
    """``Accelerator()``, ``TrainingArguments()``, ``SFTConfig()``, ``torch_geometric.device("auto")``, ``idist.device()``."""

    HPU720 = Code(
        "device-chosen-by-library",
        fix=("safe", "manual"),
        lower={"note": "the library detects a Gaudi by itself"},
    )
    wants = Wants(names=(_PYG, *_IGNITES))
    also = Wants(names=(*_FINDS, *TRAINERS))
    strength = Strength.FIRM

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if module.qualified(node) != name or name.partition(".")[0] in module.project.shadowing:
            return  # or the library's own code
        if is_settings(name):
            if name not in self._reported and used(module, node):
                self._reported.add(name)
                yield self._finds(module, node, call, _SETTINGS, _ON_CPU)
        elif call is None:
            return
        elif name in _FINDS:
            if name not in self._reported:
                self._reported.add(name)
                yield self._finds(module, node, call, name, (_FINDS[name],))
        elif name == _PYG:
            given = argument(call, "device", 0)
            if given is not None and module.constant(given) == "auto":
                yield self._missed(
                    module,
                    call,
                    name,
                    f"{torch(module, call, 'device')[0]}({quoted(module, DEVICE)})",
                )
        elif name in _IGNITES:
            new = (
                f"{torch(module, call, 'device')[0]}({quoted(module, DEVICE)})"
                if name.endswith(".device")
                else ""
            )
            yield self._missed(module, call, name, new)

    def _finds(
        self, module: Module, node: ast.expr, call: ast.Call | None, row: str, kept: tuple[str, ...]
    ) -> Found:
        given = [k.arg for k in call.keywords if k.arg in kept and module.constant(k.value) is True] if call else []  # fmt: skip
        answer = ask(module, row)
        said = (
            f"`{given[0]}=True` keeps the library on the CPU; remove it so that it detects a Gaudi"
            if given
            else inside(answer.note)
        )
        unmarked = row == _SETTINGS and module.target.mode == "lazy"  # its trainer marks no step
        return self.finding(
            node,
            f"`{module.source(node)}` selects the device by itself: {said}",
            row=answer.row,
            severity="warning" if given or unmarked else "note",
        )

    def _missed(self, module: Module, call: ast.Call, name: str, new: str) -> Found:
        answer = ask(module, name)
        fix = None
        if new and not shared(module):
            needed = torch(module, call, "device")[1]
            fix = Rewrite("name the device", "safe", (Replace(call, new), *needed))
        return self.finding(
            call.func,
            f"`{module.source(call.func)}` selects the device by itself: {inside(answer.note)}",
            fix=fix,
            row=answer.row,
        )
