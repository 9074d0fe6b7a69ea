"""Lazy mode collects operations until it is instructed to run them: after backward, after the optimizer's step."""

from __future__ import annotations

import ast
from itertools import chain, count
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Change, Import, Insert, Remove, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.modes import loads_itself
from ..analysis.project_facts import CLASSES, DEVICE_CHOSEN, SCALERS
from ..analysis.verdict import ask
from ..edits.imports import core, root
from ..edits.spelling import agnostic
from ..values.marks import MARKS, Site, unmarked
from ..values.training import Step

if TYPE_CHECKING:
    import libcst as cst  # loaded where something is written, which `check` never does

_ROW = "habana_frameworks.torch.core.mark_step"
#: Calls that may step through what another file defines.
_HANDED = ("scaler(", "optim")
_CODES = {Step.BACKWARD: "HPU501", Step.UPDATE: "HPU502"}


class MarkStep(Rule):
    """``htcore.mark_step()`` where lazy mode needs it."""

    HPU501 = Code("backward-without-mark-step", fix="safe", effect="speed")
    HPU502 = Code("optimizer-step-without-mark-step", fix="safe", effect="speed")
    HPU508 = Code("mark-step-without-lazy-mode", severity="note", fix="unsafe", effect="speed")
    wants = Wants(
        calls=MARKS,
        words=("backward",),
        texts=(".step(",),
        facts=(CLASSES, DEVICE_CHOSEN, SCALERS),
    )
    also = Wants(texts=_HANDED)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """A mark in a mode that has none."""
        if module.target.mode not in ("eager", "compile"):
            return
        statement = module.parent(node)
        name = module.qualified(node.func) or ""
        if isinstance(statement, ast.Expr) and name.startswith("habana_frameworks."):
            first = root(node.func)
            bound = module.bindings(first) if first is not None else []
            # Where torch does not load the bridge, it is imported for what loading it does, used or not.
            stay = [Import(binding.qualified) for binding in bound if binding.qualified]
            if loads_itself(module):
                stay = []
            yield self.finding(
                node,
                f"`{module.source(node)}` has no effect in {module.target.mode} mode; remove it",
                fix=Rewrite("remove the mark", "unsafe", (Remove(statement), *stay), harmless=True),
                row=ask(module, _ROW).row,
                code="HPU508",
            )

    def on_module(self, module: Module) -> Yield:
        if module.target.mode not in ("portable", "lazy"):
            return
        if agnostic(module) and module.target.mode != "lazy":
            return  # code that names no vendor runs in eager mode
        yield from (self._unmarked(module, site) for site in unmarked(module))

    def _unmarked(self, module: Module, site: Site) -> Found:
        answer = ask(module, _ROW)
        name, imported = core(module)
        func = module.source(site.call.func)
        changes = _changes(module, site.statement, f"{name}.mark_step()")
        return self.finding(
            site.call.func,
            f"in lazy mode (PT_HPU_LAZY_MODE=1), Gaudi runs `{func}` at the next `mark_step()`; "
            f"add `{name}.mark_step()`, which has no effect in eager mode",
            fix=Rewrite("mark the step", answer.safety, (*changes, imported), vendor=True),
            row=answer.row,
            code=_CODES[site.step],
        )


def _changes(module: Module, statement: ast.stmt, mark: str) -> tuple[Change, ...]:
    """What puts a mark behind a statement; what is returned gets a name first."""
    if not isinstance(statement, ast.Return):
        return (Insert(statement, mark),)
    names = chain(["result"], (f"result_{number}" for number in count(2)))
    name = next(each for each in names if not module.bindings_of(each))

    def named(node: cst.Return) -> cst.BaseSmallStatement:
        import libcst as cst

        assert node.value is not None
        target = cst.AssignTarget(cst.Name(name))
        return cst.Assign((target,), node.value, semicolon=node.semicolon)

    given_back = Insert(statement, f"return {name}")
    return (Replace(statement, named), Insert(statement, mark), given_back)
