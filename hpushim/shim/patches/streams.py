"""``torch.cuda`` streams and events: HPU's own, under CUDA's names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpushim import callers
from hpushim.errors import UnsupportedOnHpu
from hpushim.shim import devices, log
from hpushim.shim.mechanisms import constructor, in_place
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, patch

Original = Callable[..., Any]


class NotOnHpu(UnsupportedOnHpu, AttributeError):
    """An attribute that CUDA's object has and HPU's has not; ``hasattr`` says False, as it should."""


@patch("torch.cuda.streams:Stream.__new__", row="torch.cuda.Stream", level=APPROXIMATE)
@devices.of_device
def new_stream(
    original: Original, cls: type, device: Any = None, priority: int = 0, **kwargs: Any
) -> Any:
    """A stream of the HPU, which counts as an instance of ``torch.cuda.Stream``; one of a subclass keeps what that adds."""
    import torch

    made = _kept_class(cls, torch.cuda.Stream, torch.hpu.Stream)
    if made is torch.hpu.Stream:
        return made(priority=priority)
    return torch.hpu.Stream.__new__(made, priority=priority)


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
    made = _kept_class(cls, torch.cuda.Event, torch.hpu.Event)
    if made is torch.hpu.Event:
        return made(enable_timing=enable_timing)
    return torch.hpu.Event.__new__(made, enable_timing=enable_timing)


@functools.cache
def _kept_class(cls: type, cuda: type, hpu: type) -> Any:
    """The class to make: HPU's own for CUDA's, and one that is both for a subclass of the user's."""
    return hpu if cls is cuda else type(cls.__name__, (cls, hpu), {"__module__": cls.__module__})


@patch("torch.cuda.streams", how="hook", row="torch.cuda.Stream", level=APPROXIMATE)
def kin() -> Undo:
    """``isinstance(s, torch.cuda.Stream)`` holds for HPU's streams, and ``torch.cuda.Event`` for its events."""
    import torch

    undos = []
    for cuda, hpu in ((torch.cuda.Stream, torch.hpu.Stream), (torch.cuda.Event, torch.hpu.Event)):
        undos.append(_seen_as(cuda, hpu))
        base = cuda.__mro__[1]
        if base.__new__.__qualname__.startswith("_dummy_type"):
            # Where CUDA's own class would be, torch's substitute raises; subclasses of the user's pass through it.
            undos.append(in_place.set_attribute(base, "__init__", lambda self, *a, **k: None))
    undos.append(in_place.set_attribute(torch.hpu.Stream, "cuda_stream", property(_no_pointer)))
    undos.append(in_place.set_attribute(torch.hpu.Stream, "_as_parameter_", property(_no_pointer)))
    undos.append(in_place.set_attribute(torch.hpu.Event, "cuda_event", property(_no_pointer)))
    undos.append(in_place.set_attribute(torch.hpu.Event, "ipc_handle", _no_handle))
    # The vendor's is a device, which equals no number.
    undos.append(in_place.set_attribute(torch.hpu.Stream, "device_index", property(_index)))
    # A Gaudi's streams have no priorities: all have CUDA's default one.
    undos.append(
        in_place.set_attribute(torch.cuda.Stream, "priority_range", staticmethod(lambda: (0, 0)))
    )
    if not hasattr(torch.hpu.Stream, "priority"):
        undos.append(in_place.set_attribute(torch.hpu.Stream, "priority", 0))

    def undo() -> bool:
        results = [one() for one in undos]
        return all(results)

    return undo


def _seen_as(cuda: type, hpu: type) -> Undo:
    """Sets the ``isinstance`` check of an object of another type: HPU's own class is CUDA's, a subclass is itself."""
    # ``setattr`` would try to change the class's own class.
    mine = property(lambda self: cuda if type(self) is hpu else type(self))
    return constructor.set_in_type(hpu, "__class__", mine)


def _index(self: Any) -> int:
    return int(self.device.index or 0)


def _no_pointer(self: Any) -> Any:
    file, line = callers.user_site()
    raise NotOnHpu(
        f"HPU119 {file}:{line}: an HPU stream or event has no CUDA pointer; hand tensors to other code, not streams"
    )


def _no_handle(self: Any) -> Any:
    log.refuse(
        "HPU418",
        "HPU events cannot be shared between processes",
        "synchronise with torch.distributed.barrier()",
    )


@patch("torch.cuda:current_stream", level=EXACT)
@devices.of_device
def current_stream(original: Original, device: Any = None) -> Any:
    """The HPU's current stream."""
    import torch

    return torch.hpu.current_stream()


@patch("torch.cuda:default_stream", level=EXACT)
@devices.of_device
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


@patch("torch:Tensor.record_stream", level=APPROXIMATE)
def record_stream(original: Original, self: Any, stream: Any) -> None:
    """Where HPU has no such operator, nothing: its allocator keeps memory until the queued work is done."""
    try:
        original(self, stream)
    except (NotImplementedError, RuntimeError, TypeError):
        if not devices.is_hpu(self.device):
            raise
        log.note("HPU412", "Tensor.record_stream has no counterpart on HPU and is skipped")
