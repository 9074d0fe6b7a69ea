"""A step whose gradients are not finite: a scaler leaves it out, an optimizer makes it."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Guard, Rewrite
from hpushim.engine.python.imports import through
from hpushim.engine.python.units import is_alone
from hpushim.engine.rules.references import find
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.scalers import SHARDED, creates, enabled_by
from ..analysis.verdict import ask
from ..edits.spelling import shared
from ..values.training import is_scaler

_ROW = "torch.amp.GradScaler.step"
#: The test of a condition that leaves out such a step already.
_FINITE_TESTS = frozenset({"isfinite", "isnan", "isinf"})


class SkippedStep(Rule):
    """``scaler.step(optimizer)``, which makes no step where a gradient is infinite or NaN."""

    HPU215 = Code("skipped-step", severity="note", fix=("unsafe", "manual"), effect="numbers")
    wants = Wants(calls=("step",), required=("GradScaler",))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or not node.args or not _scales(module, func.value):
            return
        if _is_guarded(module, node):
            return
        optimizer = node.args[0]
        fix = _guard(module, node, optimizer)
        check = (
            "`migrate --unsafe` adds a check of the gradients"
            if fix
            else "To keep skipping such steps, check the gradients"
        )
        yield self.finding(
            optimizer,
            f"`{module.source(func)}` skips an optimizer step whose gradients are infinite or NaN; without loss scaling, no step is skipped. "
            f"{check}; the check waits for the device in each step",
            fix=fix,
            row=ask(module, _ROW).row,
        )


def _scales(module: Module, node: ast.expr) -> bool:
    """Is it a scaler that scales, and not the sharded one, whose ranks each see a part of the gradients?"""
    made = _made(module, node)
    if made:
        return any(
            creates(module, call) and not module.possible_names(call.func) & SHARDED
            for call in made
        )
    return is_scaler(module, node) and not any(True for _ in find(module, *sorted(SHARDED)))


def _made(module: Module, scaler: ast.expr) -> list[ast.Call]:
    """The calls of the file that make the scaler."""
    return [one for one in module.view(Values).origins(scaler) if isinstance(one, ast.Call)]


def _may_be_off(module: Module, scaler: ast.expr) -> bool:
    """Does an option decide? A scaler that is off makes each step, and a run with it off cannot show what a check changes."""
    given = [enabled_by(module, call) for call in _made(module, scaler)]
    return any(one is not None and module.constant(one) is not True for one in given)


def _guard(module: Module, call: ast.Call, optimizer: ast.expr) -> Rewrite | None:
    """On CUDA, where the dual style keeps its scaler, `scaler.update()` fails after a step that did not run."""
    statement = module.parent(call)
    if shared(module) or not isinstance(statement, ast.Expr) or not _is_a_name(optimizer):
        return None
    if _may_be_off(module, call.func.value):  # type: ignore[attr-defined]
        return None
    if not is_alone(module, statement):
        return None  # a condition is a line of its own
    stack, imported = through(module, call, "torch.stack")
    groups = f"{module.operand(optimizer)}.param_groups"
    finite = f'p.grad.isfinite().all() for group in {groups} for p in group["params"]'
    guard = Guard(statement, f"{stack}([{finite} if p.grad is not None]).all()")
    return Rewrite("check the gradients", "unsafe", (guard, *imported))


def _is_a_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_guarded(module: Module, call: ast.Call) -> bool:
    """Does a condition around the call, in its function, ask whether something is finite?"""
    around = module.function(call)
    return any(
        isinstance(above, ast.If)
        and module.function(above) is around
        and any(
            getattr(n, "attr", getattr(n, "id", "")) in _FINITE_TESTS for n in ast.walk(above.test)
        )
        for above in module.ancestors(call)
    )
