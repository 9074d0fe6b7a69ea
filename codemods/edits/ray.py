"""Gaudi cards as a Ray job asks for them: the resource "HPU", and hccl between the workers of Ray Train."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Change, Import, Replace, Rewrite

from .arguments import add, argument
from .imports import local_name
from .spelling import dual

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_TORCH = "ray.train.torch"


def asking_for_gaudi(module: Module, call: ast.Call, given: ast.keyword) -> Rewrite | None:
    """``use_gpu=`` of a ``ScalingConfig`` and ``num_gpus=`` of a task or an actor; None where more has to be known."""
    if dual(module):
        return None  # what Ray is asked for is either "GPU" or "HPU"
    if given.arg == "use_gpu":
        return _of_workers(module, call, given)
    number = module.constant(given.value)
    whole = isinstance(number, int) and number > 0
    if (
        not whole
        or argument(call, "resources") is not None
        or module.qualified(call.func) == "ray.init"
    ):
        return None
    return Rewrite(
        "ask for Gaudi", "safe", (_resources(given, "resources", f'{{"HPU": {number}}}'),)
    )


def _of_workers(module: Module, call: ast.Call, given: ast.keyword) -> Rewrite | None:
    """The workers' cards and, where Ray would choose gloo for what has no "GPU", their backend."""
    trainers = [
        trainer
        for trainer in module.index.calls("TorchTrainer")
        if call in module.values(argument(trainer, "scaling_config"))
    ]
    if not trainers or argument(call, "resources_per_worker", 2) is not None:
        return None
    always = isinstance(given.value, ast.Constant)
    if not always and any(module.function(one) is not module.function(call) for one in trainers):
        return None  # the condition may mean something else there
    condition = f" if {module.source(given.value)} else "
    kind = '"HPU"' if always else f'"HPU"{condition}"CPU"'
    backend = '"hccl"' if always else f'"hccl"{condition}"gloo"'
    changes: list[Change] = [_resources(given, "resources_per_worker", f"{{{kind}: 1}}")]
    for trainer in trainers:
        config = argument(trainer, "torch_config")
        if config is None:
            made = f"{local_name(module, _TORCH)}.TorchConfig(backend={backend})"
            changes += [add(trainer, f"torch_config={made}"), Import(_TORCH)]
        elif not any(_of_nccl(module, value) for value in module.values(config)):
            return None
    return Rewrite("ask for Gaudi", "safe", tuple(changes))


def _of_nccl(module: Module, config: ast.expr) -> bool:
    """A backend that is told, and rewritten where it stands."""
    return isinstance(config, ast.Call) and module.constant(argument(config, "backend", 0)) in ("nccl", "hccl")  # fmt: skip


def _resources(given: ast.keyword, name: str, value: str) -> Replace:
    def asked(node: object) -> object:
        import libcst as cst

        assert isinstance(node, cst.Arg)
        return node.with_changes(keyword=cst.Name(name), value=cst.parse_expression(value))

    return Replace(given, asked)
