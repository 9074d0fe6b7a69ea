"""``apex.amp``, said with torch: bf16 autocast for each model, and nothing to scale."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

_LEVELS = ("O0", "O1", "O2", "O3")


class _Scaler:
    """What scripts ask and set of a scaler; nothing is scaled by it."""

    _loss_scale = 1.0
    _has_overflow = False
    _unskipped = 0

    def loss_scale(self) -> float:
        """What was set, at first 1."""
        return self._loss_scale


class _State:
    """apex's private state, in which scripts set the scale that they begin with."""

    verbosity = 1

    def __init__(self) -> None:
        self.loss_scalers: list[_Scaler] = []


_amp_state = _State()


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    num_losses: int = 1,
    **options: Any,
) -> Any:
    """The models, run under bf16 autocast at O1 and above, and the optimizers as they are."""
    if opt_level not in _LEVELS:
        raise RuntimeError(f"apex opt_level {opt_level!r}: expected one of {', '.join(_LEVELS)}")
    _amp_state.loss_scalers = [_Scaler() for _ in range(num_losses)]
    if enabled and opt_level != "O0":
        for model in models if isinstance(models, list | tuple) else [models]:
            _autocast_forward(model)
    return models if optimizers is None else (models, optimizers)


def _autocast_forward(model: Any) -> None:
    forward = model.forward

    @functools.wraps(forward)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("hpu", dtype=torch.bfloat16):
            return _to_float(forward(*args, **kwargs))

    model.forward = under_autocast


def _to_float(value: Any) -> Any:
    """apex gives the outputs of a model back in float32."""
    from torch.utils._pytree import tree_map_only

    return tree_map_only(
        torch.Tensor, lambda t: t.float() if t.dtype is torch.bfloat16 else t, value
    )


@contextlib.contextmanager
def scale_loss(loss: Any, optimizers: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """The loss itself: bf16 needs no scaling."""
    yield loss


def master_params(optimizer: Any) -> Iterator[Any]:
    """The parameters that the optimizer updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """No scaler, no state."""
    return {}


def load_state_dict(*args: Any, **kwargs: Any) -> None:
    """The state of apex's scalers is not needed."""


def init(*args: Any, **kwargs: Any) -> None:
    """The oldest entry point; autocast is per model here."""


def half_function(function: Any) -> Any:
    """The function itself: autocast knows the operators that run in 16 bits."""
    return function


float_function = promote_function = half_function


def register_half_function(module: Any, name: str) -> None:
    """Nothing to register."""


register_float_function = register_promote_function = register_half_function


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """A block without autocast."""
    with torch.autocast("hpu", enabled=False):
        yield
