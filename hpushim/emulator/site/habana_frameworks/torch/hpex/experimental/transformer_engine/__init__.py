"""The vendor's 8-bit training package: its layers run in full width here, and asking for 8 bits raises."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
import contextlib

from habana_frameworks.torch._not_modelled import module_getattr, not_modelled
from habana_frameworks.torch.hpex.experimental.transformer_engine import fp8, recipe

import torch

_ADVICE = "train in bfloat16 on the emulator, and try 8 bits on a Gaudi 2 or 3"


class Linear(torch.nn.Linear):
    """A linear layer; outside :func:`fp8_autocast` the vendor's class computes the same."""

    def __init__(
        self, in_features, out_features, bias=True, *, params_dtype=None, device=None, **options
    ):
        if options:
            raise not_modelled(f"transformer_engine.Linear({next(iter(options))}=…)", _ADVICE)
        super().__init__(
            in_features, out_features, bias, device=device or "hpu", dtype=params_dtype
        )


@contextlib.contextmanager
def fp8_autocast(enabled=False, force_measurement=None, fp8_recipe=None, fp8_group=None):
    """Nothing when ``enabled`` is False; NotImplementedError when True (8-bit matrix products are not emulated)."""
    if enabled:
        raise not_modelled("fp8_autocast(enabled=True)", _ADVICE)
    yield


__getattr__ = module_getattr(__name__)
