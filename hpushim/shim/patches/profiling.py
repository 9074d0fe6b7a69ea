"""Profiling: NVTX marks do nothing, profiler activities and sort keys that say CUDA mean HPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hpushim.shim import log
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, patch

Original = Callable[..., Any]


@patch("torch.cuda.nvtx:range_push", level=APPROXIMATE)
@patch("torch.cuda.nvtx:range_pop", level=APPROXIMATE)
@patch("torch.cuda.nvtx:range_start", level=APPROXIMATE)
def nvtx_depth(original: Original, *args: Any, **kwargs: Any) -> int:
    """Marks go to no profiler; the depth or handle is 0."""
    return 0


@patch("torch.cuda.nvtx:range_end", level=APPROXIMATE)
@patch("torch.cuda.nvtx:mark", level=APPROXIMATE)
def nvtx_mark(original: Original, *args: Any, **kwargs: Any) -> None:
    """Marks go to no profiler."""


@patch("torch.cuda.nvtx:range", level=APPROXIMATE)
@contextlib.contextmanager
def nvtx_range(original: Original, msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A ``record_function`` range, which torch's own profiler shows."""
    import torch

    with torch.profiler.record_function(msg.format(*args, **kwargs)):
        yield


@patch("torch.cuda.profiler:start", level=APPROXIMATE)
@patch("torch.cuda.profiler:stop", level=APPROXIMATE)
def cuda_profiler(original: Original) -> None:
    """NVIDIA's profiler is not there to be started."""
    log.note(
        "HPU417", "NVIDIA's profiler does not see HPU; use torch.profiler with ProfilerActivity.HPU"
    )


@patch("torch.cuda:cudart", level=ERROR)
def cudart(original: Original) -> Any:
    """Refused: the CUDA runtime is not there."""
    log.refuse(
        "HPU417",
        "torch.cuda.cudart() has no counterpart",
        "use torch.profiler with ProfilerActivity.HPU, or drop the call",
    )


@patch(
    "torch.profiler.profiler:_KinetoProfile.__init__",
    row="torch.profiler.profile",
    level=APPROXIMATE,
)
def profile_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """``ProfilerActivity.CUDA`` becomes ``ProfilerActivity.HPU`` where torch can record it."""
    if kwargs.get("activities") is not None:
        kwargs["activities"] = _activities(kwargs["activities"])
    original(self, *args, **kwargs)


def _activities(activities: Iterable[Any]) -> list[Any]:
    from torch.profiler import ProfilerActivity, supported_activities

    wanted = list(activities)
    if ProfilerActivity.CUDA not in wanted:
        return wanted
    kept = [activity for activity in wanted if activity != ProfilerActivity.CUDA]
    hpu = getattr(ProfilerActivity, "HPU", None)
    if hpu is not None and hpu in supported_activities():
        return [*kept, hpu]
    log.note(
        "HPU617",
        "ProfilerActivity.CUDA is recorded as CPU activity: this torch cannot record HPU's",
    )
    return kept or [ProfilerActivity.CPU]


@patch(
    "torch.autograd.profiler:profile.__init__",
    row="torch.autograd.profiler.profile",
    level=APPROXIMATE,
)
def autograd_profile_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """``use_cuda=True`` and ``use_device="cuda"`` record the host side."""
    if kwargs.pop("use_cuda", False) or kwargs.get("use_device") == "cuda":
        kwargs.pop("use_device", None)
        log.note("HPU618", "the autograd profiler records the host side of HPU work")
    original(self, *args, **kwargs)


@patch(
    "torch.autograd.profiler_util:EventList.table",
    row="torch.autograd.profiler_util.EventList.table",
    level=APPROXIMATE,
)
def table(original: Original, self: Any, sort_by: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``sort_by="cuda_time_total"`` sorts by the accelerator's time, or the host's where none was recorded.

    Scripts that build the name from ``device.type`` say ``hpu_time_total``, which only Gaudi's torch knows.
    """
    word = next((word for word in ("cuda", "hpu") if word in str(sort_by)), "")
    if word and not (self and hasattr(self[0], sort_by)):
        generic = sort_by.replace(word, "device")
        recorded = bool(self) and hasattr(self[0], generic)
        sort_by = generic if recorded else sort_by.replace(word, "cpu")
    return original(self, sort_by, *args, **kwargs)


@patch("torch.autograd.profiler:emit_nvtx.__enter__", level=APPROXIMATE)
def emit_nvtx_enter(original: Original, self: Any) -> Any:
    """Ranges for NVIDIA's viewer are not emitted."""
    log.note("HPU619", "emit_nvtx emits nothing on Gaudi; use torch.profiler")
    return self


@patch("torch.autograd.profiler:emit_nvtx.__exit__", level=EXACT)
def emit_nvtx_exit(original: Original, self: Any, *exception: Any) -> bool:
    """Nothing was started."""
    return False
