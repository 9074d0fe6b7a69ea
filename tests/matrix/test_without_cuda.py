"""What the policy says torch bears without CUDA, called on a torch without CUDA."""

from __future__ import annotations

import warnings
from operator import attrgetter
from typing import Any

import pytest
import torch

from hpushim.matrix import load

#: Names that take an argument.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("manual_seed", "manual_seed_all", "stream", "StreamContext"), (0,)),
    **dict.fromkeys(("random.manual_seed", "random.manual_seed_all"), (0,)),
    "device_of": (torch.zeros(1),),
    "set_rng_state_all": ([],),
}
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this torch has CUDA")


@without_cuda
@pytest.mark.parametrize("name", load().policy.without_cuda)
def test_a_name_is_borne_without_cuda(name: str) -> None:
    called = attrgetter(name)(torch.cuda)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "amp":
            with called.autocast():
                called.GradScaler()
        else:
            made = called(*ARGUMENTS.get(name, ()))
            if hasattr(made, "__enter__"):
                with made:
                    pass


@without_cuda
@pytest.mark.parametrize("name", ["synchronize", "get_device_capability", "Stream", "set_device"])
def test_others_are_not(name: str) -> None:
    known = load().policy.without_cuda
    assert name not in known
    with pytest.raises((AssertionError, RuntimeError, AttributeError)):
        getattr(torch.cuda, name)(*(0,) if name == "set_device" else ())
