"""``torch.cuda`` streams and events: HPU's own, under CUDA's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, patch

Original = Callable[..., Any]


@patch("torch.cuda.streams:Stream.__new__", row="torch.cuda.Stream", level=APPROXIMATE)
def new_stream(
    original: Original, cls: type, device: Any = None, priority: int = 0, **kwargs: Any
) -> Any:
    """A stream of the HPU; it is a ``torch.hpu.Stream``, not an instance of ``torch.cuda.Stream``."""
    import torch

    return torch.hpu.Stream(priority=priority)


@patch(
    "torch.cuda.streams:ExternalStream.__new__",
    row="torch.cuda.ExternalStream",
    level=ERROR,
    optional=True,
)
def no_external_stream(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: a CUDA stream's pointer means nothing here."""
    log.refuse(
        "HPU412", "a CUDA stream of another library cannot run on HPU", "use torch.hpu.Stream()"
    )


@patch("torch.cuda.streams:Event.__new__", row="torch.cuda.Event", level=APPROXIMATE)
def new_event(
    original: Original,
    cls: type,
    enable_timing: bool = False,
    blocking: bool = False,
    interprocess: bool = False,
    **kwargs: Any,
) -> Any:
    """An event of the HPU; ``interprocess`` is refused, ``blocking`` has no effect."""
    import torch

    if interprocess:
        log.refuse(
            "HPU413",
            "HPU events cannot be shared between processes",
            "synchronise with torch.distributed.barrier()",
        )
    return torch.hpu.Event(enable_timing=enable_timing)


@patch("torch.cuda:current_stream", level=EXACT)
def current_stream(original: Original, device: Any = None) -> Any:
    """The HPU's current stream."""
    import torch

    return torch.hpu.current_stream()


@patch("torch.cuda:default_stream", level=EXACT)
def default_stream(original: Original, device: Any = None) -> Any:
    """The HPU's default stream."""
    import torch

    return torch.hpu.default_stream()


@patch("torch.cuda:set_stream", level=EXACT)
def set_stream(original: Original, stream: Any) -> None:
    """Makes a stream of the HPU the current one."""
    import torch

    if stream is not None:
        torch.hpu.set_stream(stream)


@patch("torch.cuda:StreamContext.__init__", level=EXACT)
def stream_context(original: Original, self: Any, stream: Any) -> None:
    """``with torch.cuda.stream(s)`` is ``with torch.hpu.stream(s)``."""
    import torch

    self.stream = stream
    self._hpu_context = torch.hpu.stream(stream)


@patch("torch.cuda:StreamContext.__enter__", level=EXACT)
def stream_context_enter(original: Original, self: Any) -> Any:
    """Enters the HPU's context."""
    return self._hpu_context.__enter__()


@patch("torch.cuda:StreamContext.__exit__", level=EXACT)
def stream_context_exit(original: Original, self: Any, *exception: Any) -> Any:
    """Leaves the HPU's context."""
    return self._hpu_context.__exit__(*exception)


@patch("torch:Stream", "torch:Event", how="constructor", level=EXACT)
def new_device_stream(original: Original, cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Stream("cuda")`` and ``torch.Event("cuda")``: of the HPU."""
    if args and isinstance(args[0], str):
        args = (devices.text(args[0]), *args[1:])
    if "device" in kwargs:
        kwargs["device"] = devices.mapped(kwargs["device"])
    return original(cls, *args, **kwargs)


@patch("torch:Tensor.record_stream", how="method", level=APPROXIMATE)
def record_stream(original: Original, self: Any, stream: Any) -> None:
    """Where HPU has no such operator, nothing: its allocator keeps memory until the queued work is done."""
    try:
        original(self, stream)
    except (NotImplementedError, RuntimeError, TypeError):
        if not devices.is_hpu(self.device):
            raise
        log.note("HPU412", "Tensor.record_stream has no counterpart on HPU and is skipped")
