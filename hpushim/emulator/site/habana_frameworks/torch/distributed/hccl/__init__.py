"""Importing this module registers the backend ``hccl`` (emulated over gloo) with torch.distributed."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
import os

from habana_frameworks.torch.hpu import HABANA_VISIBLE_MODULES_VAR, HLS_MODULE_ID_VAR
from habana_frameworks.torch.utils.experimental.distributed_emulation import (
    distributed_emulation_apply_if_enabled,
    is_distributed_emulation_enabled,
)

_MPI = {
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "RANK": "OMPI_COMM_WORLD_RANK",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
}


def _adopt_mpi_variables() -> None:
    """Fill torchrun's variables from Open MPI's when a process was started by mpirun."""
    if not all(name in os.environ for name in _MPI):
        if all(name in os.environ for name in _MPI.values()):
            os.environ.update({ours: os.environ[theirs] for ours, theirs in _MPI.items()})
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "12345")


def _choose_module(local_rank: int, world_size: int) -> None:
    """Name the device of this process; a choice made before is kept, and a lone process needs none."""
    if HLS_MODULE_ID_VAR in os.environ or local_rank == -1 or world_size == 1:
        return
    visible = os.environ.get(HABANA_VISIBLE_MODULES_VAR)
    if visible is None:
        os.environ[HLS_MODULE_ID_VAR] = str(local_rank)
        return
    modules = visible.split(",")
    assert local_rank < len(modules), (
        f"local rank {local_rank} has no device: {HABANA_VISIBLE_MODULES_VAR} is {visible!r}; name more modules there"
    )
    os.environ[HLS_MODULE_ID_VAR] = modules[local_rank]


def initialize_distributed_hpu(world_size=None, rank=None, local_rank=None) -> tuple[int, int, int]:
    """(world size, rank, local rank) from the arguments if all are given, else from torchrun's or Open MPI's variables.

    Also writes them back to the environment and chooses this process's device. (1, -1, -1) for a lone process.
    """
    if None not in (world_size, rank, local_rank):
        os.environ.update(WORLD_SIZE=str(world_size), RANK=str(rank), LOCAL_RANK=str(local_rank))
    else:
        _adopt_mpi_variables()
    world_size = int(os.getenv("WORLD_SIZE", "1"))
    rank, local_rank = int(os.getenv("RANK", "-1")), int(os.getenv("LOCAL_RANK", "-1"))
    _choose_module(local_rank, world_size)
    if rank != -1:
        os.environ["ID"] = str(rank)
    return world_size, rank, local_rank


def _register() -> None:
    try:
        from hpushim.emulator import hccl
    except ImportError:
        return
    hccl.register()


distributed_emulation_apply_if_enabled()
initialize_distributed_hpu()
_register()
