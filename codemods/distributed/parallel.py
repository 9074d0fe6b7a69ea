"""Wrappers and collectives that take device indices: one process drives one Gaudi device."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.device_numbers import (
    is_current,
    is_device_number,
)
from ..analysis.kinds import base_words
from ..analysis.names import called, is_none, partial_of, word
from ..analysis.project_facts import CLASSES
from ..analysis.verdict import ask
from ..bases.row_argument import Given, arguments_of
from ..edits.arguments import argument, drop
from ..edits.imports import torch
from ..edits.spelling import DEVICE, agnostic, chosen, kept_for_cuda, quoted, retext, shared
from ..values.data_parallel import DDP, LeftBehind
from ..values.data_parallel import NAMES as DATA_PARALLEL
from ..values.data_parallel import ROW as DATA_PARALLEL_ROW

_FSDP = frozenset(
    {
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    }
)
_BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.distributed_c10d.barrier"})
_MESHES = frozenset(
    {
        "torch.distributed.device_mesh.init_device_mesh",
        "torch.distributed.init_device_mesh",
        "torch.distributed.device_mesh.DeviceMesh",
        "torch.distributed.tensor.DeviceMesh",
        "torch.distributed._tensor.DeviceMesh",
        "torch.distributed._tensor.device_mesh.DeviceMesh",
    }
)
#: What DataParallel is made of, also where a project has a copy of it.
_SPREADING = frozenset(
    f"torch.nn.parallel.{name}"
    for name in (
        "replicate",
        "replicate.replicate",
        "parallel_apply",
        "parallel_apply.parallel_apply",
        "data_parallel",
        "data_parallel.data_parallel",
    )
)


#: What it moves its inputs and outputs with, which torch has for CUDA alone.
_SCATTERING = frozenset(
    f"torch.nn.parallel.{name}"
    for name in (
        *("scatter", "gather", "scatter_gather.scatter", "scatter_gather.gather", "scatter_gather.scatter_kwargs"),
        *("comm.broadcast", "comm.broadcast_coalesced", "comm.reduce_add", "comm.reduce_add_coalesced"),
        *("comm.scatter", "comm.gather"),
    )
)  # fmt: skip


class DeviceIds(Rule):
    """``device_ids`` and ``output_device`` of DDP, and the same idea elsewhere."""

    HPU306 = Code("ddp-device-ids", severity="error", fix=("safe", "unsafe", "manual"))
    HPU308 = Code(
        "data-parallel",
        severity="error",
        fix=("safe", "manual"),
        effort="hours",
        lower={"warning": "the wrapper passes everything on to the one device"},
    )
    HPU309 = Code("fsdp-device-id", severity="error", fix="safe")
    HPU315 = Code("barrier-device-ids", severity="error", fix="safe")
    HPU317 = Code("device-mesh-cuda", severity="error", fix="safe", effort="hours")
    wants = Wants(
        names=tuple(
            sorted(DDP | DATA_PARALLEL | _FSDP | _BARRIERS | _MESHES | _SPREADING | _SCATTERING)
        ),
        keywords=("device_ids",),
        facts=(CLASSES,),
    )
    also = Wants(keywords=("device_id",), attributes=("device_ids", "output_device"))

    def __init__(self) -> None:
        #: What was reported: two calls may be given one dictionary.
        self._reported: set[ast.expr] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        names = module.possible_names(node)
        above = module.parent(node)
        if isinstance(above, ast.ClassDef) and node in above.bases and names <= DATA_PARALLEL:
            family = [each for each in module.index.statements(ast.ClassDef) if each is above or above.name in base_words(module, each.name)]  # fmt: skip
            yield from [found for each in family if (found := self._scattering(module, node, each))] or [self._data_parallel(module, node)]  # fmt: skip
        call = called(module, node) or partial_of(module, node)
        if call is None:
            return
        if names <= DDP:
            yield from self._ddp(module, call)
        elif names <= DATA_PARALLEL:
            yield self._data_parallel(module, node)
        elif names <= _FSDP:
            yield from self._fsdp(module, call)
        elif names <= _BARRIERS:
            yield from self._barrier(module, call)
        elif names <= _MESHES:
            yield from self._mesh(module, call)
        elif names <= _SPREADING | _SCATTERING:
            shown = module.source(call.func)
            yield self.finding(
                call.func,
                f"`{shown}` moves tensors between CUDA devices alone; move them to the one device with `.to(device)`"
                if names <= _SCATTERING
                else f"`{shown}` uses several devices in one process; Gaudi allows one device per process: use DistributedDataParallel",
                row=ask(module, DATA_PARALLEL_ROW).row,
                code="HPU308",
            )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``model.device_ids[0]``, of a wrapper that has indices on CUDA alone."""
        if agnostic(module) or not isinstance(node.ctx, ast.Load):
            return
        made = [each for each in module.view(Values).origins(node.value) if isinstance(each, ast.Call)]  # fmt: skip
        shown, ours = module.source(node), {module.qualified(call.func) for call in made}
        if any(module.qualified(call.func) in DDP and (call.args[1:] or _given(module, call, "device_ids")) for call in made):  # fmt: skip
            yield self.finding(
                node,
                f"`{shown}` is None on Gaudi, where DDP is given no indices; take the device of the parameters",
                row=ask(module, "torch.nn.parallel.DistributedDataParallel(device_ids=)").row,
                code="HPU306", safety="manual",
            )  # fmt: skip
        elif ours & DATA_PARALLEL:
            empty = "an empty list" if node.attr == "device_ids" else "missing"
            yield self.finding(
                node,
                f"`{shown}` is {empty} on Gaudi, where DataParallel has no devices to spread the model over",
                row=ask(module, DATA_PARALLEL_ROW).row, code="HPU308", severity="warning",
            )  # fmt: skip

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``Own(model, device_ids=[rank])``, where the project builds the class on DDP or FSDP."""
        call = module.parent(node)
        named = module.qualified(call.func) or word(call.func) if isinstance(call, ast.Call) else ""
        bases = base_words(module, named.rpartition(".")[2])
        if isinstance(call, ast.Call) and "DistributedDataParallel" in bases:
            yield from self._ddp(module, call, own=True)
        elif isinstance(call, ast.Call) and "FullyShardedDataParallel" in bases:
            yield from self._fsdp(module, call)

    def _ddp(self, module: Module, call: ast.Call, own: bool = False) -> Yield:
        """An own class may request what torch's has a default for: it is given None."""
        whole = module.possible_names(call.func) <= DDP  # an own class, a partial have other places
        by_place = (
            whole
            and len(call.args) in (2, 3)
            and not any(isinstance(a, ast.Starred) for a in call.args)
        )
        given = [
            each
            for each in _given(module, call, "device_ids", "output_device")
            if each.value not in self._reported
        ]
        if not given and not by_place:
            return
        self._reported.update(each.value for each in given)
        answer = ask(module, "torch.nn.parallel.DistributedDataParallel")
        spread = [each for each in given if own or each.keyword not in call.keywords]
        if agnostic(module):
            lists = [each.value for each in given if each.name == "device_ids"]
            bare = [each.value for each in given if each.name == "output_device"]
            if by_place:
                lists, bare = [*lists, call.args[1]], [*bare, *call.args[2:]]
            yield from self._own_device(
                module, [*(number for value in lists for number in _members(value)), *bare]
            )
            return
        if shared(module):
            values = [*(each.value for each in given), *(call.args[1:] if by_place else ())]
            gone = _kept_for_cuda(module, values)
            if not gone:
                return
        else:
            names = () if own else ("device_ids", "output_device")
            gone = drop(call, *names, positional=1 if by_place else None)
            gone = (*gone, *(Replace(each.value, "None") for each in spread))
        first = given[0] if given else None
        yield self.finding(
            call.args[1] if first is None else first.keyword or first.value,
            "each process has one Gaudi device, so DDP does not accept `device_ids`: take them out. Without them "
            "DDP moves no inputs; check that the code moves each batch with `.to(device)`",
            fix=Rewrite("remove the device indices", answer.safety, gone),
            row=answer.row,
            claims=[each.value for each in given],
        )

    def _own_device(self, module: Module, given: Iterable[ast.expr]) -> Yield:
        """The agnostic style: a number names no vendor and stays, though the process's own device has index 0 on Gaudi."""
        numbers = [
            number
            for number in given
            if not is_current(module, number)
            and not isinstance(number, ast.Starred)
            and not is_none(number)
            and module.constant(number) != 0
        ]
        if not numbers:
            return
        current, needed = torch(module, numbers[0], "accelerator.current_device_index")
        yield self.finding(
            numbers[0],
            f"the number names no vendor and stays, but on Gaudi DDP accepts index 0 alone; where the process has set its device, `{current}()` is "
            "that device's index everywhere",
            fix=Rewrite(
                "name the process's own device",
                "unsafe",
                (*(Replace(number, f"{current}()") for number in numbers), *needed),
            ),
            row=ask(module, "torch.nn.parallel.DistributedDataParallel(device_ids=)").row,
        )

    def _data_parallel(self, module: Module, node: ast.expr) -> Found:
        """On one device the wrapper passes everything through, also what is on the CPU."""
        unseen = (
            ""
            if module.view(LeftBehind).seen
            else "; on Gaudi neither moves inputs, so move each batch with `.to(device)`"
        )
        call = called(module, node)
        ids = argument(call, "device_ids", 1) if call is not None and agnostic(module) else None
        alone = ids is not None and (call is None or ids not in call.args or ids is call.args[-1])
        if call is not None and ids is not None and alone and _are_all(module, ids):
            return self.finding(
                node,
                f"`{module.source(node)}` takes all devices, of whatever kind, unless it is given some; remove `device_ids`",
                fix=Rewrite("remove the device indices", "safe", drop(call, "device_ids", positional=1 if ids in call.args else None), harmless=True),
                row=ask(module, DATA_PARALLEL_ROW).row,
                code="HPU308",
                severity="warning",
                claims=(ids,),
            )  # fmt: skip
        return self.finding(
            node,
            f"`{module.source(node)}` does nothing useful on Gaudi, where a process has one device; "
            f"use DistributedDataParallel for several devices{unseen}",
            row=ask(module, DATA_PARALLEL_ROW).row,
            code="HPU308",
            severity="warning",
            effort="minutes" if module.holds("DistributedDataParallel") else None,
        )

    def _scattering(self, module: Module, node: ast.expr, owner: ast.ClassDef) -> Found | None:
        """A subclass that divides the inputs in its own way, without which the model does not take them."""
        message = (
            f"`{owner.name}.scatter` is not called on Gaudi, where `{module.source(node)}` has no devices: the model gets "
            "its inputs as they are. Call the model itself with one device's inputs; use DistributedDataParallel for several devices"
        )
        row = ask(module, DATA_PARALLEL_ROW).row
        own = any(isinstance(s, ast.FunctionDef) and s.name == "scatter" for s in owner.body)
        return self.finding(owner.bases[0], message, row=row, code="HPU308") if own else None

    def _fsdp(self, module: Module, call: ast.Call) -> Yield:
        if agnostic(module):
            return  # a number names no vendor
        answer = ask(module, "torch.distributed.fsdp.FullyShardedDataParallel(device_id=)")
        for each in _given(module, call, "device_id"):
            given = each.value
            if given in self._reported or not is_device_number(module, given):
                continue
            self._reported.add(given)
            device, needed = torch(module, given, "device")
            bare = f"{device}({quoted(module, DEVICE)}, 0)"
            if shared(module):
                bare = chosen(module, given, bare)
            change = Replace(given, bare)
            yield self.finding(
                given,
                "the device of an FSDP process on Gaudi is `hpu` with index 0, whatever its rank",
                fix=Rewrite("name the device", answer.safety, (change, *needed)),
                row=answer.row,
                code="HPU309",
                claims=(given,),
            )

    def _barrier(self, module: Module, call: ast.Call) -> Yield:
        given = [
            each for each in _given(module, call, "device_ids") if each.keyword in call.keywords
        ]
        if not given or _is_passed_on(module, given[0].value):
            return
        answer = ask(module, "torch.distributed.barrier")
        gone: tuple[Change, ...] = drop(call, "device_ids")
        if shared(module):
            gone = _kept_for_cuda(module, [each.value for each in given])
            if not gone:
                return
        yield self.finding(
            given[0].keyword or call,
            "`device_ids` of a barrier is an option of NCCL; remove it for hccl",
            fix=Rewrite("remove the device indices", answer.safety, gone),
            row=answer.row,
            code="HPU315",
            claims=[each.value for each in given],
        )

    def _mesh(self, module: Module, call: ast.Call) -> Yield:
        device = argument(call, "device_type", 0)
        if device is None or module.constant(device) != "cuda":
            return
        yield self.finding(
            device,
            "a device mesh of type `cuda` finds no device on Gaudi; use `hpu`",
            fix=Rewrite("use hpu", "safe", (retext(module, device, DEVICE),)),
            row=ask(module, "torch.distributed.device_mesh.init_device_mesh").row,
            code="HPU317",
            claims=(device,),
        )


def _are_all(module: Module, ids: ast.expr) -> bool:
    """``range(torch.cuda.device_count())``, also as a list: the indices of all devices."""
    while isinstance(ids, ast.Call) and len(ids.args) == 1:
        if module.qualified(ids.func) not in ("builtins.list", "builtins.range"):
            return False
        (ids,) = ids.args
    if isinstance(ids, ast.ListComp) and len(ids.generators) == 1:
        each = ids.generators[0]
        same = ast.dump(ids.elt).replace("Load", "Store") == ast.dump(each.target)
        return same and not each.ifs and _are_all(module, each.iter)
    return isinstance(ids, ast.Call) and module.qualified(ids.func) == "torch.cuda.device_count"


def _members(value: ast.expr) -> Iterable[ast.expr]:
    """The numbers in ``[rank]`` and ``[rank] if many else None``."""
    if isinstance(value, ast.IfExp):
        return [*_members(value.body), *_members(value.orelse)]
    return value.elts if isinstance(value, (ast.List, ast.Tuple)) else ()


def _kept_for_cuda(module: Module, values: Iterable[ast.expr]) -> tuple[Change, ...]:
    """None on Gaudi, and what is written on CUDA; nothing in the agnostic style, where the numbers name no vendor."""
    if agnostic(module):
        return ()
    return tuple(change for value in values for change in kept_for_cuda(module, value, "None"))


def _is_passed_on(module: Module, node: ast.expr) -> bool:
    """Is it an argument that the function around the call takes, and is None unless somebody gives one?"""
    bound = module.bindings(node) if isinstance(node, ast.Name) else []
    return bool(bound) and all(
        binding.kind == "param"
        and (binding.value is None or module.constant(binding.value) is None)
        for binding in bound
    )


def _given(module: Module, call: ast.Call, *names: str) -> list[Given]:
    """The arguments by keyword of these names that are not plainly None, also through ``**options``."""
    return [
        each
        for each in arguments_of(module, call)
        if each.name in names and not is_none(each.value)
    ]
