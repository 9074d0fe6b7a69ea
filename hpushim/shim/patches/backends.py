"""``torch.backends.cuda``: what holds state of CUDA libraries that Gaudi does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import log
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


@patch(
    "torch.backends.cuda:preferred_linalg_library",
    "torch.backends.cuda:preferred_blas_library",
    row="torch.backends.cuda.preferred_linalg_library",
    level=APPROXIMATE,
)
def preferred_library(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A library that CUDA builds have is accepted without effect; a name that no build knows is torch's error."""
    try:
        return original(*args, **kwargs)
    except RuntimeError as error:
        if "has not been compiled" not in str(error):
            raise
    log.note("HPU419", "a choice among CUDA's libraries has no effect on HPU")
    return original()
