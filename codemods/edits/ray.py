"""Gaudi devices as a Ray job requests them: the resource "HPU", and hccl between the workers of Ray Train."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Change, Import, Remove, Replace, Rewrite
from hpushim.engine.python.module import Module

from .arguments import add, argument
from .imports import local_name
from .spelling import retext, shared

if TYPE_CHECKING:
    import libcst as cst  # loaded where something is written, which `check` never does

_TORCH = "ray.train.torch"


def asking_for_gaudi(module: Module, call: ast.Call, given: ast.keyword) -> Rewrite | None:
    """``use_gpu=`` of a ``ScalingConfig`` and ``num_gpus=`` of a task or an actor; None where more has to be known."""
    if shared(module):
        return None  # a Ray request names either "GPU" or "HPU"
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
        "request Gaudi", "safe", (_resources(given, "resources", f'{{"HPU": {number}}}'),)
    )


def _of_workers(module: Module, call: ast.Call, given: ast.keyword) -> Rewrite | None:
    """The workers' devices and, where Ray would choose gloo for what has no "GPU", their backend."""
    trainers = [
        trainer
        for trainer in module.index.calls("TorchTrainer")
        if call in module.values(argument(trainer, "scaling_config"))
    ]
    always = isinstance(given.value, ast.Constant)
    table = argument(call, "resources_per_worker")
    if not trainers or len(call.args) > 2 or (table is not None and not always):
        return None
    if not always and any(module.function(one) is not module.function(call) for one in trainers):
        return None  # the condition may mean something else there
    condition = f" if {module.source(given.value)} else "
    kind = '"HPU"' if always else f'"HPU"{condition}"CPU"'
    backend = '"hccl"' if always else f'"hccl"{condition}"gloo"'
    changes: list[Change] = []
    if table is None:
        changes.append(_resources(given, "resources_per_worker", f"{{{kind}: 1}}"))
    elif isinstance(table, ast.Dict) and None not in table.keys:
        changes += [Remove(given), *_own_table(module, table)]
    else:
        return None
    for trainer in trainers:
        config = argument(trainer, "torch_config")
        if config is None:
            made = f"{local_name(module, _TORCH)}.TorchConfig(backend={backend})"
            changes += [add(trainer, f"torch_config={made}"), Import(_TORCH)]
        elif not any(_of_nccl(module, value) for value in module.values(config)):
            return None
    return Rewrite("request Gaudi", "safe", tuple(changes))


def _own_table(module: Module, table: ast.Dict) -> tuple[Change, ...]:
    """A worker's resources with Gaudi in the place of the GPU; of one that names none, one is requested."""
    for key in table.keys:
        if isinstance(key, ast.Constant) and key.value == "GPU":
            return (retext(module, key, "HPU"),)
    return (Replace(table, _with_item('"HPU": 1')),)


def item_for_gaudi(
    module: Module, table: ast.Dict, key: ast.Constant, value: ast.expr
) -> Rewrite | None:
    """``{"GPU": 1}`` of a table of resources, ``{"num_gpus": 1}`` of an actor's options; None where it is part of a device."""
    number = module.constant(value)
    if shared(module) or (isinstance(number, float) and not number.is_integer()):
        return None
    known = {module.constant(one) for one in table.keys if one is not None}
    if key.value == "num_gpus":
        if not isinstance(number, int) or "resources" in known:
            return None
        changes: tuple[Change, ...] = (
            retext(module, key, "resources"),
            Replace(value, f'{{"HPU": {number}}}'),
        )
        return Rewrite("request Gaudi", "safe", changes)
    if "custom_resources" in known:
        return None  # then Ray Tune takes what else it does not know for nothing
    return Rewrite("request Gaudi", "safe", (retext(module, key, "HPU"),))


def _with_item(item: str) -> Callable[[cst.Dict], cst.Dict]:
    def added(node: cst.Dict) -> cst.Dict:
        import libcst as cst

        made = cst.parse_expression("{" + item + "}")
        assert isinstance(made, cst.Dict)
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        before = [*node.elements]
        if before:
            before[-1] = before[-1].with_changes(comma=comma)
        return node.with_changes(elements=[*before, *made.elements])

    return added


def _of_nccl(module: Module, config: ast.expr) -> bool:
    """A backend that is reported, and rewritten where it is."""
    return isinstance(config, ast.Call) and module.constant(argument(config, "backend", 0)) in ("nccl", "hccl")  # fmt: skip


def _resources(given: ast.keyword, name: str, value: str) -> Replace:
    def requested(node: object) -> object:
        import libcst as cst

        assert isinstance(node, cst.Arg)
        return node.with_changes(keyword=cst.Name(name), value=cst.parse_expression(value))

    return Replace(given, requested)
