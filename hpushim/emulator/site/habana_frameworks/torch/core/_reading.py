"""``torch.load`` as the vendor's lazy mode has it: everything is read to the CPU, then moved where map_location says.

Under the default policy torch's own stays: a program that reads in its own way where tensors are goes on as on CUDA.
"""

from __future__ import annotations

import functools
import pickle

from habana_frameworks.torch.utils.internal import is_lazy

import torch
from hpushim.emulator import profiles


def install():
    """Put it in torch's place in lazy mode, under the policies that refuse; nothing else."""
    if not is_lazy() or profiles.current().policy == "observe":
        return
    read = torch.load

    @functools.wraps(read)
    def load(f, map_location=None, pickle_module=pickle, weights_only=False, mmap=None, **more):
        found = read(
            f,
            map_location="cpu",
            pickle_module=None if weights_only else pickle_module,
            weights_only=weights_only,
            mmap=mmap,
            **more,
        )
        place = map_location
        if isinstance(place, dict):
            place = place.get("cpu")
        return found if place in (None, "cpu") else _moved(found, place)

    torch.load = load


def _moved(found, place):
    if isinstance(found, torch.Tensor):
        return place(found, found.device) if callable(place) else found.to(place)
    if isinstance(found, dict):
        return {key: _moved(value, place) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return (list if isinstance(found, list) else tuple)(_moved(value, place) for value in found)
    return found
