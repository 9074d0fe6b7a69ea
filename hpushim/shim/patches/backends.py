"""``torch.backends.cuda``: what holds state of CUDA libraries that Gaudi does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim.patch import APPROXIMATE, patch


class _PlanCache:
    """A cache of cuFFT plans that stays empty; its size limit is kept and read back."""

    size = 0
    max_size = 4096

    def clear(self) -> None:
        """Nothing to throw away."""


_plans = _PlanCache()


@patch(
    "torch.backends.cuda:cuFFTPlanCacheManager.__getitem__",
    row="torch.backends.cuda.cufft_plan_cache",
    level=APPROXIMATE,
)
def plan_cache(original: Callable[..., Any], self: Any, device: Any) -> Any:
    """``cufft_plan_cache[0].max_size = n``, ``cufft_plan_cache.clear()``: accepted, without effect."""
    return _plans
