"""A pytest that has collected and waits: for each mutant it forks, and the fork takes the changed code and asks the tests.

``tests/mutants.py`` starts it (``-p asked``) in its copy of the sources. What is loaded once is torch, pytest and the tests; a mutant
costs what its own tests cost, up to the first that fails.
"""

from __future__ import annotations

import builtins
import functools
import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import warm

#: What said which places it reaches, in this process.
_seen: set[int] = set()
_FOLDER = os.environ.get("HPUSHIM_REACHED", "")
#: A test that takes so much longer than it takes by itself does not end.
_WAIT, _TIMES = 60.0, 20.0
#: For a map: where so many tests of one function cost more seconds than that each, they stand for its others.
_SOME, _DEAR = 5, 0.5


def pytest_configure() -> None:
    if _FOLDER:  # the sources of a map call it with the number of a place
        builtins._is_reached_here = _seen.add  # type: ignore[attr-defined]


def _bits(numbers: set[int]) -> str:
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        found[number // 8] |= 1 << number % 8
    return found[::-1].hex()


class _Loaded:
    """The functions of this process by file, line and name, and what they keep of earlier calls."""

    def __init__(self, tree: str) -> None:
        self.functions: dict[tuple[str, int, str], list[types.FunctionType]] = {}
        self.kept: list[Any] = []
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(tree):
                self.functions.setdefault(_place(one.__code__), []).append(one)
            elif isinstance(one, functools._lru_cache_wrapper):
                code = getattr(one.__wrapped__, "__code__", None)
                if code is not None and code.co_filename.startswith(tree):
                    self.kept.append(one)

    def take(self, file: str, before: bytes, after: bytes) -> bool:
        """Has the functions of a file run its changed code; whether that is all there is to change."""
        for one in self.kept:
            one.cache_clear()
        if not any(getattr(module, "__file__", None) == file for module in list(sys.modules.values())):  # fmt: skip
            return True
        changed = _changed(*(compile(text, file, "exec", dont_inherit=True) for text in (before, after)))  # fmt: skip
        if not changed or not changed[-1][1].co_flags & 0x2:  # a module's or a class's own lines
            return False
        found = False
        for old, new in changed:
            for function in self.functions.get(_place(old), ()):
                try:
                    function.__code__ = new
                except ValueError:
                    return False
                found = True
        return found


def _place(code: types.CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname if sys.version_info >= (3, 11) else code.co_name  # fmt: skip


def _changed(old: types.CodeType, new: types.CodeType) -> list[tuple[types.CodeType, types.CodeType]]:  # fmt: skip
    """What differs, from the outside in."""
    pairs = [
        (a, b)
        for a, b in zip(old.co_consts, new.co_consts, strict=False)
        if isinstance(a, types.CodeType) and isinstance(b, types.CodeType) and a != b
    ]
    here = [(old, new)] if old.co_code != new.co_code or old != new else []
    inner = [one for pair in pairs for one in _changed(*pair)]
    return here + inner


def pytest_runtestloop(session: pytest.Session) -> bool:
    read, write = (int(number) for number in os.environ["HPUSHIM_ASKED"].split(","))
    warm.run([sys.executable, "-c", "pass"])  # when it has answered, it is there
    tree = str(Path(__file__).resolve().parent.parent) + os.sep
    loaded = _Loaded(tree)
    gc.collect()
    gc.freeze()
    items = {item.nodeid: item for item in session.items}
    with open(read) as jobs, open(write, "w") as answers:  # noqa: PTH123
        first = {"tests": list(items), "first": _bits(_seen), "warm": warm.python()}
        print(json.dumps(first), file=answers, flush=True)
        for line in jobs:
            print(json.dumps(_answer(json.loads(line), items, loaded)), file=answers, flush=True)
    return True


def _answer(job: dict[str, Any], items: dict[str, pytest.Item], loaded: _Loaded) -> dict[str, Any]:
    """What a fork said: each test with what it cost, and that which failed or did not end."""
    asked = [items[test] for test in job["tests"] if test in items]
    folder = tempfile.mkdtemp(prefix="asked")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            os.setpgid(0, 0)
            with os.fdopen(write, "w", buffering=1) as out:
                try:
                    _ask(job, asked, loaded, Path(folder), out)
                except BaseException as error:
                    print(f"broke\t{error!r}", file=out)
        finally:
            os._exit(0)
    os.close(write)
    try:
        return _heard(read, child, job["costs"])
    finally:
        os.close(read)
        shutil.rmtree(folder, ignore_errors=True)


def _heard(read: int, child: int, costs: dict[str, float]) -> dict[str, Any]:
    said: list[str] = []
    left, ends, ended = b"", time.monotonic() + 60.0, False
    while True:
        if select.select([read], [], [], 0.0 if ended else 0.2)[0]:
            left += (more := os.read(read, 1 << 16))
            *lines, left = left.split(b"\n")
            said += [line.decode() for line in lines]
            for line in lines:
                if line.startswith(b"begins\t"):
                    ends = time.monotonic() + _WAIT + _TIMES * costs.get(line[7:].decode(), 1.0)
            if not more:
                break
        elif ended:
            break
        if not ended:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                child, ended = 0, True
                said.append(f"ended\t{status}")
            elif time.monotonic() > ends:
                said.append("late\t")
                break
    if child:
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(child, 0)
    result: dict[str, Any] = {"passed": {}, "reached": {}, "failed": "", "why": "", "taken": True}
    begun = ""
    done_all = False
    for line in said:
        what, _, rest = line.partition("\t")
        if what == "begins":
            begun = rest
        elif what == "passed":
            cost, _, test = rest.partition("\t")
            result["passed"][test] = float(cost)
            begun = ""
        elif what == "reached":
            bits, _, test = rest.partition("\t")
            result["reached"][test] = bits
        elif what == "failed":
            result["failed"], result["why"], begun = begun, rest, ""
            result.setdefault("all failed", []).append(result["failed"])
        elif what == "not taken":
            result["taken"] = False
        elif what == "broke":
            result["broke"] = rest
        elif what == "done":
            done_all = True
    if begun and not done_all:
        result["failed"], result["why"] = begun, "does not end" if said[-1] == "late\t" else "ends the process"  # fmt: skip
    return result


class _Told:
    """Whether a test failed, and why."""

    why = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.why:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.why = (str(getattr(crash, "message", "")) or str(report.longrepr) or "?")[:300]


def _ask(job: dict[str, Any], items: list[pytest.Item], loaded: _Loaded, folder: Path, out: TextIO) -> None:  # fmt: skip
    if file := job.get("file"):
        if not loaded.take(file, *(Path(job[name]).read_bytes() for name in ("before", "after"))):
            print("not taken\t", file=out)
            return
    else:
        for kept in loaded.kept:
            kept.cache_clear()
    if not items:
        return
    session = items[0].session
    limit = int(sum(job["costs"].values()) * 3 + 30)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    if plugin := session.config.pluginmanager.get_plugin("terminalreporter"):
        session.config.pluginmanager.unregister(plugin)
    told = _Told()
    session.config.pluginmanager.register(told)
    spent: dict[str, list[float]] = {}
    for item, after in zip(items, [*items[1:], None], strict=True):
        costs = spent.setdefault(item.nodeid.partition("[")[0], [])
        if _FOLDER and len(costs) >= _SOME and sum(costs) > len(costs) * _DEAR:
            continue
        told.why = ""
        print(f"begins\t{item.nodeid}", file=out)
        if _FOLDER:
            _seen.clear()
            Path(_FOLDER, "test").write_text(item.nodeid)
        before, begun = sum(os.times()[:4]), time.monotonic()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        # What the server of ``warm`` does for a test is no time of this process.
        cost = max(sum(os.times()[:4]) - before, (time.monotonic() - begun) / 2)
        costs.append(cost)
        if _FOLDER:
            print(f"reached\t{_bits(_seen | set(_of_others()))}\t{item.nodeid}", file=out)
        if told.why:
            print("failed\t" + told.why.replace("\n", " "), file=out)
            if not job.get("all"):
                break
        else:
            print(f"passed\t{cost:.3f}\t{item.nodeid}", file=out)
    print("done\t", file=out)


def _of_others() -> Iterator[int]:
    """What the processes reached that the last test started."""
    for path in Path(_FOLDER).glob("*.*"):
        _, _, numbers = path.read_text().partition("\n")
        yield from map(int, numbers.split())
        path.unlink()
