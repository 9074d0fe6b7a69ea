"""The numbers that a program hands to a logging library, whose files are not text: TensorBoard's, W&B's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hpushim.prove.recorder import recording


def _of_writer(
    self: Any, tag: str, scalar_value: Any, *args: Any, **kwargs: Any
) -> Iterator[tuple[str, Any]]:
    yield str(tag), scalar_value


def _of_table(self: Any, data: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
    yield from ((str(name), value) for name, value in data.items())


#: Modules with the class and the method that take the numbers, and how they are read from its arguments.
LOGGERS: dict[str, tuple[str, str, Callable[..., Iterator[tuple[str, Any]]]]] = {
    "torch.utils.tensorboard.writer": ("SummaryWriter", "add_scalar", _of_writer),
    "tensorboardX.writer": ("SummaryWriter", "add_scalar", _of_writer),
    "wandb.sdk.wandb_run": ("Run", "log", _of_table),
}


def watch(name: str, module: Any, orders: recording.Orders) -> None:
    """Has each number that is logged noted, and logged as before."""
    owner, method, read = LOGGERS[name]
    kind = getattr(module, owner)
    original = getattr(kind, method)

    @functools.wraps(original)
    def logged(*args: Any, **kwargs: Any) -> Any:
        line = sys._getframe(1).f_lineno
        for called, value in read(*args, **kwargs):
            try:
                number = float(value)
            except (TypeError, ValueError, RuntimeError):
                continue  # an image, a table, a text
            recording.note(orders.at, "scalar", name=called, value=repr(number), line=line)
        return original(*args, **kwargs)

    setattr(kind, method, logged)
