"""Enables the recorder in this process, before its program begins."""

from __future__ import annotations

import atexit
import itertools
import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from hpushim.prove.recorder import files, lines, recording
from hpushim.shim.imports.waiter import Waiter

_OURS = str(Path(__file__).resolve().parents[2])
_enabled = False


def begin() -> None:
    """Seeds, watches files and lines now, and torch as soon as it is imported. Once a process."""
    global _enabled
    if _enabled:
        return
    _enabled = True
    orders = recording.orders()
    random.seed(orders.seed)
    _import_from_the_copy(orders)
    files.watch(orders)
    lines.watch(orders)
    _record_errors(orders)
    atexit.register(_record_refusals, orders)  # before torch: the device is done by then
    # A waiter of our own: the one of the package is emptied when the shim is enabled or disarmed.
    waiter = Waiter()
    from hpushim.prove.recorder import scalars

    watched: list[tuple[str, Any]] = [("numpy", _seed_numpy), ("torch", _torch_arrived)]
    watched += [(name, partial(scalars.watch, name)) for name in scalars.LOGGERS]
    for name, arrived in watched:
        if name in sys.modules:
            arrived(sys.modules[name], orders)
        else:
            waiter.wait_for(name, partial(_call, arrived, orders))


def _call(arrived: Any, orders: recording.Orders, module: Any) -> None:
    arrived(module, orders)


def _import_from_the_copy(orders: recording.Orders) -> None:
    """Has what is installed from the user's own folder (``pip install -e``, PYTHONPATH) come from the copy."""

    def moved(place: str) -> str:
        real = os.path.realpath(place)
        if real == _OURS or real.startswith(_OURS + os.sep):
            return place
        if real != orders.tree and not real.startswith(orders.tree + os.sep):
            return place
        inside = orders.copy + real[len(orders.tree) :]
        # An environment that lies in the project is not copied.
        return inside if os.path.exists(inside) else place  # noqa: PTH110

    sys.path[:] = [moved(place) if place else place for place in sys.path]
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
        if isinstance(mapping, dict):
            mapping.update({key: moved(str(place)) for key, place in mapping.items()})


def _seed_numpy(numpy: Any, orders: recording.Orders) -> None:
    seed = orders.seed
    numpy.random.seed(seed)
    make = numpy.random.default_rng

    def default_rng(given: Any = None) -> Any:
        """A generator without a seed has this run's."""
        return make(seed if given is None else given)

    numpy.random.default_rng = default_rng
    sequence = numpy.random.SeedSequence
    fresh = itertools.count(seed)

    class Kind(type):
        def __instancecheck__(cls, one: object) -> bool:
            return isinstance(one, sequence)

    class SeedSequence(sequence, metaclass=Kind):  # type: ignore[valid-type, misc]
        """One without entropy has this run's, and each another: gymnasium's spaces draw from such."""

        def __init__(self, entropy: Any = None, **how: Any) -> None:
            super().__init__(next(fresh) if entropy is None else entropy, **how)

    numpy.random.SeedSequence = SeedSequence


def _torch_arrived(torch: Any, orders: recording.Orders) -> None:
    from hpushim.prove.recorder import training

    torch.manual_seed(orders.seed)
    # For a seed of its own choice, torch would take one from the clock.
    torch.seed = torch.random.seed = lambda: torch.manual_seed(orders.seed).initial_seed()
    if orders.deterministic:
        _repeat_bits(torch)
    training.watch(torch, orders)


def _repeat_bits(torch: Any) -> None:
    """Sets torch to kernels that give the same bits each time. A script that lets cuDNN measure kernels and choose cannot change that."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    cudnn = torch.backends.cudnn
    cudnn.deterministic, cudnn.benchmark = True, False
    for flag in ("deterministic", "benchmark"):
        vars(type(cudnn))[flag].setter = lambda value: None
        setattr(torch._C, f"_set_cudnn_{flag}", lambda value: None)


def _record_refusals(orders: recording.Orders) -> None:
    """Notes what the emulated device let pass and a Gaudi refuses or computes in less, with the line of the project that requested it."""
    ledger: Any = sys.modules.get("hpushim.emulator.ledger")
    if ledger is None:
        return
    texts = {"refused": ledger.refusals(), "narrowed": ledger.narrowed()}
    for kind, code, text, site in ((kind, *one) for kind, all_ in texts.items() for one in all_):
        name, _, line = site.rpartition(":")
        file = orders.file_of(name)
        inside = file.startswith(orders.root + os.sep)
        place = {"file": os.path.relpath(file, orders.root), "line": int(line)} if inside and line.isdigit() else {}  # fmt: skip
        recording.note(orders.at, kind, code=code, what=text, **place)


def _said(error: BaseException) -> str:
    """The first line of an error's text."""
    text = str(error).strip().splitlines()
    return text[0][:500] if text else ""


def _handled(error: BaseException) -> BaseException:
    """The error during whose handling this one was raised, as a ``finally`` may; not where it was raised in its place."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return error


def _record_errors(orders: recording.Orders) -> None:
    """Has an uncaught exception noted with the last line of the project that it passed."""
    before = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        places = []
        step = trace
        while step is not None:
            file = orders.file_of(step.tb_frame.f_code.co_filename)
            if file.startswith(orders.root + os.sep):
                places.append([os.path.relpath(file, orders.root), step.tb_lineno])
            step = step.tb_next
        message, first = _said(error), _handled(error)
        if first is not error:
            message += (
                f" (raised while another error was handled: {type(first).__name__}: {_said(first)})"
            )
        recording.note(
            orders.at,
            "error",
            kind=kind.__name__,
            message=message,
            places=places,
            when=time.monotonic(),
        )
        before(kind, error, trace)

    sys.excepthook = hook
