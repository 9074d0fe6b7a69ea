"""Every public name of ``torch.cuda`` and ``torch.backends.cuda`` that no patch answers: its matrix row decides, at the first call.

A row with an alias is called under its name on ``torch.hpu``, a no-op does nothing, a constant is answered, a refusal
raises with code and advice. Without a row torch's own behaviour remains, with a clear error where it needs CUDA, and
the call is written down as unhandled. No value is ever made up.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import types
from collections.abc import Callable
from typing import Any

from hpushim import callers
from hpushim.errors import UnsupportedOnHpu
from hpushim.patterns import lazily
from hpushim.shim import devices, log
from hpushim.shim.imports.waiter import waiter
from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo

_ROOT = "torch.cuda"
_OTHERS = ("torch.backends.cuda",)
# Not instances: some of torch's answer any question about them with work of their own.
_CALLED = (type, types.FunctionType, functools._lru_cache_wrapper)
# Thin wrappers over torch.amp, which is patched itself.
_LEFT_ALONE = ("torch.cuda.amp",)


def install() -> Undo:
    """Covers the modules of torch.cuda that are loaded, and the others when they get loaded."""
    import torch

    undos: list[Undo] = []
    names = [_ROOT]
    names += [f"{_ROOT}.{m.name}" for m in pkgutil.iter_modules(torch.cuda.__path__)]
    names += _OTHERS
    on = [True]

    def cover(module: types.ModuleType) -> None:
        if on[0]:
            undos.extend(_cover(module))

    for name in names:
        if name.rpartition(".")[2].startswith("_") or name.startswith(_LEFT_ALONE):
            continue
        if name in sys.modules:
            cover(sys.modules[name])
        else:
            waiter.wait_for(name, cover)

    def undo() -> bool:
        on[0] = False
        results = [one() for one in reversed(undos)]
        return all(results)

    return undo


def _cover(module: types.ModuleType) -> list[Undo]:
    """Gives every public function and class of one module that has no patch of its own the generic answer."""
    undos = []
    for name, value in list(vars(module).items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if not isinstance(value, _CALLED):
            continue
        entry = _entry(value) if isinstance(value, type) else value
        function = in_place.plain_function(entry)
        if function is None or in_place.is_exchanged(function):
            continue
        answer = _Answer(
            _public_name(module, name, value), module.__name__, in_place.clone(function)
        )
        undos.append(in_place.exchange_code(function, answer.callable(), cache=entry))
        if isinstance(value, type) and _lacks_its_base(value):
            undos.append(in_place.set_attribute(value, "__new__", staticmethod(answer.callable())))
    return undos


def _entry(cls: type) -> Any:
    """What runs first when the class is called, where Python code of its own does."""
    return vars(cls).get("__init__") or vars(cls).get("__new__")


def _lacks_its_base(cls: type) -> bool:
    """Whether the class derives from a part of torch that only a CUDA build has: its substitute refuses before ``__init__``."""
    new = in_place.plain_function(cls.__new__)
    return "__new__" not in vars(cls) and new is not None and "_dummy_type" in new.__qualname__


def _public_name(module: types.ModuleType, name: str, value: Any) -> str:
    """The name as users write it: ``torch.cuda.X`` where torch.cuda exports the very object."""
    root = sys.modules[_ROOT]
    return f"{_ROOT}.{name}" if getattr(root, name, None) is value else f"{module.__name__}.{name}"


class _Answer:
    """What one name answers; decided at its first call, from the matrix."""

    def __init__(self, name: str, module: str, original: Callable[..., Any]) -> None:
        self.name = name
        self.module = module
        self.original = original
        self._decided: Callable[..., Any] | None = None

    def callable(self) -> Callable[..., Any]:
        """The replacement to install."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._decided is None:
                self._decided = self._decide()
            return self._decided(*args, **kwargs)

        call.__hpushim_original__ = self.original  # type: ignore[attr-defined]
        return call

    def _decide(self) -> Callable[..., Any]:
        from hpushim import matrix

        row = matrix.load().row(self.name)
        if row is None:
            return self._unknown
        act = {
            "alias": self._alias,
            "noop": self._noop,
            "constant": self._constant,
            "raise": self._refuse,
        }.get(row.runtime)
        chosen = act(row) if act is not None else self._torch_itself(row)
        return self._reporting(row, chosen) if row.warn and row.runtime != "raise" else chosen

    def _reporting(self, row: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def report(*args: Any, **kwargs: Any) -> Any:
            log.warn(row.rule or "HPU902", f"{self.name}: {row.note}")
            return call(*args, **kwargs)

        return report

    def _alias(self, row: Any) -> Callable[..., Any]:
        from hpushim import matrix

        target = _resolve(row.target)
        if target is None:
            return self._refuse(row)

        unseen = " and ".join(matrix.load().unwitnessed(row))

        def alias(*args: Any, **kwargs: Any) -> Any:
            if unseen:
                log.note(
                    row.rule or "HPU902",
                    f"{self.name} calls {unseen}, which nobody is known to have run on a Gaudi",
                )
            args, kwargs = self._translated(row, args, kwargs)
            try:
                return target(*args, **kwargs)
            except NotImplementedError as error:
                log.refuse(row.rule or "HPU904", f"{self.name}: {error}", row.note)

        return alias

    def _translated(
        self, row: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = _parameters(self.original)
        for argument in row.args:
            if argument.change in ("drop", "rename"):
                if argument.name in names[: len(args)]:
                    # Named from here on, so that it can go or change its name.
                    at = names.index(argument.name)
                    kwargs |= dict(zip(names[at:], args[at:], strict=False))
                    args = args[:at]
                if argument.name in kwargs:
                    value = kwargs.pop(argument.name)
                    if argument.change == "rename":
                        kwargs[argument.value] = value
            else:
                kwargs[argument.name] = ast.literal_eval(argument.value)
        args = tuple(
            devices.mapped(value) if index < len(names) and names[index] == "device" else value
            for index, value in enumerate(args)
        )
        if "device" in kwargs:
            kwargs["device"] = devices.mapped(kwargs["device"])
        return args, kwargs

    def _noop(self, row: Any) -> Callable[..., Any]:
        body = getattr(self.original, "__wrapped__", None)
        if body is not None and inspect.isgeneratorfunction(body):
            return lambda *args, **kwargs: contextlib.nullcontext()
        return lambda *args, **kwargs: None

    def _constant(self, row: Any) -> Callable[..., Any]:
        value = ast.literal_eval(row.value)
        return lambda *args, **kwargs: value

    def _refuse(self, row: Any) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            if callers.of_patched(self.module).partition(".")[0] == "torch":
                return self.original(*args, **kwargs)
            log.refuse(row.rule or "HPU904", f"{self.name} does not work on HPU", row.note)

        return refuse

    def _torch_itself(self, row: Any) -> Callable[..., Any]:
        return functools.partial(self._guarded, row.rule or "HPU904", row.note)

    def _unknown(self, *args: Any, **kwargs: Any) -> Any:
        if callers.of_patched(self.module).partition(".")[0] != "torch":
            log.unhandled(self.name)
        advice = "its behaviour on Gaudi is unknown; guard the call, or run this part on the CPU"
        return self._guarded("HPU904", advice, *args, **kwargs)

    def _guarded(self, code: str, advice: str, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.original(*args, **kwargs)
        except UnsupportedOnHpu:
            raise
        except (AssertionError, AttributeError, ImportError, RuntimeError, TypeError) as error:
            if not _wants_cuda(error):
                raise
            log.refuse(code, f"{self.name} needs CUDA itself ({error})", advice)


# Ways of torch to say that it was built without CUDA.
_WITHOUT = lazily(
    r"cuda|nvml|nvidia-ml|dummy base class|torch\._C|not supported on this platform", re.IGNORECASE
)


def _wants_cuda(error: Exception) -> bool:
    return _WITHOUT.search(str(error)) is not None


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _resolve(name: str) -> Callable[..., Any] | None:
    """The object of a dotted name, importing as much of it as is a module; None when it does not exist."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found if callable(found) else None
    return None
