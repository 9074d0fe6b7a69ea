"""One run of the three: its command and environment, started with the recorder, ended in time, its record read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from hpushim.errors import HpushimError
from hpushim.prove import cuda, metrics
from hpushim.prove.records import Record, read
from hpushim.prove.words import Command

Way = Literal["cpu", "shim", "native", "copy", "cuda", "cuda-copy"]
#: Without a device: of the original, and of the migrated copy; the same with a CUDA device.
ON_CPU: tuple[Way, ...] = ("cpu", "copy")
ON_CUDA: tuple[Way, ...] = ("cuda", "cuda-copy")
STARTUP = str(Path(__file__).parent / "recorder" / "startup")
_STAY = ("HPUSHIM_CACHE_DIR", "HPUSHIM_GAUDI", "HPUSHIM_STACK", "HPUSHIM_ALLOW_IMPORT", "HPUSHIM_CAPABILITY", "HPUSHIM_CUDA_AVAILABLE")  # fmt: skip
_FINISH = 10  # seconds that a stopped run has to end by itself
_LOOK = 0.02  # seconds between two looks at what goes on
_OUTPUT = 4 << 20  # bytes of output, and of a log, that are kept
_MOST_LOGS = 50


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gets, whichever way it goes."""

    scratch: Path
    tree: Path  # the user's own, with what lies beside the project
    seed: int = 1234
    steps: int = 20
    timeout: float = 600
    devices: int = 1
    mode: str = "lazy"
    python: str = sys.executable
    cuda_python: str = sys.executable


class Run(msgspec.Struct, frozen=True):
    """A run that has ended. ``code`` is None when it was stopped because its time was up."""

    way: Way
    title: str
    command: tuple[str, ...]
    code: int | None
    seconds: float
    output: str
    errors: str
    record: Record
    logs: dict[str, str] = msgspec.field(
        default_factory=dict
    )  # text files that it wrote into its copy


def run(
    way: Way,
    title: str,
    command: Command,
    copy: Path,
    cwd: Path,
    plan: Plan,
    **recorded: Any,
) -> Run:
    """Runs a command in ``cwd``, a folder of the project's ``copy``, and reads what it recorded (see :func:`started`)."""
    with started(way, title, command, copy, cwd, plan, **recorded) as one:
        return finished([one])[0]


class Started(msgspec.Struct):
    """A run that goes on."""

    way: Way
    title: str
    words: list[str]
    at: Path
    copy: Path
    process: Any
    until: float
    begin: float
    end: float | None = None

    def is_over(self) -> bool:
        """Whether it has ended, or its time is up."""
        if self.end is None and (self.process.poll() is not None or time.monotonic() > self.until):
            self.end = time.monotonic()
        return self.end is not None


@contextlib.contextmanager
def started(
    way: Way,
    title: str,
    command: Command,
    copy: Path,
    cwd: Path,
    plan: Plan,
    *,
    window: tuple[int, int] = (1, 2),
    values: bool = False,
    lines: dict[str, list[int]] | None = None,
    steps: int | None = None,
    float32: bool = False,
) -> Iterator[Started]:
    """Starts a command in ``cwd``, a folder of the project's ``copy``; it has ended when the block is left.

    ``window`` are the steps whose operators are noted, with ``values`` also their results; ``lines`` the lines of interest. With
    ``float32`` autocast is off.
    """
    at = plan.scratch / f"record-{way}-{time.monotonic_ns()}"
    at.mkdir()
    orders = at / "orders"
    content = {
        "at": str(at),
        "root": os.path.realpath(copy),
        "copy": _top(copy, plan.scratch),
        "tree": str(plan.tree),
        "cwd": os.path.realpath(cwd),
        "seed": plan.seed,
        "steps": plan.steps if steps is None else steps,
        "window": list(window),
        "values": values,
        "lines": lines or {},
        "float32": float32,
        "deterministic": way in ON_CUDA,
    }
    orders.write_text(json.dumps(content), encoding="utf-8")
    words = _words(way, command, plan)
    begin = time.monotonic()
    with (at / "out").open("wb") as out, (at / "err").open("wb") as err:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=_environment(way, plan, orders, _top(copy, plan.scratch)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        with _ended(process):
            yield Started(way, title, words, at, copy, process, begin + plan.timeout, begin)


def finished(going: list[Started]) -> list[Run]:
    """Waits for runs that go on side by side; all that is left of one is ended before it is read."""
    left = going
    while left:
        left = [one for one in left if not one.is_over()]
        time.sleep(_LOOK if left else 0)
    done = []
    for one in going:
        code = one.process.poll()
        _end(one.process)
        seconds = (one.end or 0) - one.begin
        out, err = _tail(one.at / "out"), _tail(one.at / "err")
        logs = _logs(one.copy, (one.at / "orders").stat().st_mtime_ns)
        done.append(Run(one.way, one.title, tuple(one.words), code, seconds, out, err, read(one.at), logs))  # fmt: skip
    return done


def _logs(copy: Path, since: int) -> dict[str, str]:
    """The text files of a copy that were written since a time, by their names in it."""
    found: dict[str, str] = {}
    for path in sorted(path for path in copy.rglob("*") if path.suffix in metrics.LOGS):
        with contextlib.suppress(OSError):
            if (
                len(found) < _MOST_LOGS
                and not path.is_symlink()
                and path.stat().st_mtime_ns > since
            ):
                found[str(path.relative_to(copy))] = _tail(path)
    return found


def in_copy(place: str, tree: Path, copy: str) -> str:
    """A path with the copy's folder where it begins with the user's."""
    if place == str(tree) or place.startswith(f"{tree}{os.sep}"):
        return copy + place[len(str(tree)) :]
    return place


def _top(copy: Path, scratch: Path) -> str:
    """The folder of the scratch folder that a copy lies in."""
    real = Path(os.path.realpath(scratch))
    return str(real / Path(os.path.realpath(copy)).relative_to(real).parts[0])


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the run and everything that it started, whatever happens to us."""
    try:
        yield
    finally:
        _end(process)


@contextlib.contextmanager
def leaving_nothing() -> Iterator[None]:
    """Has SIGTERM and SIGHUP leave the block as an exception does, so that runs are ended and scratch folders go."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, _FINISH), (signal.SIGKILL, _FINISH)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience if process.poll() is None else 0)
    process.poll()


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _OUTPUT, 0))
        return file.read().decode(errors="replace")


def _words(way: Way, command: Command, plan: Plan) -> list[str]:
    module = ["-m"] if command.module else []
    if command.before:
        words = [_launcher(command.launcher), *command.before[1:], *module, command.script]
    else:
        words = [*module, command.script]
    start = [plan.cuda_python if way in ON_CUDA else plan.python]
    if way not in (*ON_CPU, *ON_CUDA):
        start += ["-m", "hpushim", "run", "--mode", plan.mode, "--devices", str(plan.devices)]
        if way == "native":
            start.append("--native")
    return [*start, *words, *command.args]


def _launcher(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise HpushimError(f"{name}: not found; install it beside hpushim, or name its file")
    return found


def _environment(way: Way, plan: Plan, orders: Path, top: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or k in _STAY}
    if way in ON_CUDA:
        env |= cuda.environment()
    for name in (
        "" if way in ON_CUDA else "CUDA_VISIBLE_DEVICES",
        "PT_HPU_LAZY_MODE",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
    ):
        env.pop(name, None)
    # The user's own folders on it mean their copies.
    given = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    ours = [str(Path(__file__).parents[2])] if way in ON_CUDA and plan.cuda_python != plan.python else []  # fmt: skip
    paths = [STARTUP, *ours, *(in_copy(os.path.abspath(one), plan.tree, top) for one in given)]  # noqa: PTH100
    env.update(
        PYTHONPATH=os.pathsep.join(paths),
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONHASHSEED="0",
        PYTHONUNBUFFERED="1",
        HPUSHIM_PROVE=str(orders),
        HPUSHIM="off" if way in (*ON_CPU, *ON_CUDA) else "emulate",
        HPUSHIM_LOG="quiet",
        # The emulated device draws from the CPU's own stream, so that the runs agree number by number.
        HPUSHIM_EMULATED_RANDOM="cpu",
    )
    # Sums split over threads are rounded differently from run to run.
    env.setdefault("OMP_NUM_THREADS", "1")
    return env


def failure(run: Run) -> dict[str, Any] | None:
    """The uncaught exception of a run, if there was one: of those of its processes one that names a line of the project."""
    errors = run.record.errors
    return next((one for one in errors if one["places"]), errors[0] if errors else None)
