"""Devices that a program requests from a cluster: of Ray by name or by number, of Slurm through submitit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.names import called, word
from ..analysis.verdict import ask, inside
from ..bases.row_argument import SEVERITY
from ..edits.arguments import argument
from ..edits.ray import asking_for_gaudi, item_for_gaudi
from ..edits.spelling import retext, shared

_ROW = "devices requested from Ray"
_CONFIG = "ray.train.torch.TorchConfig"
#: Arguments that ask Ray for devices, and its calls that are not named ``ray.…`` where they are.
_KEYWORDS = ("use_gpu", "num_gpus")
_METHODS = ("options", "remote", "map_batches", "map", "flat_map", "filter", "bind")
#: RLlib's settings, which know no other devices.
_OF_RLLIB = (
    "num_gpus_per_learner",
    "num_gpus_per_env_runner",
    "num_gpus_per_worker",
    "num_gpus_per_learner_worker",
)
#: Devices in a table of resources, and in a table of options of an actor.
_RESOURCE = ("GPU", "gpu")
_OPTION = "num_gpus"
_COUNTED = ("ray.cluster_resources", "ray.available_resources")
#: Arguments that ask Slurm for devices, through submitit.
_OF_SLURM = (
    "gpus_per_node",
    "slurm_gpus_per_node",
    "slurm_gpus_per_task",
    "slurm_gres",
    "slurm_mem_per_gpu",
)


class RequestedDevices(Rule):
    """``use_gpu=True``, ``num_gpus=1``, ``{"GPU": 1}`` of Ray; ``update_parameters(gpus_per_node=8)`` of submitit."""

    HPU716 = Code(
        "scheduler-resource",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "the library also works without it"},
    )
    wants = Wants(
        names=("ray.get_gpu_ids", _CONFIG),
        keywords=(*_KEYWORDS, *_OF_RLLIB, *_OF_SLURM),
        strings=(_OPTION,),
        required=("ray", "submitit", "update_parameters"),
    )
    also = Wants(keywords=("accelerator_type",), strings=_RESOURCE)
    strength = Strength.FIRM

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call) or _none(node.value):
            return
        if node.arg in _OF_SLURM:
            if word(call.func) == "update_parameters":
                yield self._of_slurm(module, node)
        elif not uses_ray(module):
            return
        elif node.arg in _OF_RLLIB or (node.arg == "num_gpus" and word(call.func) == "resources"):
            yield self._found(module, node, "RLlib's devices requested from Ray")
        elif node.arg == "accelerator_type":
            if _is_rays(module, call) and not str(module.constant(node.value)).startswith(
                "Intel-GAUDI"
            ):
                yield self._found(module, node, "device type requested from Ray")
        elif _is_rays(module, call):
            yield self._found(module, node, _ROW, asking_for_gaudi(module, call, node))

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``{"GPU": 1}`` that is given to Ray, ``ray.cluster_resources()["GPU"]``."""
        if node.value not in (*_RESOURCE, _OPTION) or not uses_ray(module):
            return
        table, statement = module.parent(node), module.statement(node)
        if isinstance(table, ast.Dict) and node in table.keys:
            value = table.values[table.keys.index(node)]
            if _none(value) or not any(map(_takes_it, _given_to(module, value))):
                return
            fix = item_for_gaudi(module, table, node, value)
            yield self._found(module, node, _ROW, fix, through=value)
        elif isinstance(statement, ast.Assign) and table in statement.targets:
            if not _none(statement.value) and any(_given_to(module, statement.value)):
                yield self._found(module, statement, _ROW)
        elif node.value in _RESOURCE and _counted(module, node):
            fix = None if shared(module) else Rewrite("count Gaudi", "safe", (retext(module, node, "HPU"),))  # fmt: skip
            yield self._found(module, node, _ROW, fix)

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        if name != _CONFIG:
            yield self._found(module, node, "ray.get_gpu_ids")
            return
        above = module.parent(node)
        own = isinstance(above, ast.ClassDef) and node in above.bases
        calls = module.index.calls(above.name) if isinstance(above, ast.ClassDef) and own else [called(module, node)]  # fmt: skip
        for call in calls if module.holds("use_gpu") else ():
            if call is not None and _leaves_backend(module, call):
                yield self._found(module, call, _ROW)

    def _found(
        self,
        module: Module,
        node: ast.AST,
        row: str,
        fix: Rewrite | None = None,
        through: ast.AST | None = None,
    ) -> Found:
        answer = ask(module, row)
        span = module.span(node)
        if through is not None:
            span = type(span)(span.start, module.span(through).end)
        return self.finding(
            span,
            f"`{module.source(span).splitlines()[0]}`: {inside(answer.note)}",
            fix=fix,
            row=answer.row,
            severity=SEVERITY[answer.status],
        )

    def _of_slurm(self, module: Module, node: ast.keyword) -> Found:
        written = module.source(node).splitlines()[0]
        return self.finding(
            node,
            f"`{written}` requests GPUs from Slurm; write the name of your cluster's Gaudi "
            "resource instead, as in `--gres=NAME:8`",
            row=ask(module, "--gres=gpu").row,
            severity="warning",
        )


def _leaves_backend(module: Module, config: ast.Call) -> bool:
    """Does Ray choose the backend, which is nccl or gloo then: ``TorchConfig()``, ``TorchConfig(backend=None)``?"""
    given = argument(config, "backend", 0)
    if given is None:
        return not any(keyword.arg is None for keyword in config.keywords)
    return any(isinstance(each, ast.Constant) and each.value is None for each in module.values(given))  # fmt: skip


def uses_ray(module: Module) -> bool:
    """Does the file import Ray?"""
    return any(
        name.partition(".")[0] == "ray"
        for statement in module.imports
        for name in (
            [statement.module or ""]
            if isinstance(statement, ast.ImportFrom)
            else [alias.name for alias in statement.names]
        )
    )


def _none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _is_rays(module: Module, call: ast.Call) -> bool:
    """Is it a call of Ray's, or one of the methods of what is Ray's?"""
    name = module.qualified(call.func) or ""
    if name.startswith("ray."):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS


def _given_to(module: Module, value: ast.expr) -> Iterator[ast.Call]:
    """The calls of Ray's that are given what holds a value: a table, a list of tables, by whatever name, or what returns it."""
    values = module.view(Values)
    makers = [above for above in module.ancestors(value) if isinstance(above, ast.Lambda)]
    for start in (value, *makers):
        for edge in values.reach(start, values.uses):
            if edge.how == "passed" and isinstance(edge.node, ast.AST) and (edge.at.way or start is not value):  # fmt: skip
                call = module.parent(edge.node) if isinstance(edge.node, ast.keyword) else edge.node
                if isinstance(call, ast.Call) and _is_rays(module, call):
                    yield call


def _takes_it(call: ast.Call) -> bool:
    """With ``use_gpu`` of a ``ScalingConfig`` its table is reported and rewritten together."""
    return argument(call, "use_gpu") is None


def _counted(module: Module, node: ast.Constant) -> bool:
    """``ray.cluster_resources()["GPU"]``, ``ray.available_resources().get("GPU", 0)``."""
    above = module.parent(node)
    of: ast.expr | None = None
    if isinstance(above, ast.Subscript) and above.slice is node:
        of = above.value
    elif isinstance(above, ast.Call) and above.args[:1] == [node] and word(above.func) == "get":
        of = above.func.value if isinstance(above.func, ast.Attribute) else None
    return of is not None and any(
        isinstance(value, ast.Call) and module.qualified(value.func) in _COUNTED
        for value in module.values(of)
    )
