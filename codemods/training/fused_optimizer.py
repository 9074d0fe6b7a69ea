"""Fused optimizers of torch have kernels for CUDA; whether Gaudi has them is the matrix's to say."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.python.removal import only_looks
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words
from ..analysis.names import called, partial_of, word
from ..analysis.project_facts import CLASSES
from ..analysis.verdict import ask
from ..bases.row_argument import arguments_of
from ..edits.arguments import drop
from ..edits.spelling import ELSEWHERE, agnostic, chosen, is_either, shared

_OPTION = "fused"
_ROW = "torch.optim.Adam(fused=True)"
_OPTIMIZERS = "torch.optim."
#: Those that have kernels of their own.
_FUSED = frozenset(["Adam", "AdamW", "SGD", "Adagrad"])
_TITLE = "use the unfused optimizer"


class FusedOptimizer(Rule):
    """``fused=True``, and the test for CUDA that decides it."""

    HPU601 = Code("fused-optimizer", fix="safe", effect="speed")
    HPU605 = Code("fused-if-cuda", fix=("safe", "manual"), effect="speed")
    wants = Wants(keywords=(_OPTION,), facts=(CLASSES,))
    also = Wants(names=("torch.optim.*",))

    def __init__(self) -> None:
        self._tests: dict[ast.expr, None] = {}

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call):
            return
        name = _called(module, call)
        if not name.startswith(_OPTIMIZERS) and name != "builtins.dict":
            return
        answer = ask(module, _ROW)
        if answer.status in ("native", "changed", "partial"):
            return
        if module.constant(node.value) is not True:
            self._tests.update(dict.fromkeys(_tests(module, node.value)))
            return
        guards = [test for guard in _guards(module, call) for test in _tests(module, guard)]
        self._tests.update(dict.fromkeys(guards))
        if not guards and (name.startswith(_OPTIMIZERS) or _is_of_registry(module, call)):
            later = bool(call.args) and partial_of(module, call.args[0]) is call
            own = not later and module.qualified(call.func) != name
            off = (Replace(node.value, "False"),) if own else drop(call, _OPTION)
            yield self._fused(module, node, off)

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """``Adam(parameters, **options)``, where the options have it."""
        call = called(module, node) or partial_of(module, node)
        if call is None or ask(module, _ROW).status in ("native", "changed", "partial"):
            return
        for given in arguments_of(module, call):
            if given.name == _OPTION and given.keyword is None and module.constant(given.value) is True:  # fmt: skip
                yield self._fused(module, given.value, (Replace(given.value, "False"),))

    def _fused(
        self, module: Module, node: ast.keyword | ast.expr, gone: tuple[Change, ...]
    ) -> Found:
        if shared(module):
            gone = (Replace(node.value if isinstance(node, ast.keyword) else node, ELSEWHERE),)
        shown = f"`{module.source(node)}`" if isinstance(node, ast.keyword) else f"`{_OPTION}`"
        return self.finding(
            node,
            f"it is unknown whether Gaudi has the fused kernel for {shown}; remove it, results stay the same",
            fix=Rewrite(_TITLE, "safe", gone),
            row=ask(module, _ROW).row,
        )

    def on_module(self, module: Module) -> Yield:
        for test in self._tests:
            decides = _turned_off(module, test)
            fix = None
            if decides is not None:
                off = chosen(module, decides, "False") if shared(module) else "False"
                fix = Rewrite(_TITLE, "safe", (Replace(decides, off),))
            yield self.finding(
                test,
                f"this sets `{_OPTION}=`, and it is unknown whether Gaudi has the kernel for it; "
                "turn it off, which does not change results",
                fix=fix,
                row=ask(module, _ROW).row,
                code="HPU605",
                claims=() if decides is None else (decides,),
            )


def _turned_off(module: Module, test: ast.expr) -> ast.expr | None:
    """What becomes False: all of a test that only looks, else the part of ``cfg.pop("fused") and …`` that tests for CUDA."""
    if only_looks(test):
        return test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
    return next((each for each in parts if only_looks(each) and _requires_cuda(module, each)), None)


def _called(module: Module, call: ast.Call) -> str:
    """The optimizer that is called, or made a partial of; torch's own where a class of the project is built on one."""
    func = call.args[0] if call.args and partial_of(module, call.args[0]) is call else call.func
    name = module.qualified(func) or ""
    own = sorted(base_words(module, word(func)) & _FUSED)
    return _OPTIMIZERS + own[0] if own and not name.startswith(_OPTIMIZERS) else name


def _is_of_registry(module: Module, call: ast.Call) -> bool:
    """``dict(type="AdamW", fused=True)``, which a registry makes an optimizer of."""
    return any(k.arg == "type" and module.constant(k.value) in _FUSED for k in call.keywords)


def _tests(module: Module, node: ast.expr) -> list[ast.expr]:
    """Where a decision is to be turned off: the whole expressions that a name is given, or the expression itself.

    A name that decides something else as well keeps its value; it is turned off where it decides this.
    """
    if isinstance(node, ast.BoolOp) and not _requires_cuda(module, node):
        return [node] if any(isinstance(n, ast.Name) and _tests(module, n) for n in node.values) else []  # fmt: skip
    values = [node]
    alone = True
    if isinstance(node, ast.Name):
        bound = module.bindings(node)
        values = [b.value for b in bound if b.kind == "assign" and b.value is not None]
        loads = [n for n in module.index.names(node.id) if isinstance(n.ctx, ast.Load)]
        others = [n for n in loads if n is not node and module.bindings(n) is bound]
        # Where others show it, they have to show what is used.
        alone = all(isinstance(module.parent(n), ast.FormattedValue) or word(getattr(module.parent(n), "func", n)) == "print" for n in others)  # fmt: skip
    found = [value for value in values if not is_either(value) and _requires_cuda(module, value)]
    if agnostic(module):
        # Fused kernels stay where they are known to be; a check that decides other things as well is not theirs.
        return [each for each in found if alone or not isinstance(each, (ast.Call, ast.Name))]
    return found if alone or not found else [node]


def _guards(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The conditions that decide about the value ``node`` and nothing else, inside its function."""
    for child, above in module.upwards(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if isinstance(above, ast.IfExp) and above.body is child:
            yield above.test
        elif isinstance(above, ast.If) and above.body == [child]:
            # An optimizer made here loses the option instead, and the branch stays what it is.
            if not _makes_optimizer(module, node):
                yield above.test
        elif isinstance(above, ast.stmt) and isinstance(child, ast.stmt):
            return


def _makes_optimizer(module: Module, call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and (module.qualified(call.func) or "").startswith(
        _OPTIMIZERS
    )


def _requires_cuda(module: Module, test: ast.expr) -> bool:
    """Does the expression test for CUDA, in words or through ``is_available``?"""
    for part in walk(test):
        types = ("cuda", "cpu") if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.NotEq) else ("cuda",)  # fmt: skip
        if isinstance(part, ast.Compare) and any(
            isinstance(item, ast.Constant) and item.value in types
            for side in (part.left, *part.comparators)
            for item in walk(side)
        ):
            return True
        if isinstance(part, ast.Attribute) and part.attr in ("is_cuda", "is_available"):
            name = module.qualified(part)
            if part.attr == "is_cuda" or name == "torch.cuda.is_available":
                return True
    return False
