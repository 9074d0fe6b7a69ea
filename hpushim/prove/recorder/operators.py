"""The operators of some steps, in order: name, results, the project's line that called them; collectives with group and bytes."""

from __future__ import annotations

import os
import sys
from typing import Any

from hpushim.prove.recorder import recording

_MOST = 40_000  # operators noted in one step; more are counted
_COLLECTIVES = ("c10d", "_c10d_functional")
_NOT_COMPUTING = ("profiler", "prim")


class Watch:
    """A dispatch mode of torch's that is on during the steps of the window."""

    def __init__(self, torch: Any, orders: recording.Orders) -> None:
        self._torch = torch
        self._orders = orders
        self._mode: Any = None
        self._noted: list[list[Any]] = []
        self._collectives: list[dict[str, Any]] = []
        self._more = 0
        self._files: dict[str, str | None] = {}

    def start(self) -> None:
        if self._mode is not None:
            return
        from torch.utils._python_dispatch import TorchDispatchMode

        watch = self

        class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
            on = True

            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = func(*args, **(kwargs or {}))
                if self.on:
                    watch.see(func, args, result)
                return result

        mode: Any = Mode()
        mode.__enter__()
        self._mode = mode

    def stop(self) -> None:
        if self._mode is None:
            return
        from torch.utils import _python_dispatch as dispatch

        # Something of the user's may be on top of it: then it stays, and is silent.
        mode: Any = self._mode
        mode.on, self._mode = False, None
        current: Any = getattr(dispatch, "_get_current_dispatch_mode", lambda: None)()
        if current is mode:
            current.__exit__(None, None, None)

    def see(self, func: Any, args: Any, result: Any) -> None:
        if func.namespace in _NOT_COMPUTING:
            return
        if func.namespace in _COLLECTIVES:
            self._collectives.append(self._collective(func, args))
        if len(self._noted) >= _MOST:
            self._more += 1
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        tensors = [one for one in results if isinstance(one, self._torch.Tensor)]
        shown = [[str(t.dtype)[6:], t.device.type, list(t.shape)] for t in tensors]
        entry: list[Any] = [str(func), shown, self.place(), self._length(args, tensors), self._devices(args)]  # fmt: skip
        if self._orders.values:
            entry.append([self._value(t) for t in tensors])
        self._noted.append(entry)

    def _devices(self, args: Any) -> list[str]:
        """The device types of the tensors that an operator is given; numbers in tensors are at home everywhere."""
        flat = [one for arg in args for one in (arg if isinstance(arg, (tuple, list)) else (arg,))]
        tensors = [one for one in flat if isinstance(one, self._torch.Tensor) and one.dim()]
        return sorted({one.device.type for one in tensors})

    def _length(self, args: Any, results: list[Any]) -> int:
        """How many numbers are added up for one element of the result: the rounding errors that can gather in it."""
        inputs = [one.numel() for one in args if isinstance(one, self._torch.Tensor)]
        given = results[0].numel() if results else 0
        if not given or not inputs:
            return 1
        whole = max(inputs) / given
        if len(inputs) > 1:  # of a product of matrices, and at least as many for a convolution
            first, second = sorted(inputs)[-2:]
            whole = max(whole, (first * second / given) ** 0.5)
        return max(int(whole), 1)

    def flush(self, step: int) -> None:
        """Writes what was noted for a step that is done."""
        if self._noted or self._collectives:
            recording.note(
                self._orders.at,
                "operators",
                step=step,
                operators=self._noted,
                more=self._more,
                collectives=self._collectives,
            )
        self._noted, self._collectives, self._more = [], [], 0

    def _value(self, tensor: Any) -> str | None:
        """The sum of absolute values, which neither order nor sign of zero changes."""
        from torch.utils._python_dispatch import _disable_current_modes

        if not tensor.numel() or tensor.is_meta or str(tensor.layout) != "torch.strided":
            return None
        with _disable_current_modes(), self._torch.no_grad():
            host = tensor.detach().to("cpu")
            host = host.abs() if host.is_complex() else host.double().abs()
            return repr(float(host.sum()))

    def _collective(self, func: Any, args: Any) -> dict[str, Any]:
        sent = 0
        size: int | None = None
        stack = list(args)
        while stack:
            one = stack.pop()
            if isinstance(one, (list, tuple)):
                stack.extend(one)
            elif isinstance(one, self._torch.Tensor):
                sent += one.numel() * one.element_size()
            elif isinstance(one, self._torch.ScriptObject) and size is None:
                size = self._group_size(one)
        return {"name": func.__name__, "bytes": sent, "group": size, "place": self.place()}

    def _group_size(self, boxed: Any) -> int | None:
        try:
            return int(self._torch.distributed.ProcessGroup.unbox(boxed).size())
        except (AttributeError, RuntimeError, TypeError):
            return None  # another object that is boxed, such as the operation

    def place(self) -> list[Any] | None:
        """File (relative to the project) and line of the innermost frame of the project; None in a thread without one."""
        frame: Any = sys._getframe(2)
        while frame is not None:
            file = self._of_project(frame)
            if file is not None:
                return [file, frame.f_lineno]
            frame = frame.f_back
        return None

    def below(self) -> list[Any]:
        """The frames of libraries that the innermost frame of the project has called, inner ones first; none without such a frame."""
        frames: list[Any] = []
        frame: Any = sys._getframe(2)
        while frame is not None:
            if self._of_project(frame) is not None:
                return frames
            frames.append(frame)
            frame = frame.f_back
        return []

    def _of_project(self, frame: Any) -> str | None:
        """The file of a frame, relative to the project; None for one outside of it."""
        name = frame.f_code.co_filename
        if name not in self._files:
            real = self._orders.file_of(name)
            inside = real.startswith(self._orders.root + os.sep) and not name.startswith("<")
            self._files[name] = os.path.relpath(real, self._orders.root) if inside else None
        return self._files[name]
