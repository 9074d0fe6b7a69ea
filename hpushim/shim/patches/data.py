"""Loading data: pinned memory for the HPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices
from hpushim.shim.patch import EXACT, patch

Original = Callable[..., Any]


@patch(
    "torch.utils.data.dataloader:DataLoader.__init__",
    row="torch.utils.data.DataLoader(pin_memory_device=)",
    level=EXACT,
)
def dataloader_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """``pin_memory_device="cuda"`` pins for HPU."""
    if isinstance(kwargs.get("pin_memory_device"), str):
        kwargs["pin_memory_device"] = devices.text(kwargs["pin_memory_device"])
    original(self, *args, **kwargs)


@patch("torch:Tensor.pin_memory", "torch:Tensor.is_pinned", level=EXACT)
def pinned(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """``x.pin_memory("cuda")``, ``x.is_pinned("cuda")``: for HPU."""
    if args:
        args = (devices.mapped(args[0]), *args[1:])
    if "device" in kwargs:
        kwargs["device"] = devices.mapped(kwargs["device"])
    return original(self, *args, **kwargs)
