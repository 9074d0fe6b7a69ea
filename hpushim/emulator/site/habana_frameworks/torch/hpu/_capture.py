"""Capturing and replaying device work on the emulated HPU.

A capture runs the work once and keeps every operator call with the very tensors it used; a replay runs
those calls again. So new values in the input tensors reach the outputs, Python side effects do not repeat,
and the output tensors are the same objects each time, as on the device.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from hpushim.emulator import calls, device
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

_READS_VALUE = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal")


def _lazy_collectives() -> bool:
    return os.environ.get("PT_HPU_ENABLE_LAZY_COLLECTIVES", "").lower() in ("1", "true")


def _fallbacks() -> int:
    return int(device.load().totals()["cpu_fallbacks"])


class Call:
    """One operator call: the function, its arguments, and the outputs that a replay must fill."""

    __slots__ = ("args", "fills", "func", "kwargs")

    def __init__(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.fills = [] if _writes_or_views(func) else _tensors(result)

    def run(self) -> None:
        """Run the operator again and put its results into the tensors that the capture produced."""
        result = self.func(*self.args, **self.kwargs)
        for kept, fresh in zip(self.fills, _tensors(result), strict=bool(self.fills)):
            if kept.shape != fresh.shape:
                raise RuntimeError(
                    f"HPU graph replay (emulated): {self.func} gave shape {tuple(fresh.shape)}, the capture had "
                    f"{tuple(kept.shape)}; shapes that depend on data cannot be captured"
                )
            kept.copy_(fresh)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _writes_or_views(func: Any) -> bool:
    """True if the operator's result is one of its arguments' storage: re-running it is all that a replay needs."""
    return any(one.alias_info is not None for one in func._schema.returns)


def _is_view(func: Any) -> bool:
    aliases = [one.alias_info for one in func._schema.returns if one.alias_info is not None]
    return bool(aliases) and not any(alias.is_write for alias in aliases)


def _written(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that the operator changes in place; batch norm's statistics are not marked in its schema."""
    found = []
    for place, argument in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        marked = argument.alias_info is not None and argument.alias_info.is_write
        if marked or argument.name in ("running_mean", "running_var"):
            found += _tensors(value)
    return found


class Tape(TorchDispatchMode):
    """Records operator calls while active; :meth:`replay` runs them."""

    def __init__(self, undo: bool = False) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._warned = False
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] | None = {} if undo else None

    def __enter__(self) -> Tape:
        device.load().set_capturing(True)  # an operator that leaves the device cannot be captured
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        device.load().set_capturing(False)
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._before is not None:
            self._remember(_written(func, args, kwargs))
        if func.namespace == "c10d" and not _lazy_collectives():
            calls.object_to("ordinary collectives while a graph is captured")
        before = _fallbacks()
        result = func(*args, **kwargs)
        if _fallbacks() != before:
            calls.object_to("CPU fallback while a graph is captured")
        name = func._schema.name
        if name in _READS_VALUE and not self._warned:
            self._warned = True
            warnings.warn(
                f"HPU graph capture (emulated): {name} reads a value on the host; a replay keeps the captured one",
                stacklevel=2,
            )
        # A view stays a view of the same storage; running it again would only make a second one.
        if not _is_view(func) and name not in _READS_VALUE:
            self.calls.append(Call(func, args, kwargs, result))
        return result

    def _remember(self, written: list[torch.Tensor]) -> None:
        for tensor in written:
            if id(tensor) not in self._before:
                self._before[id(tensor)] = (tensor, tensor.detach().clone())

    @torch.no_grad()
    def undo(self) -> None:
        """Give tensors that the captured work changed in place the values that they had before."""
        for tensor, value in reversed((self._before or {}).values()):
            tensor.copy_(value)
        self._before = None

    @torch.no_grad()
    def replay(self) -> None:
        """Run all recorded calls in order."""
        for call in self.calls:
            call.run()
