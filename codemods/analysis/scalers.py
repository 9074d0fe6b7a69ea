"""Gradient scalers: which calls make one, and what is done with it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from hpushim.engine.python.module import Module
from hpushim.pycode.scope import Binding
from hpushim.pycode.walk import walk

from ..edits.arguments import argument
from ..edits.spelling import ACCELERATOR
from .entry import is_entry

CUDA_ONLY = frozenset({"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})
GENERIC = frozenset(
    {"torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler", "torch.GradScaler"}
)
SHARDED = frozenset(
    {
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
    }
)


@dataclass(frozen=True, slots=True)
class Scaler:
    """One variable that holds scalers, or one creation that no variable of its own holds."""

    creations: tuple[ast.Call, ...]
    #: Every call on the variable, where it can go with all of them; none where it has to stay.
    uses: tuple[ast.Call, ...] = ()


def creates(module: Module, call: ast.Call) -> bool:
    """Does the call make a scaler that scales?"""
    names = module.possible_names(call.func)
    if not names or not names <= CUDA_ONLY | GENERIC | SHARDED:
        return False
    if any(isinstance(part, ast.Name) and part.id == ACCELERATOR for part in walk(call)):
        return False  # off on Gaudi already
    if names & CUDA_ONLY:
        return True
    given = {k.arg: module.constant(k.value) for k in call.keywords}
    off = given.get("enabled") is False
    if names & SHARDED:
        return not off
    device = module.constant(call.args[0]) if call.args else given.get("device")
    return device not in ("cpu", "hpu") and not (off and device != "cuda")


def is_generic(module: Module, call: ast.Call) -> bool:
    """Is it the class whose first parameter is the device?"""
    return module.possible_names(call.func) <= GENERIC


def enabled_by(module: Module, call: ast.Call) -> ast.expr | None:
    """What says whether the scaler is on."""
    return argument(call, "enabled", 5 if is_generic(module, call) else 4)


def device_of(module: Module, call: ast.Call) -> ast.expr | None:
    """The device of a general scaler where it is worked out: ``GradScaler(device.type)``; None for a plain text or none."""
    if not module.possible_names(call.func) <= GENERIC:
        return None
    given = argument(call, "device", 0)
    return None if isinstance(given, (ast.Constant, ast.JoinedStr, ast.BinOp)) else given


def scaler_of(module: Module, call: ast.Call) -> Scaler:
    """The scaler that a call makes, with the other creations of its variable."""
    alone = Scaler((call,))
    name = _variable(module.parent(call))
    if name is None or module.possible_names(call.func) & SHARDED:
        return alone
    scope = module.scope(name)
    bindings = scope.lookup(name.id)
    values = [b.value for b in bindings if _is_creation(module, b)]
    creations = tuple(value for value in values if isinstance(value, ast.Call))
    if len(creations) != len(bindings) or not creations:
        return alone
    scaler = Scaler(creations)
    if scope.is_class or (scope is module.global_scope and not is_entry(module)):
        return scaler  # others may read it
    uses = _uses(module, bindings)
    called = {u.func.attr for u in uses if isinstance(u.func, ast.Attribute)}
    goes = bool(called & {"scale", "step"}) and module.target.style == "native"
    return Scaler(creations, uses) if goes else scaler


def _variable(statement: ast.AST | None) -> ast.Name | None:
    """The variable of ``name = …`` or ``name: T = …``."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target if isinstance(target, ast.Name) else None


def _is_creation(module: Module, binding: Binding) -> bool:
    return (
        binding.kind == "assign"
        and isinstance(binding.value, ast.Call)
        and _variable(binding.node) is not None
        and module.parent(binding.value) is binding.node
        and creates(module, binding.value)
    )


def _uses(module: Module, bindings: list[Binding]) -> tuple[ast.Call, ...]:
    """Every call on the scaler; none where something else is done with it."""
    calls: list[ast.Call] = []
    for name in module.index.names(bindings[0].name):
        if not isinstance(name.ctx, ast.Load) or module.bindings(name) is not bindings:
            continue
        method = module.parent(name)
        call = module.parent(method) if method is not None else None
        if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call):
            return ()
        if call.func is not method or not _can_go(module, call, method):
            return ()
        calls.append(call)
    return tuple(calls)


def _can_go(module: Module, call: ast.Call, method: ast.Attribute) -> bool:
    """Is it clear what remains of a call without its scaler?"""
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    match method.attr:
        case "scale":
            return plain and len(call.args) == 1 and not call.keywords
        case "step":
            return plain and len(call.args) >= 1
        case "unscale_" | "update":
            return isinstance(module.parent(call), ast.Expr)
    return False
