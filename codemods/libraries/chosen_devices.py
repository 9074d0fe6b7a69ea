"""Where a library chooses the device: which ones find a Gaudi, and how it is said to those that do not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.names import called
from ..analysis.verdict import ask, inside
from ..edits.arguments import argument
from ..edits.imports import torch
from ..edits.spelling import DEVICE, dual, quoted

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Finds a Gaudi by itself; the argument that keeps it on the CPU all the same.
_FINDS = {
    "accelerate.Accelerator": "cpu",
    "accelerate.PartialState": "cpu",
    "transformers.TrainingArguments": "use_cpu",
    "transformers.Seq2SeqTrainingArguments": "use_cpu",
}
_PYG = "torch_geometric.device"
_IGNITE = "ignite.distributed"
_IGNITES = tuple(f"{_IGNITE}.{name}" for name in ("device", "auto_model", "auto_dataloader"))


class ChosenDevice(Rule):
    """``Accelerator()``, ``TrainingArguments()``, ``torch_geometric.device("auto")``, ``idist.device()``."""

    code = "HPU720"
    name = "device-chosen-by-library"
    severity = "info"
    safety = "manual"
    wants = Wants(names=(*_FINDS, _PYG, *_IGNITES), hints=frozenset(_FINDS))

    def __init__(self) -> None:
        self._told: set[str] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if call is None or module.qualified(node) != name:
            return
        if name.partition(".")[0] in module.project.shadowing:
            return  # the library's own code
        if name in _FINDS:
            if name not in self._told:
                self._told.add(name)
                yield self._finds(module, node, call, name)
        elif name == _PYG:
            given = argument(call, "device", 0)
            if given is not None and module.constant(given) == "auto":
                yield self._missed(
                    module,
                    call,
                    name,
                    f"{torch(module, call, 'device')[0]}({quoted(module, DEVICE)})",
                )
        else:
            new = (
                f"{torch(module, call, 'device')[0]}({quoted(module, DEVICE)})"
                if name.endswith(".device")
                else ""
            )
            yield self._missed(module, call, name, new)

    def _finds(self, module: Module, node: ast.expr, call: ast.Call, name: str) -> Found:
        kept = argument(call, _FINDS[name])
        on_cpu = kept is not None and module.constant(kept) is True
        answer = ask(module, name)
        said = (
            f"`{_FINDS[name]}=True` keeps it on the CPU; leave it out, and it finds a Gaudi"
            if on_cpu
            else inside(answer.note)
        )
        return self.finding(
            module,
            module.span(node),  # told beside what covers the call: it is about the whole of it
            f"`{module.source(node)}` chooses the device itself: {said}",
            row=answer.row,
            severity="warning" if on_cpu else "info",
        )

    def _missed(self, module: Module, call: ast.Call, name: str, new: str) -> Found:
        answer = ask(module, name)
        fix = None
        if new and not dual(module):
            needed = torch(module, call, "device")[1]
            fix = Rewrite("name the device", "safe", (Replace(call, new), *needed))
        return self.finding(
            module,
            module.span(call.func),
            f"`{module.source(call.func)}` chooses the device itself: {inside(answer.note)}",
            fix=fix,
            row=answer.row,
            severity="warning",
        )
