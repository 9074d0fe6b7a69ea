"""Wrappers and collectives that take device indices: one process drives one Gaudi card."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _data_parallel
from ._arguments import argument, drop
from ._claims import claim, kept_whole
from ._strings import retext
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_DDP = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    }
)
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


class DeviceIds(Rule):
    """``device_ids`` and ``output_device`` of DDP, and the same idea elsewhere."""

    code = "HPU306"
    name = "ddp-device-ids"
    severity = "error"
    markers = (b"Parallel", b"barrier", b"Mesh", b"device_mesh")
    also: ClassVar[dict[str, str]] = {
        "HPU308": "data-parallel",
        "HPU309": "fsdp-device-id",
        "HPU315": "barrier-device-ids",
        "HPU317": "device-mesh-cuda",
    }

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        for part in module.of_type(ast.Call):
            names = module.possible_names(part.func)
            if names and names <= _DDP | _BARRIERS:
                for name in ("device_ids", "output_device"):
                    given = argument(part, name)
                    if given is not None:
                        claim(module, given)
            if names and names <= _MESHES and _mesh_device(module, part) is not None:
                claim(module, part.args[0] if part.args else part.keywords[0].value)
        yield from ()

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if kept_whole(module):
            return
        names = module.possible_names(node.func)
        if not names:
            return
        if names <= _DDP:
            yield from self._ddp(module, node)
        elif names <= _data_parallel.NAMES:
            yield self._data_parallel(module, node)
        elif names <= _FSDP:
            yield from self._fsdp(module, node)
        elif names <= _BARRIERS:
            yield from self._barrier(module, node)
        elif names <= _MESHES:
            yield from self._mesh(module, node)

    def _ddp(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        by_place = len(call.args) in (2, 3) and not any(
            isinstance(a, ast.Starred) for a in call.args
        )
        given = [k for k in call.keywords if k.arg in ("device_ids", "output_device")]
        given = [k for k in given if module.constant(k.value) is not None or not _is_none(k.value)]
        if not given and not by_place:
            return
        answer = ask(module, "torch.nn.parallel.DistributedDataParallel")
        edits = drop(
            module, call, "device_ids", "output_device", positional=1 if by_place else None
        )
        yield self.finding(
            module,
            given[0] if given else call.args[1],
            "DDP on Gaudi takes no `device_ids`: each process has one card, and the module is on it",
            fix=Fix("drop the device indices", answer.safety, tuple(edits)),
            row=answer.row,
        )

    def _data_parallel(self, module: Module, call: ast.Call) -> Finding:
        """On one card the wrapper passes everything through, also what is on the CPU."""
        answer = ask(module, _data_parallel.ROW)
        _, seen = _data_parallel.left_behind(module)
        moved = (
            ""
            if seen
            else ", and move each batch with `.to(device)`, for nothing spreads it any more"
        )
        return self.finding(
            module,
            call.func,
            f"`{module.source(call.func)}` spreads one process over many devices; a process has one "
            f"Gaudi card, which it leaves alone: use DistributedDataParallel for more{moved}",
            row=answer.row,
            code="HPU308",
            severity="warning" if seen else "error",
        )

    def _fsdp(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        given = argument(call, "device_id")
        name = module.qualified(given.func) if isinstance(given, ast.Call) else None
        if given is None or name not in ("torch.cuda.current_device", "torch.hpu.current_device"):
            return
        answer = ask(module, "torch.distributed.fsdp.FullyShardedDataParallel(device_id=)")
        torch = module.source(given).split(".cuda.")[0].split(".hpu.")[0]
        claim(module, given)
        fix = Fix(
            "name the device", answer.safety, (module.replace(given, f'{torch}.device("hpu")'),)
        )
        yield self.finding(
            module,
            given,
            "FSDP on Gaudi takes the bare device, not an index",
            fix=fix if torch != module.source(given) else None,
            row=answer.row,
            code="HPU309",
        )

    def _barrier(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        given = [k for k in call.keywords if k.arg == "device_ids" and not _is_none(k.value)]
        if not given:
            return
        answer = ask(module, "torch.distributed.barrier")
        yield self.finding(
            module,
            given[0],
            "`device_ids` of a barrier is for NCCL; hccl knows its card",
            fix=Fix(
                "drop the device indices", answer.safety, tuple(drop(module, call, "device_ids"))
            ),
            row=answer.row,
            code="HPU315",
        )

    def _mesh(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        device = _mesh_device(module, call)
        if device is None:
            return
        answer = ask(module, "torch.distributed.device_mesh.init_device_mesh")
        yield self.finding(
            module,
            device,
            "a device mesh over `cuda` finds no device; on Gaudi it is `hpu`",
            fix=Fix("use hpu", "safe", (retext(module, device, "hpu"),)),
            row=answer.row,
            code="HPU317",
        )


def _mesh_device(module: Module, call: ast.Call) -> ast.expr | None:
    device = argument(call, "device_type", 0)
    return device if device is not None and module.constant(device) == "cuda" else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
