"""One run of a proof, with nothing started: its command, its environment and orders, how it is waited for, ended and read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from hpushim.errors import HpushimError
from hpushim.prove import cuda, runs
from hpushim.prove.records import Record
from hpushim.prove.words import Command

PLAIN = Command((), "t.py", ("--x",))


@pytest.fixture
def plan(tmp_path: Path) -> runs.Plan:
    for name in ("scratch/copy/project", "tree"):
        (tmp_path / name).mkdir(parents=True)
    return runs.Plan(scratch=tmp_path / "scratch", tree=tmp_path / "tree", python="py", cuda_python="cuda-py", devices=3, mode="eager")  # fmt: skip


@pytest.mark.parametrize(
    ("way", "command", "words"),
    [
        ("cpu", PLAIN, ["py", "t.py", "--x"]), ("copy", PLAIN, ["py", "t.py", "--x"]), ("cuda", PLAIN, ["cuda-py", "t.py", "--x"]), ("cuda-copy", PLAIN, ["cuda-py", "t.py", "--x"]),
        ("shim", PLAIN, ["py", "-m", "hpushim", "run", "--mode", "eager", "--devices", "3", "t.py", "--x"]), ("native", PLAIN, ["py", "-m", "hpushim", "run", "--mode", "eager", "--devices", "3", "--native", "t.py", "--x"]),
        ("cpu", Command((), "pkg", ("a",), module=True), ["py", "-m", "pkg", "a"]),
        ("cpu", Command(("torchrun", "--nproc-per-node", "2"), "t.py", ()), ["py", "/b/torchrun", "--nproc-per-node", "2", "t.py"]),
        ("shim", Command(("torchrun", "--x"), "pkg", (), module=True), ["py", "-m", "hpushim", "run", "--mode", "eager", "--devices", "3", "/b/torchrun", "--x", "-m", "pkg"]),
    ],
)  # fmt: skip
def test_the_words_of_a_run(plan: runs.Plan, monkeypatch: pytest.MonkeyPatch, way: Any, command: Command, words: list[str]) -> None:  # fmt: skip
    monkeypatch.setattr(runs, "_launcher", lambda name: f"/b/{name}")
    assert runs._words(way, command, plan) == words


def test_a_launcher_is_found_beside_the_interpreter_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(runs.shutil, "which", {"deepspeed": "/usr/bin/deepspeed"}.get)
    (tmp_path / "torchrun").touch()
    (tmp_path / "folder").mkdir()
    assert [runs._launcher(name) for name in ("torchrun", "deepspeed")] == [str(tmp_path / "torchrun"), "/usr/bin/deepspeed"]  # fmt: skip
    for name in ("accelerate", "folder"):
        with pytest.raises(HpushimError, match=f"^{name}: not found; install it beside hpushim, or name its file$"):  # fmt: skip
            runs._launcher(name)


@pytest.mark.parametrize("way", ["cpu", "shim", "native", "copy", "cuda", "cuda-copy"])
@pytest.mark.parametrize("threads", [None, "4"])
def test_the_environment_of_a_run(plan: runs.Plan, monkeypatch: pytest.MonkeyPatch, way: Any, threads: str | None) -> None:  # fmt: skip
    given = {"HOME": "/h", "HPUSHIM": "x", "HPUSHIM_LEDGER": "x", "HPUSHIM_CACHE_DIR": "c", "HPUSHIM_GAUDI": "gaudi3", "CUDA_VISIBLE_DEVICES": "1", "PT_HPU_LAZY_MODE": "0", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}  # fmt: skip
    tree = str(plan.tree)
    given |= {"PYTHONPATH": os.pathsep.join((f"{tree}/lib", "", "/other", f"{tree}x"))}
    given |= {"OMP_NUM_THREADS": threads} if threads else {}
    monkeypatch.setattr(os, "environ", given)
    monkeypatch.setattr(cuda, "environment", lambda: {"A_CARD": "1"})
    found = runs._environment(way, plan, Path("/orders"), "/top")
    on_device = way.startswith("cuda")
    package = str(Path(runs.__file__).parents[2])
    paths = [runs.STARTUP, *([package] if on_device else []), "/top/lib", "/other", f"{tree}x"]
    expected = {
        "HOME": "/h", "HPUSHIM_CACHE_DIR": "c", "HPUSHIM_GAUDI": "gaudi3", "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1",
        "HPUSHIM_PROVE": "/orders", "HPUSHIM": "emulate" if way in ("shim", "native") else "off", "HPUSHIM_LOG": "quiet", "HPUSHIM_EMULATED_RANDOM": "cpu", "OMP_NUM_THREADS": threads or "1",
    }  # fmt: skip
    assert found == expected | ({"A_CARD": "1", "CUDA_VISIBLE_DEVICES": "1"} if on_device else {})
    assert "HPUSHIM_LEDGER" in given, "the own environment stays"
    same = runs.msgspec.structs.replace(plan, cuda_python="py")
    paths = runs._environment(way, same, Path("/orders"), "/top")["PYTHONPATH"].split(os.pathsep)
    assert (package in paths) is False


class Process:
    """One that is there until it gets a signal of some number."""

    def __init__(self, dies_of: int | None = None, code: int | None = None) -> None:
        self.pid, self.dies_of, self.code = 77, dies_of, code
        self.waited: list[Any] = []

    def poll(self) -> int | None:
        return self.code

    def wait(self, timeout: float) -> int:
        self.waited.append(timeout)
        if self.code is None:
            raise subprocess.TimeoutExpired("x", timeout)
        return self.code


@pytest.mark.parametrize(
    ("process", "sent", "waited"),
    [
        (Process(signal.SIGTERM), [signal.SIGTERM, signal.SIGKILL], [0, 0]), (Process(signal.SIGKILL), [signal.SIGTERM, signal.SIGKILL], [10, 0]), (Process(), [signal.SIGTERM, signal.SIGKILL], [10, 10]),
        (Process(code=3), [signal.SIGTERM, signal.SIGKILL], [0, 0]),
    ],
    ids=["at the first", "at the second", "never", "already"],
)  # fmt: skip
def test_a_run_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch, process: Process, sent: list[Any], waited: list[int]) -> None:  # fmt: skip
    found: list[Any] = []

    def kill(pid: int, number: int) -> None:
        assert pid == 77
        found.append(number)
        if number == process.dies_of:
            process.code = -number

    monkeypatch.setattr(os, "killpg", kill)
    runs._end(process)  # type: ignore[arg-type]
    assert (found, process.waited) == (sent, waited)


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_group_that_is_gone_gets_no_second_signal(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:  # fmt: skip
    found: list[int] = []

    def kill(pid: int, number: int) -> None:
        found.append(number)
        raise error

    monkeypatch.setattr(os, "killpg", kill)
    process = Process(code=0)
    runs._end(process)  # type: ignore[arg-type]
    assert (found, process.waited) == ([signal.SIGTERM], [])


@pytest.mark.parametrize(
    "how", [{}, {"steps": 0, "window": (3, 4), "values": True, "lines": {"t.py": [1]}, "float32": True}, {"steps": 5}]
)  # fmt: skip
@pytest.mark.parametrize("way", ["shim", "cuda", "cuda-copy"])
def test_a_run_is_started_with_its_orders(plan: runs.Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: dict[str, Any], way: Any) -> None:  # fmt: skip
    asked: list[Any] = []
    process = Process(code=4)

    def popen(words: list[str], **given: Any) -> Process:
        asked.append((words, given))
        given["stdout"].write(b"said\n")
        given["stderr"].write(b"wrong\xff\n")
        given["stdout"].flush()
        given["stderr"].flush()
        return process

    ended: list[Any] = []
    monkeypatch.setattr(runs.subprocess, "Popen", popen)
    monkeypatch.setattr(runs, "_end", ended.append)
    monkeypatch.setattr(runs, "_environment", lambda *given: {"given": given[3]})
    copy = plan.scratch / "copy/project"
    with runs.started(way, "a title", PLAIN, copy, copy, plan, **how) as one:
        assert ended == []
        assert (one.way, one.title, one.copy, one.end, one.until - one.begin) == (way, "a title", copy, None, 600)  # fmt: skip
        assert abs(one.begin - time.monotonic()) < 60
        (copy / "log.txt").write_text("loss 1\n")
        (copy / "log.bin").write_text("x")
        (done,) = runs.finished([one])
    assert ended == [process, process]
    ((words, given),) = asked
    assert words == runs._words(way, PLAIN, plan) and done.command == tuple(words)
    assert (given["cwd"], given["stdin"], given["start_new_session"], given["env"]) == (copy, subprocess.DEVNULL, True, {"given": str(plan.scratch / "copy")})  # fmt: skip
    assert (done.way, done.title, done.code, done.output, done.errors) == (way, "a title", 4, "said\n", "wrong�\n")  # fmt: skip
    assert done.logs == {"log.txt": "loss 1\n"} and done.record == Record() and done.seconds >= 0
    (at,) = plan.scratch.glob(f"record-{way}-*")
    orders = json.loads((at / "orders").read_text())
    assert orders == {
        "at": str(at), "root": str(copy), "copy": str(plan.scratch / "copy"), "tree": str(plan.tree), "cwd": str(copy), "seed": 1234, "steps": how.get("steps", 20), "window": list(how.get("window", (1, 2))),
        "values": how.get("values", False), "lines": how.get("lines", {}), "float32": how.get("float32", False), "deterministic": way != "shim",
    }  # fmt: skip


def test_runs_are_waited_for_together(plan: runs.Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # fmt: skip
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += 1
        if now[0] == 103:
            quick.code = 0

    monkeypatch.setattr(runs, "time", types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(runs, "_end", lambda process: None)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("out", "err", "orders"):
            (tmp_path / name / file).touch()
    quick, slow = Process(), Process()
    going = [runs.Started("shim", name, [], tmp_path / name, tmp_path / name, process, 106.0, begin) for name, process, begin in (("a", quick, 100.0), ("b", slow, 99.0))]  # fmt: skip
    first, second = runs.finished(going)
    assert (first.code, first.seconds, second.code, second.seconds) == (0, 3.0, None, 8.0)
    assert slept[-1] == 0 and set(slept[:-1]) == {0.02} and len(slept) == 8
    quick.code, now[0] = 5, 999.0
    assert going[0].is_over() and going[0].end == 103.0, "it has ended once"


def test_which_logs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("old.txt", "b.json", "sub/a.csv", "x.bin"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.json")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    os.utime(tmp_path / "old.txt", ns=(10, 10))
    os.utime(tmp_path / "b.json", ns=(11, 11))
    found = runs._logs(tmp_path, 10)
    assert found == {"b.json": "b.json", "sub/a.csv": "sub/a.csv"}
    monkeypatch.setattr(runs, "_MOST_LOGS", 1)
    assert list(runs._logs(tmp_path, 10)) == ["b.json"]
    monkeypatch.setattr(runs, "_OUTPUT", 3)
    assert runs._tail(tmp_path / "b.json") == "son"
    (tmp_path / "b.json").write_text("ab")
    assert runs._tail(tmp_path / "b.json") == "ab"


@pytest.mark.parametrize(
    ("place", "found"),
    [("/t", "/c"), ("/t/a", "/c/a"), ("/tx", "/tx"), ("t/a", "t/a"), ("/a/t/b", "/a/t/b")],
)
def test_a_path_in_the_user_s_folder_is_one_in_the_copy(place: str, found: str) -> None:
    assert runs.in_copy(place, Path("/t"), "/c") == found


def test_signals_leave_the_block_as_an_exception_does() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with runs.leaving_nothing():
            assert signal.getsignal(signal.SIGTERM) is runs._leave
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        with contextlib.suppress(ZeroDivisionError), runs.leaving_nothing():
            raise ZeroDivisionError
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        with pytest.raises(SystemExit) as left:
            runs._leave(15, None)
        assert left.value.code == 143
        seen: list[Any] = []

        def aside() -> None:
            with runs.leaving_nothing():
                seen.append(signal.getsignal(signal.SIGTERM))

        thread = threading.Thread(target=aside)
        thread.start()
        thread.join()
        assert seen == [signal.SIG_DFL]
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def test_the_failure_of_a_run_is_one_that_names_a_line_of_the_project() -> None:
    def run(*errors: Any) -> runs.Run:
        return runs.Run("shim", "t", (), 1, 1.0, "", "", Record(errors=list(errors)))

    bare, placed, later = {"places": []}, {"places": [1]}, {"places": [2]}
    assert runs.failure(run()) is None
    assert runs.failure(run(bare)) is bare
    assert runs.failure(run(bare, placed, later)) is placed
