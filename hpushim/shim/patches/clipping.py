"""Clipping of gradients: ``foreach=True``, which torch refuses on devices outside its own list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim.patch import EXACT, patch

Original = Callable[..., Any]


def _chosen_by_torch(position: int) -> Callable[..., Any]:
    def clip(original: Original, *args: Any, **kwargs: Any) -> Any:
        """``foreach=True`` requests a faster way to the same numbers; on HPU torch takes the other one by itself."""
        if kwargs.get("foreach"):
            kwargs["foreach"] = None
        elif len(args) > position and args[position]:
            args = (*args[:position], None, *args[position + 1 :])
        return original(*args, **kwargs)

    return clip


_WITHIN = "torch.nn.utils.clip_grad"
_NORM = "torch.nn.utils.clip_grad_norm_"

patch(f"{_WITHIN}:clip_grad_norm_", row=_NORM, level=EXACT)(_chosen_by_torch(4))
patch(
    f"{_WITHIN}:_clip_grads_with_norm_",
    f"{_WITHIN}:_get_total_norm",
    row=_NORM,
    optional=True,
    level=EXACT,
)(_chosen_by_torch(3))
patch(f"{_WITHIN}:clip_grad_value_", public="torch.nn.utils", level=EXACT)(_chosen_by_torch(2))
