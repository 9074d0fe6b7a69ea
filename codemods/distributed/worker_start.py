"""How the workers of a data loader start: by a fork, unless the program says otherwise."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.kinds import base_words
from ..analysis.names import called, word
from ..analysis.placement import trains_on_device
from ..analysis.project_facts import CONTEXTS, DEVICE_CHOSEN
from ..analysis.verdict import ask, sentence
from ..edits.arguments import argument

_LOADER = "torch.utils.data.DataLoader"
_ROW = "how workers of a data loader start"
#: What says how they start.
_SAID = ("set_start_method", "multiprocessing_context")


class WorkerStart(Rule):
    """``DataLoader(data, num_workers=4)`` in what a program loads that uses a device."""

    HPU325 = Code("worker-start-method", severity="note")
    wants = Wants(
        names=(_LOADER,),
        keywords=("num_workers",),
        required=("num_workers",),
        project=_SAID,
        facts=(CONTEXTS, DEVICE_CHOSEN),
    )

    def __init__(self) -> None:
        self._reported = False

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if call is not None and module.qualified(node) == name:
            yield from self._loader(module, call)

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``AudioLoader(data, num_workers=4)`` of a class of the project that is a loader."""
        call = module.parent(node)
        if isinstance(call, ast.Call) and "DataLoader" in base_words(module, word(call.func)):
            yield from self._loader(module, call)

    def _loader(self, module: Module, call: ast.Call) -> Yield:
        if self._reported:
            return
        workers = argument(call, "num_workers", 5)
        hidden = any(keyword.arg is None for keyword in call.keywords)
        if workers is None and not (hidden and module.holds("num_workers")):
            return
        if workers is not None and module.constant(workers) == 0:
            return
        if any(module.holds(said) or said in (module.project.mentions or ()) for said in _SAID):
            return
        if module.holds("get_context") or module.project.reaches(CONTEXTS.name, module.path):
            return
        if not trains_on_device(module, engine=True):
            return
        self._reported = True
        answer = ask(module, _ROW)
        yield self.finding(
            call.func,
            f"`{module.source(call.func)}` starts its workers by fork. {sentence(answer.note)}",
            row=answer.row,
        )
