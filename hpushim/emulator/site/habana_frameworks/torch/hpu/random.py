"""Random state of the emulated device: one generator, for hpu:0.

``set_rng_ctx`` and ``unset_rng_ctx`` are in no public source of the vendor; torch's DTensor calls them on hpu
(torch/distributed/tensor/_random.py) to read and write the state as a seed and an offset. Between them it names the
device by the process's rank, so any index is the one device there; elsewhere the vendor's package takes index 0 alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from habana_frameworks.torch.hpu._utils import _get_device_index

import torch
from hpushim.emulator import device as emulated
from torch import Tensor

default_generators: list[torch._C.Generator] = [emulated.default_generator()]

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_ctx",
    "set_rng_state",
    "set_rng_state_all",
    "unset_rng_ctx",
]


def _check(device, what):
    if _get_device_index(device, optional=True) != 0 and not _counts:
        raise RuntimeError(f"hpu {what} supports only device 0")


class _Counted:
    """A random state of a seed and an offset, 16 bytes, as a counting generator has it.

    The emulated generator does not count: each (seed, offset) starts a stream of its own, the same on every rank.
    """

    def __init__(self) -> None:
        self.seed, self.offset, self.started, self.state = 0, 0, -1, torch.empty(0)

    def read(self) -> Tensor:
        if self.started != emulated.initial_seed():  # seeded since
            self.seed, self.offset = emulated.initial_seed(), 0
        elif not torch.equal(self.state, emulated.get_rng_state()):  # drawn from since
            self.offset += 4
        signed = (self.seed + 2**63) % 2**64 - 2**63
        return torch.tensor([signed, self.offset], dtype=torch.int64).view(torch.uint8)

    def write(self, state: Tensor) -> None:
        signed, self.offset = state.cpu().view(torch.int64).tolist()
        self.seed = signed % 2**64
        self.started = (self.seed + self.offset * 0x9E3779B97F4A7C15) % 2**63
        emulated.manual_seed(self.started)
        self.state = emulated.get_rng_state()


_counted = _Counted()
_counts = False


def set_rng_ctx(kind: str) -> None:
    """From here on random states are those of the counting generator ``kind`` ("philox")."""
    global _counts
    if kind != "philox":
        raise RuntimeError(f"hpu set_rng_ctx: {kind!r} is not emulated; expected 'philox'")
    _counts = True


def unset_rng_ctx(kind: str) -> None:
    """Back to the states of the device's own generator."""
    global _counts
    _counts = False


def get_rng_state(device: int | str | torch.device = "hpu") -> Tensor:
    """The generator's state, a CPU tensor of bytes."""
    _check(device, "get_rng_state")
    return _counted.read() if _counts else emulated.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "hpu") -> None:
    """Restore a state."""
    _check(device, "set_rng_state")
    if _counts:
        _counted.write(new_state)
    else:
        emulated.set_rng_state(new_state)


def manual_seed(seed) -> torch._C.Generator:
    """Seed the generator; returns it."""
    return emulated.manual_seed(int(seed))


def seed() -> int:
    """Seed the generator from the system; returns the seed."""
    return emulated.seed()


def initial_seed() -> int:
    """The seed that was last given."""
    found = emulated.initial_seed()
    return _counted.seed if found == _counted.started else found


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices of this process: a list of one."""
    return [get_rng_state(0)]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore a list of exactly one state."""
    states = list(new_states)
    if len(states) != 1:
        raise RuntimeError(
            f"hpu set_rng_state_all supports only states len of 1, found {len(states)}"
        )
    set_rng_state(states[0], 0)


def manual_seed_all(seed: int) -> None:
    """As :func:`manual_seed`: a process has one device."""
    manual_seed(seed)


def seed_all() -> None:
    """As :func:`seed`."""
    emulated.seed()
