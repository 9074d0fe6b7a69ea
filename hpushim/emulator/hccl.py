"""The backend "hccl": collectives of emulated hpu tensors, carried by gloo on the host memory that they are.

What HCCL would not take (dtypes, reduce operations, collectives) comes from the compatibility matrix and is enforced by
the device under the policies of :mod:`hpushim.emulator.objections`.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from hpushim.emulator import device, ledger

if TYPE_CHECKING:
    from hpushim.emulator.profiles import Profile
    from hpushim.matrix import Matrix, Row

# What the device looks up, and the row that mentions it.
_ROWS = {
    "dtype": "dtypes in collectives",
    "digits": "dtypes in collectives",
    "abort": "aborting a collective",
    "all_gather_coalesced": "torch.distributed.all_gather_coalesced",
    "recv from any source": "torch.distributed.recv(src=None)",
}
_ALWAYS = ("dtype", "digits")  # limits of the tensors, not of the call


def register() -> None:
    """Make "hccl" a torch.distributed backend for hpu tensors; idempotent, nothing where torch lacks distributed."""
    import torch.distributed as dist

    if not dist.is_available() or not hasattr(dist, "ProcessGroupGloo"):
        return
    if "hccl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hccl", _create, devices=["hpu"])


def enforce(profile: Profile) -> None:
    """Hand HCCL's limits on this profile to the device; nothing where torch lacks distributed."""
    from hpushim.emulator.objections import bits
    from hpushim.matrix import load

    native = device.load()
    if not hasattr(native, "set_collectives"):
        return
    matrix = load()
    native.set_collectives(
        [
            (name, bits(rule.dtypes.split()), bits(rule.exact.split()), rule.even_bytes)
            for rule in matrix.collectives
            for name in rule.names.split()
        ],
        list(_refusals(matrix, profile)),
    )


def _refusals(matrix: Matrix, profile: Profile) -> list[tuple[str, str, str]]:
    """(what the device looks up, code, note) for what hccl does not do on this profile."""
    from hpushim.model import Target

    target = Target(
        gaudi=profile.gaudi, stack=profile.release, mode="lazy" if profile.lazy else "eager"
    )

    def said(row: Row) -> str:
        return row.note[:1].lower() + row.note[1:].rstrip(".")

    found = []
    for key, name in _ROWS.items():
        row = matrix.row(name)
        if row and (key in _ALWAYS or matrix.assess(row, target).status == "unsupported"):
            found.append((key, row.rule, said(row)))
    for row in matrix.find("torch.distributed.ReduceOp.*"):
        if matrix.assess(row, target).status == "unsupported":
            found += [
                (name.removeprefix("torch.distributed."), row.rule, said(row)) for name in row.names
            ]
    return found


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """An hccl backend for one process group: called by torch for each group."""
    import torch.distributed as dist

    ledger.add_process_group("hccl", "hpu", size, rank)
    return device.load().hccl_over(dist.ProcessGroupGloo(store, rank, size, timeout=timeout))
