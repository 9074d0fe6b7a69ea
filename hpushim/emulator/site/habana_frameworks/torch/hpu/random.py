"""Random state of the emulated device: one generator, for hpu:0."""

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
    "set_rng_state",
    "set_rng_state_all",
]


def _check(device, what):
    if _get_device_index(device, optional=True) != 0:
        raise RuntimeError(f"hpu {what} supports only device 0")


def get_rng_state(device: int | str | torch.device = "hpu") -> Tensor:
    """The generator's state, a CPU tensor of bytes."""
    _check(device, "get_rng_state")
    return emulated.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "hpu") -> None:
    """Restore a state."""
    _check(device, "set_rng_state")
    emulated.set_rng_state(new_state)


def manual_seed(seed) -> torch._C.Generator:
    """Seed the generator; returns it."""
    return emulated.manual_seed(int(seed))


def seed() -> int:
    """Seed the generator from the system; returns the seed."""
    return emulated.seed()


def initial_seed() -> int:
    """The seed that was last given."""
    return emulated.initial_seed()


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
