"""cuDNN's switches, which nothing reads on Gaudi."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Remove, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.devices import Devices
from ..analysis.names import called
from ..analysis.verdict import known, sentence
from ..edits.operands import CUDNN, leave_out
from ..edits.spelling import shared

_CHECK = "torch.cuda.is_available"
_KERNELS = "torch.backends.cuda."
_FLAGS = ("benchmark", "deterministic", "enabled", "benchmark_limit")


class CudnnFlag(Rule):
    """``torch.backends.cudnn.benchmark = True``."""

    HPU410 = Code("cudnn-flag", severity="note", fix=("safe", "manual"))
    HPU419 = Code("cuda-kernel-choice", severity="note", effect="speed")
    wants = Wants(names=("torch.backends.cudnn.*", f"{_KERNELS}*"))

    def __init__(self) -> None:
        #: What each statement sets that does nothing but set flags.
        self._set: dict[ast.Assign, list[str]] = {}

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        beside = _check_beside(module, node) if name == CUDNN else None
        if beside is not None:
            yield self._beside(module, node, name, *beside)
            return
        if shared(module) or "tf32" in name:
            return  # in the dual style they stay, for CUDA
        statement = _assignment(module, node, name)
        if statement is not None and _is_idle(module, name):
            self._set.setdefault(statement, []).append(name)
        elif not name.endswith("is_built"):  # the version rule's
            yield self._other(module, node, name)

    def on_module(self, module: Module) -> Yield:
        for statement, names in self._set.items():
            if len(names) == len(statement.targets):
                shown = module.source(statement)
                yield self.finding(
                    statement,
                    f"`{shown}` has no effect on Gaudi, which has no cuDNN; remove it",
                    fix=Rewrite("remove it", "safe", (Remove(statement),)),
                    row=known(module, names[0])[0],
                )

    def _beside(
        self, module: Module, node: ast.expr, name: str, test: ast.BoolOp, check: ast.expr
    ) -> Found:
        """A condition that also checks for cuDNN never holds on Gaudi."""
        part, verdict = known(module, name)
        call = called(module, node)
        assert call is not None
        return self.finding(
            node,
            f"`{module.source(call)}` is False on Gaudi, so this condition would never hold; leave it out",
            fix=Rewrite(
                "leave it out", "safe", (leave_out(test, call),), module.view(Devices).group(check)
            ),
            row=part if verdict is not None else None,
        )

    def _other(self, module: Module, node: ast.expr, name: str) -> Found:
        part, verdict = known(module, name)
        note = (
            sentence(verdict.note)
            if verdict is not None
            else "Gaudi has no cuDNN and no CUDA kernels to select"
        )
        return self.finding(
            node,
            f"`{module.source(node)}` has no effect on Gaudi. {note}",
            row=part if verdict is not None else None,
            code="HPU419" if name.startswith(_KERNELS) else None,
            severity="note",
            safety="manual",
        )


def _assignment(module: Module, node: ast.expr, name: str) -> ast.Assign | None:
    """The statement that does nothing but set the flag, to a value that computes nothing."""
    parent = module.parent(node)
    if not isinstance(parent, ast.Assign) or name.rpartition(".")[2] not in _FLAGS:
        return None
    if not any(node is target for target in parent.targets):
        return None
    computes = any(isinstance(part, (ast.Call, ast.NamedExpr)) for part in walk(parent.value))
    return None if computes else parent


def _check_beside(module: Module, node: ast.expr) -> tuple[ast.BoolOp, ast.expr] | None:
    """The condition with the call, and the check for CUDA next to it: ``torch.cuda.is_available() and …``."""
    call = called(module, node)
    above = module.parent(call) if call is not None else None
    if call is None or not isinstance(above, ast.BoolOp) or not isinstance(above.op, ast.And):
        return None
    for each in above.values:
        if isinstance(each, ast.Call) and module.qualified(each.func) == _CHECK:
            return above, each.func
    return None


def _is_idle(module: Module, name: str) -> bool:
    _, verdict = known(module, name)
    return verdict is not None and verdict.status == "noop"
