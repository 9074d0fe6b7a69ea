"""Averages over ranks, which hccl has not: a sum and a division."""

from __future__ import annotations

import ast
from functools import partial

from hpushim.engine.python.changes import Import, Insert, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.names import called, word
from ..analysis.verdict import ask, sentence
from ..edits.arguments import argument, attribute
from ..edits.imports import through
from ..edits.spelling import agnostic, quoted
from ..values.training import LOSS

_C10D = ("torch.distributed", "torch.distributed.distributed_c10d")
_AVERAGE = tuple(f"{module}.ReduceOp.AVG" for module in _C10D)
#: What every rank gets a result of, and the place of `group`.
_FILLED = {
    "all_reduce": ("tensor", 2),
    "reduce_scatter": ("output", 3),
    "reduce_scatter_single": ("output", 3),
    "reduce_scatter_tensor": ("output", 3),
}
_SHARDING = (
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)
_ROW = "torch.distributed.fsdp.fully_shard"
_SUMMING = "set_force_sum_reduction_for_comms"
#: Methods that keep the type of a tensor, and those that give no whole numbers.
_SAME_TYPE = ("detach", "clone", "to", "cuda", "hpu", "contiguous")
_FLOATS = ("mean", "float", "double", "half", "bfloat16", "std", "var", "norm", "softmax")
#: The expressions that mean the same when they are written twice.
_STEADY = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)


class Average(Rule):
    """``ReduceOp.AVG``, and ``fully_shard``, which averages with it."""

    HPU324 = Code(
        "average-over-ranks",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "it is an option of sharded gradients"},
    )
    wants = Wants(names=(*_AVERAGE, *_SHARDING))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        if name in _SHARDING:
            yield from self._sharding(module, node)
            return
        answer = ask(module, _AVERAGE[0])
        yield self.finding(
            node,
            f"`{module.source(node)}` is not supported by hccl. {sentence(answer.note)}",
            fix=None if agnostic(module) else _as_sum(module, node),
            row=answer.row,
        )

    def _sharding(self, module: Module, node: ast.expr) -> Yield:
        call = called(module, node)
        if call is None:
            return
        fix = None
        sharded, statement = _sharded(module, call)
        if sharded:
            if module.holds(f"{sharded}.{_SUMMING}("):
                return
            assert statement is not None
            insert = Insert(statement, f"{sharded}.{_SUMMING}(True)")
            fix = Rewrite("sum and divide", "safe", (insert,))
        yield self.finding(
            node,
            f"`{module.source(node)}` averages gradients with ReduceOp.AVG, which hccl lacks; "
            f"call `{_SUMMING}(True)` on the sharded module (from torch 2.8 on)",
            fix=fix,
            row=_ROW,
            severity="warning",
        )


def _as_sum(module: Module, node: ast.expr) -> Rewrite | None:
    """``all_reduce(x, op=ReduceOp.AVG)`` as a statement: the sum, and behind it the division.

    What a rank gives stays its own where one rank alone gets the result (``reduce``), and a call that is not waited for
    has no result yet: both are for the author.
    """
    above = module.parent(node)
    call = module.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call) or not isinstance(node, ast.Attribute):
        return None
    function = (module.qualified(call.func) or "").rpartition(".")
    statement = module.parent(call)
    if (
        function[2] not in _FILLED
        or function[0] not in _C10D
        or not isinstance(statement, ast.Expr)
    ):
        return None
    parameter, place = _FILLED[function[2]]
    waits = argument(call, "async_op", place + 1)
    result, group = argument(call, parameter, 0), argument(call, "group", place)
    if result is None or not _is_steady(result) or (group is not None and not _is_steady(group)):
        return None
    if waits is not None and module.constant(waits) is not False:
        return None
    size, needed = _world_size(module, call.func)
    of = "" if group is None else module.source(group)
    written = module.source(result)
    end = result.attr if isinstance(result, ast.Attribute) else ""
    plain = written if end in ("data", "grad") else f"{written}.detach()"
    rounding = (
        ""
        if end == "grad" or _is_floating(module, result)
        else f", rounding_mode=None if {written}.is_floating_point() else {quoted(module, 'trunc')}"
    )
    divide = Insert(statement, f"{plain}.div_({size}({of}){rounding})")
    return Rewrite("sum and divide", "safe", (attribute(node, "SUM"), divide, *needed))


def _is_floating(module: Module, node: ast.expr) -> bool:
    """Is it a loss by its name, or made by what gives no whole numbers?"""
    made = [each for each in module.view(Values).origins(node) if each is not node]
    return LOSS.search(word(node)) is not None or (bool(made) and all(map(partial(_gives_floats, module), made)))  # fmt: skip


def _gives_floats(module: Module, node: ast.AST) -> bool:
    while (
        isinstance(node, ast.Call)
        and word(node.func) in _SAME_TYPE
        and isinstance(node.func, ast.Attribute)
    ):
        node = node.func.value
    if isinstance(node, ast.Name):
        return _is_floating(module, node)
    if not isinstance(node, ast.Call):
        return False
    if word(node.func) in _FLOATS:
        return True
    types = [module.qualified(k.value) or "" for k in node.keywords if k.arg == "dtype"]
    plain = (module.qualified(node.func) or "") in ("torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn")  # fmt: skip
    filled = module.qualified(node.func) == "torch.tensor" and node.args and isinstance(module.constant(node.args[0]), float)  # fmt: skip
    return bool(types and all("float" in each or "half" in each for each in types)) or (not types and bool(plain or filled))  # fmt: skip


def _world_size(module: Module, function: ast.expr) -> tuple[str, tuple[Import, ...]]:
    if isinstance(function, ast.Attribute):
        return f"{module.operand(function.value)}.get_world_size", ()
    return through(module, function, "torch.distributed.get_world_size")


def _sharded(module: Module, call: ast.Call) -> tuple[str, ast.stmt | None]:
    """What is sharded, as it is written behind the statement; empty where a statement of its own cannot say it."""
    statement = module.parent(call)
    if isinstance(statement, ast.Expr):
        given = argument(call, "module", 0)
        if given is not None and _is_steady(given):
            return module.source(given), statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        (target,) = statement.targets
        if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)) and _is_steady(target):
            return module.source(target), statement
    return "", None


def _is_steady(node: ast.expr) -> bool:
    return all(isinstance(part, _STEADY) for part in ast.walk(node))
