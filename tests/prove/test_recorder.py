"""What the recorder writes down, with nothing started: its parts are called in this process, over a torch that has them no longer afterwards."""

from __future__ import annotations

import errno
import importlib.machinery
import json
import os
import random
import struct
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpushim.prove.recorder import enable, files, lines, operators, recording, scalars, training
from hpushim.shim.imports import waiter

pytestmark = pytest.mark.filterwarnings("ignore:.torch.distributed.reduce_op")
Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What is noted, in its order."""
    noted: Events = []
    monkeypatch.setattr(recording, "note", lambda at, event, **what: noted.append((event, what)))
    return noted


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """The user's own folder, and the copy's with the project in it."""
    for name in ("tree/project", "copy/project", "records", "else"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def _orders(places: Path, **changes: Any) -> recording.Orders:
    plain = {
        "at": places / "records",
        "root": places / "copy/project",
        "copy": places / "copy",
        "tree": places / "tree",
        "cwd": places / "copy/project",
        "seed": 7,
        "steps": 0,
        "window": [1, 2],
        "values": 0,
        "lines": {},
        "float32": 0,
    }
    return recording.Orders({**plain, **changes})


# The record


def test_orders_are_read_from_the_file_that_the_environment_names(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    data = {"at": "/a", "root": "/r", "copy": "/c", "tree": "/t", "cwd": str(places), "seed": "3", "steps": "4", "window": ["5", 6], "values": 1, "lines": {"t.py": [2]}, "float32": 1, "deterministic": 1}  # fmt: skip
    (places / "orders").write_text(json.dumps(data))
    monkeypatch.setenv("HPUSHIM_PROVE", str(places / "orders"))
    found = vars(recording.orders())
    assert found == {**data, "at": Path("/a"), "seed": 3, "steps": 4, "window": (5, 6), "values": True, "float32": True, "deterministic": True}  # fmt: skip
    assert [type(found[name]) for name in ("values", "float32", "deterministic")] == [bool] * 3
    assert _orders(places).deterministic is False
    (places / "link.py").symlink_to(places / "else/t.py")
    assert recording.orders().file_of("link.py") == str(places / "else/t.py")
    assert recording.orders().file_of("/x/../y.py") == "/y.py"


@pytest.mark.parametrize(("rank", "name"), [("3", "3"), ("", "-"), ("x", "-"), (None, "-")])
def test_each_process_has_a_record_of_its_own(places: Path, monkeypatch: pytest.MonkeyPatch, rank: str | None, name: str) -> None:  # fmt: skip
    monkeypatch.setattr(recording, "_descriptor", None)
    monkeypatch.setattr(recording, "_owner", 0)
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    opened: list[int] = []
    open_ = os.open
    monkeypatch.setattr(os, "open", lambda *a: opened.append(open_(*a)) or opened[-1])
    recording.note(places, "line", file="t.py", at_all=Path("x"))
    recording.note(places, "line", file="\udcff")
    path = places / f"{name}.{os.getpid()}.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == '{"event": "line", "file": "t.py", "at_all": "x"}\n{"event": "line", "file": "\\udcff"}\n'  # fmt: skip
    assert len(opened) == 1
    monkeypatch.setattr(os, "getpid", lambda: 12)
    recording.note(places, "more")
    assert (places / f"{name}.12.jsonl").read_text() == '{"event": "more"}\n' and len(opened) == 2
    for one in opened:
        os.close(one)


# Its start


def test_a_process_begins_once(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    orders = _orders(places)
    monkeypatch.setattr(enable, "_enabled", False)
    monkeypatch.setattr(recording, "orders", lambda: orders)
    for owner, name in ((enable, "_import_from_the_copy"), (files, "watch"), (lines, "watch"), (enable, "_record_errors")):  # fmt: skip
        monkeypatch.setattr(owner, name, lambda given, name=name: said.append((name, given)))
    monkeypatch.setattr(enable.atexit, "register", lambda *given: said.append(given))
    for name in ("_seed_numpy", "_torch_arrived"):
        monkeypatch.setattr(enable, name, lambda *given, name=name: said.append((name, *given)))
    monkeypatch.setattr(scalars, "watch", lambda *given: said.append(given))
    waits: dict[str, Any] = {}
    monkeypatch.setattr(waiter.Waiter, "wait_for", lambda self, name, then: waits.update({name: then}))  # fmt: skip
    numpy = types.ModuleType("numpy")
    for name in ("torch", *scalars.LOGGERS):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    state = random.getstate()
    try:
        enable.begin()
        drawn = random.random()
        random.seed(7)
        assert drawn == random.random()
    finally:
        random.setstate(state)
    assert said == [("_import_from_the_copy", orders), ("watch", orders), ("watch", orders), ("_record_errors", orders), (enable._record_refusals, orders), ("_seed_numpy", numpy, orders)]  # fmt: skip
    assert list(waits) == ["torch", *scalars.LOGGERS]
    said.clear()
    waits["torch"]("module")
    waits["wandb.sdk.wandb_run"]("run")
    assert said == [("_torch_arrived", "module", orders), ("wandb.sdk.wandb_run", "run", orders)]
    enable.begin()
    assert len(said) == 2


def test_what_is_installed_from_the_user_s_folder_comes_from_the_copy(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    tree, copy = str(places / "tree"), str(places / "copy")
    (places / "tree/venv").mkdir()
    (places / "tree2").mkdir()
    mapping = {"pkg": f"{tree}/project", "lib": "/lib"}
    finder = types.SimpleNamespace(MAPPING=mapping)
    other = types.SimpleNamespace(MAPPING={"pkg": tree})
    monkeypatch.setitem(sys.modules, "__editable___pkg_finder", finder)
    monkeypatch.setitem(sys.modules, "__editable___none", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "a_module", other)
    given = ["", tree, f"{tree}/project", f"{tree}/venv", f"{tree}2", "/usr/lib", enable._OURS, f"{enable._OURS}/hpushim"]  # fmt: skip
    monkeypatch.setattr(sys, "path", given)
    enable._import_from_the_copy(_orders(places))
    assert sys.path is given
    assert given == ["", copy, f"{copy}/project", f"{tree}/venv", f"{tree}2", "/usr/lib", enable._OURS, f"{enable._OURS}/hpushim"]  # fmt: skip
    assert mapping == {"pkg": f"{copy}/project", "lib": "/lib"} and {"pkg": tree} == other.MAPPING
    ours = str(Path(enable._OURS).parent)
    monkeypatch.setattr(sys, "path", [enable._OURS, f"{enable._OURS}/a", f"{enable._OURS}s"])
    monkeypatch.setattr(os.path, "exists", lambda _: True)
    enable._import_from_the_copy(_orders(places, tree=ours))
    assert [place.startswith(copy) for place in sys.path] == [False, False, True]


def test_refusals_are_told_with_the_line_of_the_project(places: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    name = "hpushim.emulator.ledger"
    monkeypatch.delitem(sys.modules, name, raising=False)
    enable._record_refusals(_orders(places))
    assert events == []
    root = places / "copy/project"
    ledger = types.SimpleNamespace(
        refusals=lambda: [("HPU1", "a", f"{root}/sub/t.py:5"), ("HPU1", "b", "t.py:6"), ("HPU1", "c", "/lib/t.py:7")],
        narrowed=lambda: [("HPU2", "d", f"{root}/t.py:?"), ("HPU2", "e", f"{root}:1")],
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, name, ledger)
    enable._record_refusals(_orders(places))
    assert events == [
        ("refused", {"code": "HPU1", "what": "a", "file": "sub/t.py", "line": 5}), ("refused", {"code": "HPU1", "what": "b", "file": "t.py", "line": 6}), ("refused", {"code": "HPU1", "what": "c"}),
        ("narrowed", {"code": "HPU2", "what": "d"}), ("narrowed", {"code": "HPU2", "what": "e"}),
    ]  # fmt: skip


def test_an_uncaught_error_is_told_with_the_lines_of_the_project(places: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    root = places / "copy/project"
    space: dict[str, Any] = {}
    exec(compile("def inner():\n    raise ValueError('\\n  no  \\nmore' + 'x' * 600)\n", "in.py", "exec"), space)  # fmt: skip
    exec(compile("def lib(f):\n    f()\n", "/lib/l.py", "exec"), space)
    exec(compile("\ndef outer():\n    lib(inner)\n", str(root / "sub/out.py"), "exec"), space)  # fmt: skip
    before: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda *given: before.append(given))
    enable._record_errors(_orders(places))
    with pytest.raises(ValueError, match="no") as raised:
        space["outer"]()
    sys.excepthook(raised.type, raised.value, raised.tb)
    ((event, what),) = events
    assert isinstance(what.pop("when"), float)
    assert (event, what) == ("error", {"kind": "ValueError", "message": "no  ", "places": [["sub/out.py", 3], ["in.py", 2]]})  # fmt: skip
    assert before == [(raised.type, raised.value, raised.tb)]
    sys.excepthook(ValueError, ValueError(" \n "), None)
    sys.excepthook(ValueError, ValueError("y" * 600), None)
    assert [what["message"] for _, what in events[1:]] == ["", "y" * 500]
    assert events[1][1]["places"] == []


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_the_recorder_begins_before_the_sitecustomize_that_it_hides(places: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool, asked: bool) -> None:  # fmt: skip
    file = Path(enable.__file__).parent / "startup/sitecustomize.py"
    said: list[str] = []
    monkeypatch.setattr(enable, "begin", lambda: said.append("begins"))
    monkeypatch.setattr(sys, "hidden_runs", said.append, raising=False)
    monkeypatch.setattr(sys, "path", ["/x", str(file.parent), *([str(places)] if hidden else [])])
    monkeypatch.setitem(sys.modules, "sitecustomize", types.ModuleType("sitecustomize"))
    (places / "sitecustomize.py").write_text("import sys\nsys.hidden_runs(__name__)\n")
    monkeypatch.delenv("HPUSHIM_PROVE", raising=False)
    if asked:
        monkeypatch.setenv("HPUSHIM_PROVE", "orders")
    loader = importlib.machinery.SourceFileLoader("a_start", str(file))
    exec(loader.get_code("a_start"), {"__name__": "a_start", "__file__": str(file)})
    assert said == ["begins"] * asked + ["sitecustomize"] * hidden
    assert str(file.parent) not in sys.path
    importlib.machinery.PathFinder.invalidate_caches()


# Files


@pytest.fixture
def watched(places: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "_reported", set())
    monkeypatch.setattr(files, "_orders", _orders(places))
    return places


def test_the_audit_hook_is_set_with_the_orders(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    hooks: list[Any] = []
    monkeypatch.setattr(files, "_orders", None)
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    files.own(places / "tree/x")  # nobody watches
    files.alone("why")
    orders = _orders(places)
    files.watch(orders)
    assert files._orders is orders and hooks == [files._hook]


def test_why_no_other_run_may_go_on_beside_is_told_once(watched: Path, events: Events) -> None:
    for why in ("a", "b", "a"):
        files.alone(why)
    assert events == [("alone", {"why": "a"}), ("alone", {"why": "b"})]


def test_a_link_gives_way_to_a_copy_before_it_is_written(watched: Path) -> None:
    tree, copy = watched / "tree/project", watched / "copy/project"
    (tree / "big").write_text("x")
    (tree / "data/deep").mkdir(parents=True)
    (tree / "data/deep/a").write_text("y")
    (tree / "data/b").write_text("z")
    for name in ("big", "data"):
        (copy / name).symlink_to(tree / name)
    (copy / "gone").symlink_to(tree / "gone")
    (copy / "plain").write_text("p")
    for one in (copy / "big", os.fsencode(copy / "gone"), str(copy / "plain"), copy / "data/deep/a", 3, watched / "else/x"):  # fmt: skip
        files.own(one)
    assert not (copy / "big").is_symlink() and (copy / "big").read_text() == "x"
    assert not os.path.lexists(copy / "gone") and (copy / "plain").read_text() == "p"
    assert not (copy / "data").is_symlink() and (copy / "data/b").is_symlink()
    assert not (copy / "data/deep").is_symlink() and not (copy / "data/deep/a").is_symlink()
    assert (copy / "data/deep/a").read_text() == "y"
    assert (tree / "data/deep/a").read_text() == "y" and (tree / "big").read_text() == "x"
    with pytest.raises(PermissionError, match="hpushim prove writes nothing in the project itself") as told:  # fmt: skip
        files.own(tree / "big")
    assert (told.value.errno, told.value.filename) == (errno.EACCES, str(tree / "big"))
    files.own(f"{watched}/trees")  # has only its beginning in common


W, X = os.O_WRONLY, os.O_WRONLY | os.O_EXCL


@pytest.mark.parametrize(
    ("name", "mode", "flags", "owned", "noted"),
    [
        ("else/x", "w", 0, True, [("alone", {"why": "writes outside of its project"})]), ("else/x", "a", None, True, [("alone", {"why": "writes outside of its project"})]), ("else/x", "r+", 0, True, [("alone", {"why": "writes outside of its project"})]),
        ("else/x", None, W, True, [("alone", {"why": "writes outside of its project"})]), ("else/x", "x", X, True, []), ("else/x", "r", 0, False, []), ("else/x", None, None, False, []), ("else", "w", 0, True, []),
        ("copy/x", "w", 0, True, []), ("records/x", "w", 0, True, []), ("/dev/null", "w", 0, True, []), ("/proc/self/x", "w", 0, True, []), ("copyx/x", "w", 0, True, [("alone", {"why": "writes outside of its project"})]),
        ("copy/project/c.yaml", "r", 0, False, [("read", {"file": "c.yaml"})]), ("copy/project/t.py", "r", os.O_RDONLY, False, [("read", {"file": "t.py"})]), ("copy/project/c.bin", "r", 0, False, []), ("copy/c.yaml", "r", 0, False, []),
        ("tree/b.py", "r", 0, False, [("beside", {"file": "b.py"})]), ("tree/b.yaml", "r", 0, False, []), ("else/b.py", "r", 0, False, []), ("tree/site-packages/b.py", "r", 0, False, []),
    ],
)  # fmt: skip
def test_what_is_opened(watched: Path, events: Events, monkeypatch: pytest.MonkeyPatch, name: str, mode: str | None, flags: int | None, owned: bool, noted: Events) -> None:  # fmt: skip
    made_own: list[Any] = []
    monkeypatch.setattr(files, "own", made_own.append)
    path = watched / name
    for _ in range(2):
        files._opened(path, mode, flags)
    assert made_own == [path] * 2 * owned and events == noted
    files._opened(3, "w", 0)
    assert len(made_own) == 2 * owned
    if name == "tree/b.py":
        events.clear()
        monkeypatch.setattr(files, "_HERE", str(watched / "tree"))
        files._opened(f"{watched}/tree/./b.py", "r", 0)
        assert events == []


def test_which_events_are_looked_at(watched: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    said: list[Any] = []
    (watched / "link").symlink_to(watched / "else")
    monkeypatch.setattr(files, "own", said.append)
    monkeypatch.setattr(files, "_opened", lambda *given: said.append(given))
    link, plain = str(watched / "link"), str(watched / "else")
    for event, given in (("open", ("a", "r", 0)), ("os.rename", ("a", "b")), ("os.remove", (link,)), ("os.remove", (plain,)), ("os.mkdir", (link,)), ("os.truncate", ("t",)), ("socket.bind", (1,)), ("import", (2,))):  # fmt: skip
        files._hook(event, given)
    assert said == [("a", "r", 0), "b", plain, link, "t"]
    assert events == [("alone", {"why": "listens on a socket"})]
    monkeypatch.setattr(files, "own", lambda path: files._hook("os.truncate", (path,)))
    files._hook("os.truncate", ("t",))  # what is opened meanwhile is not looked at
    monkeypatch.setattr(files, "own", lambda path: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            files._hook("os.truncate", ("t",))


# Lines


def _code(places: Path, name: str = "copy/project/t.py") -> Any:
    text = (
        "def f(x):\n    a = x\n    if a:\n        a = 2\n    return a\n\ndef g():\n    return 1\n"
    )
    space: dict[str, Any] = {}
    exec(compile(text, str(places / name), "exec"), space)
    return types.SimpleNamespace(**space)


def test_each_line_of_interest_is_told_once(places: Path, events: Events) -> None:
    code = _code(places)
    found = lines._Lines(_orders(places, lines={"t.py": [1, 2, 4, 5], "u.py": []}))
    before = sys.gettrace()
    try:
        sys.settrace(found.call)
        code.f(0)
        code.g()
        code.f(1)
        traced = found.call(types.SimpleNamespace(f_code=code.f.__code__, f_lineno=3), "call", None)  # type: ignore[arg-type]  # fmt: skip
        code.f(1)
    finally:
        sys.settrace(before)
    assert events == [("line", {"file": "t.py", "line": line}) for line in (1, 2, 5, 4)]
    assert traced is None, "no line is left"


def test_what_may_still_be_told(places: Path, events: Events) -> None:
    code = _code(places)
    found = lines._Lines(_orders(places, lines={"t.py": [2, 4], "u.py": []}))
    f, g, other = code.f.__code__, code.g.__code__, _code(places, "else/t.py").f.__code__
    assert [found.wants(one) for one in (f, g, other)] == [True, False, False]
    assert found.of(other) is None and found._left.keys() == {str(places / "copy/project/t.py")}

    def frame(code: Any, line: int) -> Any:
        return types.SimpleNamespace(f_code=code, f_lineno=line)

    assert found.call(frame(f, 1), "call", None) == found.line
    assert found.line(frame(f, 2), "return", None) == found.line and events == []
    assert found.line(frame(f, 2), "line", None) == found.line
    assert events == [("line", {"file": "t.py", "line": 2})]
    found.seen(f, 3)
    found.seen(f, 2)
    found.seen(other, 4)
    assert len(events) == 1 and found.call(frame(g, 7), "call", None) is None
    assert found.call(frame(other, 1), "call", None) is None


class _Monitoring:
    """``sys.monitoring``, as Python 3.12 has it."""

    DISABLE = "disable"
    events = types.SimpleNamespace(LINE=32, PY_START=1)

    def __init__(self, used: bool = False) -> None:
        self.said: list[Any] = []
        self.used = used

    def use_tool_id(self, *given: Any) -> None:
        if self.used:
            raise ValueError
        self.said.append(given)

    def register_callback(self, tool: int, event: int, call: Any) -> None:
        self.said.append((tool, event, call.__name__))

    def set_events(self, *given: Any) -> None:
        self.said.append(given)

    def set_local_events(self, *given: Any) -> None:
        self.said.append(given)


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
def test_lines_are_told_by_sys_monitoring_where_python_has_it(places: Path, events: Events, monkeypatch: pytest.MonkeyPatch, used: bool, wanted: bool) -> None:  # fmt: skip
    monitoring = _Monitoring(used)
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)
    orders = _orders(places, lines={"t.py": [2] if wanted else []})
    lines.watch(orders)
    set_up = [(4, "hpushim prove"), (4, 1, "start"), (4, 32, "monitored"), (4, 1)]
    assert monitoring.said == (set_up if wanted and not used else [])
    monitoring.said.clear()
    f, g = _code(places).f.__code__, _code(places).g.__code__
    found = lines._Lines(orders)
    assert found.start(f, 0) == found.start(g, 0) == "disable"
    assert monitoring.said == [(4, f, 32)] * wanted
    assert found.monitored(f, 2) == "disable" and len(events) == wanted


@pytest.mark.parametrize("wanted", [True, False])
def test_lines_are_traced_in_all_threads_elsewhere(places: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:  # fmt: skip
    monkeypatch.delattr(sys, "monitoring", raising=False)
    said: list[Any] = []
    for owner in (sys, threading):
        monkeypatch.setattr(owner, "settrace", lambda call: said.append(call.__name__))
    lines.watch(_orders(places, lines={"t.py": [2] if wanted else []}))
    assert said == ["call", "call"] * wanted


# What is logged


@pytest.mark.parametrize("name", sorted(scalars.LOGGERS))
def test_numbers_handed_to_a_logging_library_are_noted_and_logged(places: Path, events: Events, name: str) -> None:  # fmt: skip
    owner, method, _ = scalars.LOGGERS[name]
    logged: list[Any] = []

    def log(self: Any, *args: Any, **kwargs: Any) -> str:
        """Its text."""
        logged.append((args, kwargs))
        return "done"

    kind = type(owner, (), {method: log})
    scalars.watch(name, types.SimpleNamespace(**{owner: kind}), _orders(places))
    call = getattr(kind(), method)
    assert call.__doc__ == "Its text."
    table = method == "log"
    calls = [({"a": 1.5, "b": "no number", "c": "2"}, 3)] if table else [("a", 1.5), ("b", object()), ("c", "2")]  # fmt: skip
    for one in calls:
        line = sys._getframe().f_lineno + 1
        assert call(*one, step=1) == "done"
    assert events == [("scalar", {"name": "a", "value": "1.5", "line": line}), ("scalar", {"name": "c", "value": "2.0", "line": line})]  # fmt: skip
    assert logged == [(one, {"step": 1}) for one in calls]


# Operators


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


Script = Callable[..., None]


@pytest.fixture
def script(places: Path) -> Script:
    """Runs the lines of ``t.py`` in the project."""

    def run(text: str, **names: Any) -> None:
        exec(compile(text, str(places / "copy/project/t.py"), "exec"), names)

    return run


def test_operators_are_noted_with_results_line_length_and_devices(places: Path, events: Events, script: Script, torch: Any) -> None:  # fmt: skip
    watch = operators.Watch(torch, _orders(places, values=1))
    a, b = torch.ones(2, 3), torch.full((3, 4), -2.0)
    watch.flush(1)
    watch.start()
    mode = watch._mode
    watch.start()
    assert watch._mode is mode
    script("x = a @ b\nvalues, at = x.sort()\ny = a.sum()\nz = torch.zeros(0)\nw = a * y\n", a=a, b=b, torch=torch)  # fmt: skip
    watch.stop()
    watch.stop()
    script("a + a", a=a)
    watch.flush(3)
    watch.flush(4)
    (event, what), *more = events
    assert (event, more) == ("operators", [])
    assert what == {
        "step": 3,
        "more": 0,
        "collectives": [],
        "operators": [
            ["aten.mm.default", [["float32", "cpu", [2, 4]]], ["t.py", 1], 3, ["cpu"], ["48.0"]],
            ["aten.sort.default", [["float32", "cpu", [2, 4]], ["int64", "cpu", [2, 4]]], ["t.py", 2], 1, ["cpu"], ["48.0", "12.0"]],
            ["aten.sum.default", [["float32", "cpu", []]], ["t.py", 3], 6, ["cpu"], ["6.0"]],
            ["aten.zeros.default", [["float32", "cpu", [0]]], ["t.py", 4], 1, [], [None]],
            ["aten.mul.Tensor", [["float32", "cpu", [2, 3]]], ["t.py", 5], 1, ["cpu"], ["36.0"]],
        ],
    }  # fmt: skip


def test_a_mode_of_the_user_s_stays_on_top_and_the_recorder_is_silent(places: Path, events: Events, script: Script, torch: Any) -> None:  # fmt: skip
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    watch = operators.Watch(torch, _orders(places))
    watch.start()
    ours = watch._mode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
            return func(*args, **(kwargs or {}))

    with Mode() as theirs:
        watch.stop()
        assert _get_current_dispatch_mode() is theirs
        script("torch.ones(2)", torch=torch)
    assert _get_current_dispatch_mode() is ours and not ours.on
    ours.__exit__(None, None, None)
    watch.flush(1)
    assert events == []
    watch.start()
    watch.stop()
    assert _get_current_dispatch_mode() is None


def test_beyond_a_number_operators_are_counted(places: Path, events: Events, script: Script, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(operators, "_MOST", 2)
    watch = operators.Watch(torch, _orders(places))
    a = torch.ones(2)
    for namespace in ("profiler", "prim", "aten", "aten", "aten", "aten"):
        watch.see(types.SimpleNamespace(namespace=namespace), (a,), a)
    watch.flush(1)
    watch.flush(2)
    ((_, what),) = events
    assert (len(what["operators"]), what["more"]) == (2, 2)
    watch.see(types.SimpleNamespace(namespace="aten"), (a,), a)
    watch.flush(3)
    assert (len(events[1][1]["operators"]), events[1][1]["more"]) == (1, 0)
    assert len(events[1][1]["operators"][0]) == 5, "its values are not asked for"


def test_collectives_are_noted_with_bytes_and_group(places: Path, events: Events, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    watch = operators.Watch(torch, _orders(places))

    class Box:
        def __init__(self, size: int | None) -> None:
            self.size = size

    def unbox(one: Box) -> Any:
        if one.size is None:
            raise RuntimeError
        return types.SimpleNamespace(size=lambda: one.size)

    monkeypatch.setattr(torch, "ScriptObject", Box)
    monkeypatch.setattr(torch.distributed.ProcessGroup, "unbox", unbox)
    a, b = torch.ones(3), torch.ones(2, dtype=torch.float64)
    for namespace in ("c10d", "_c10d_functional"):
        watch.see(types.SimpleNamespace(namespace=namespace, __name__="allreduce_"), ([[a], (b,)], Box(3), Box(None), Box(4), 5), a)  # fmt: skip
    watch.flush(1)
    ((_, what),) = events
    sent = {"name": "allreduce_", "bytes": 28, "group": 4, "place": None}
    assert what["collectives"] == [sent, sent] and len(what["operators"]) == 2
    assert watch._devices(([[a], b], torch.ones(()), a.to("meta"))) == ["cpu", "meta"]
    watch.see(types.SimpleNamespace(namespace="c10d", __name__="barrier"), (), None)
    watch.flush(2)
    assert events[1][1]["collectives"] == [{"name": "barrier", "bytes": 0, "group": None, "place": None}]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "result", "length"),
    [(((2, 3), (3, 4)), (2, 4), 3), (((6,),), (), 6), (((6,), (2,)), (6,), 1), ((), (2,), 1), (((2,),), None, 1), (((0,),), (0,), 1), (((4, 1, 3, 3), (2, 1, 8, 8)), (2, 4, 8, 8), 3), (((5,),), (2,), 2), (((2,), (8,), (8,)), (8,), 2), (((1,), (1,)), (2,), 1)],
)  # fmt: skip
def test_how_many_numbers_one_element_adds_up(places: Path, torch: Any, inputs: Any, result: Any, length: int) -> None:  # fmt: skip
    watch = operators.Watch(torch, _orders(places))
    given = [torch.zeros(shape) for shape in inputs]
    assert watch._length([*given, "word"], [] if result is None else [torch.zeros(result)]) == length  # fmt: skip


def test_a_value_is_the_sum_of_absolute_values(places: Path, torch: Any) -> None:
    value = operators.Watch(torch, _orders(places))._value
    assert value(torch.tensor([-1.5, 2.0])) == "3.5"
    assert value(torch.tensor([3 + 4j, -1])) == "6.0"
    assert value(torch.tensor([True, True])) == "2.0"
    assert value(torch.ones(2, device="meta")) is value(torch.ones(2).to_sparse()) is None


def test_the_project_s_frames(places: Path, torch: Any) -> None:
    watch = operators.Watch(torch, _orders(places))
    space: dict[str, Any] = {"watch": watch}

    def place() -> Any:
        return watch.place(), watch.below()

    space["place"] = place
    for name, text in (("/lib/l.py", "def lib():\n    return place()\n"), ("<string>", "def text():\n    return lib()\n"), (str(places / "copy/project/t.py"), "\ndef own():\n    return text()\n")):  # fmt: skip
        exec(compile(text, name, "exec"), space)
    # The frame that asks is one of the recorder's, which is left out.
    at, below = space["own"]()
    assert at == ["t.py", 3]
    assert [frame.f_code.co_name for frame in below] == ["lib", "text"]
    assert place() == (None, [])
    exec(compile("def text():\n    return lib()\n", str(places / "copy/project/<cell>"), "exec"), space)  # fmt: skip
    assert space["text"]()[0] == ["<cell>", 2]


# Training


@pytest.fixture
def recorded(places: Path, events: Events, torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:  # fmt: skip
    """Watches the training of this process with some orders, until the test ends."""
    from torch.optim import optimizer as optimizers

    for owner, name in ((torch.autograd, "_engine_run_backward"), (torch, "manual_seed"), (torch.random, "manual_seed"), (torch, "save"), (torch.distributed, "init_process_group"), (torch.amp.autocast_mode.autocast, "__enter__")):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))
    hooks = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    before = [dict(one) for one in hooks]
    monkeypatch.setattr(files, "_reported", set())
    made: list[Any] = []
    kind = training._Training
    monkeypatch.setattr(training, "_Training", lambda *given: made.append(kind(*given)) or made[-1])
    at_fork: list[Any] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **how: at_fork.append(how))

    def watch(**changes: Any) -> Any:
        orders = _orders(places, **changes)
        monkeypatch.setattr(files, "_orders", orders)
        training.watch(torch, orders)
        assert [list(one) for one in at_fork] == [["after_in_child"]]
        return made[-1]

    yield watch
    for one in made:
        one.operators.stop()
    for one, kept in zip(hooks, before, strict=True):
        one.clear()
        one.update(kept)


LOOP = """\
for _ in range(steps):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def _parts(torch: Any, **how: Any) -> dict[str, Any]:
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, **how)
    return {"torch": torch, "model": model, "x": torch.ones(1, 2), "optimizer": optimizer}


def _bits_of(*tensors: tuple[float, ...]) -> int:
    """The checksum of float32 tensors: words of 64 bits where they fill some, else of 32."""
    total = 0
    for one in tensors:
        data = struct.pack(f"<{len(one)}f", *one)
        words = struct.unpack(f"<{len(data) // 8}q", data) if len(data) % 8 == 0 else struct.unpack(f"<{len(one)}i", data)  # fmt: skip
        total += sum(words)
    return total % (1 << 63)


def test_each_step_is_noted(events: Events, script: Script, torch: Any, recorded: Any) -> None:
    gone = weakref.proxy(torch.nn.Linear(1, 1))  # of a program: whatever looks at it is an error
    found = recorded()
    script(LOOP, steps=2, **_parts(torch, momentum=0.25, nesterov=True))
    kinds = [event for event, _ in events]
    assert kinds == ["pass", "operators", "step", "operators", "step"], type(gone)
    loss = {"value": "2.0", "dtype": "float32", "device": "cpu", "place": ["t.py", 3]}
    assert events[0][1] == {"loss": loss}
    first, second = (what for event, what in events if event == "step")
    norm = {"norm": first["gradients"]["norm"], "bits": _bits_of((1.0, 1.0), (1.0,)), "count": 2, "kinds": {"float32 on cpu": 2}, "each": [[1.41421356, 1.41421356], [1.0, 1.0]]}  # fmt: skip
    after = 1 - 0.5 * 1.25
    squares = 2 * after**2 + 0.625**2
    assert first == {
        "step": 1, "optimizer": 0, "kind": "SGD", "rank": None, "rates": [0.5], "losses": [loss], "gradients": first["gradients"],
        "options": [{"momentum": 0.25, "dampening": 0, "weight_decay": 0, "nesterov": True, "maximize": False}],
        "parameters": {"norm": first["parameters"]["norm"], "bits": _bits_of((after, after), (-0.625,)), "count": 2, "kinds": {"float32 on cpu": 2}, "each": [[0.530330086, 0.530330086], [0.625, -0.625]]},
        "marks": [0, 0, 0], "place": ["t.py", 4], "loop": None, "names": {"weight": "float32 on cpu", "bias": "float32 on cpu"}, "without": [],
    }  # fmt: skip
    assert float(first["parameters"]["norm"]) == pytest.approx(squares**0.5)
    assert first["gradients"] == norm
    assert float(first["gradients"]["norm"]) == pytest.approx(3**0.5)
    assert "names" not in second and (second["step"], second["optimizer"]) == (2, 0)
    assert second["losses"] == [{**loss, "value": "0.125"}]
    assert (found.losses, found.gradients, found.behind, found.marks) == ([], None, [], [0, 0, 0])
    ran = [[op[0] for op in what["operators"]] for event, what in events if event == "operators"]
    assert "aten.addmm.default" in ran[0] and not any("vector_norm" in op for op in ran[0])


@pytest.mark.parametrize(
    ("window", "noted"), [((1, 2), [1, 2]), ((2, 2), [2]), ((3, 9), [3, 4]), ((0, 1), [1])]
)
def test_operators_are_noted_in_the_window(events: Events, script: Script, torch: Any, recorded: Any, window: tuple[int, int], noted: list[int]) -> None:  # fmt: skip
    recorded(window=window)
    script(LOOP, steps=4, **_parts(torch))
    assert [what["step"] for event, what in events if event == "operators"] == noted


def test_a_run_ends_behind_its_last_step(events: Events, script: Script, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded(steps=2)
    with pytest.raises(SystemExit) as ended:
        script(LOOP, steps=4, **_parts(torch))
    assert ended.value.code == 0
    assert events[-1] == ("stopped", {"step": 2})


def test_marks_are_counted_by_where_they_are(events: Events, script: Script, torch: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    totals: dict[str, int] = {}
    emulator = types.SimpleNamespace(is_loaded=lambda: True, load=lambda: types.SimpleNamespace(totals=lambda: totals))  # fmt: skip
    monkeypatch.setitem(sys.modules, "hpushim.emulator.device", emulator)
    recorded()

    def mark(count: int) -> None:
        totals["mark_steps"] = totals.get("mark_steps", 0) + count

    text = (
        "model(x).sum().backward()\nmark(1)\nmodel(x).sum().backward()\nmark(2)\noptimizer.step()\nmark(4)\n"
        * 2
    )
    script(text, mark=mark, **_parts(torch))
    assert [what["marks"] for event, what in events if event == "step"] == [[0, 1, 2], [4, 1, 2]]
    emulator.is_loaded = lambda: False
    script(text, mark=mark, **_parts(torch))
    assert [what["marks"] for event, what in events if event == "step"][2:] == [[0, 0, 0]] * 2


def test_a_loop_of_a_library_is_its_own(events: Events, torch: Any, recorded: Any, script: Script) -> None:  # fmt: skip
    recorded()
    parts = _parts(torch)
    text = f"def fit():\n{''.join('    ' + line + chr(10) for line in LOOP.splitlines())}"
    library = {**parts, "steps": 1}
    exec(compile(text, "/x/site-packages/lib/fit.py", "exec"), library)
    script("fit()", fit=library["fit"])
    script("def step():\n    optimizer.step()\nmodel(x).sum().backward()\nstep()", **parts)
    assert [what["loop"] for event, what in events if event == "step"] == ["lib/fit.py", None]


def test_several_optimizers_and_what_has_no_gradient(events: Events, script: Script, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded()
    parts = _parts(torch)
    parts["model"] = torch.nn.Sequential(parts["model"], torch.nn.Linear(1, 1))
    parts["other"] = torch.optim.SGD([{"params": [parts["model"][1].weight], "lr": 0.25}, {"params": [torch.ones(1, requires_grad=True)]}], lr=1.0)  # fmt: skip
    script("model[0](x).sum().backward()\noptimizer.step()\nother.step()\noptimizer.step()\n", **parts)  # fmt: skip
    first, second, third = (what for event, what in events if event == "step")
    assert [one["optimizer"] for one in (first, second, third)] == [0, 1, 0]
    assert first["names"] == {"0.weight": "float32 on cpu", "0.bias": "float32 on cpu"}
    assert second["names"] == {"1.weight": "float32 on cpu", "number 1": "float32 on cpu"}
    assert (second["without"], second["rates"]) == (["1.weight", ""], [0.25, 1.0])
    assert second["gradients"]["count"] == 0 and second["losses"] == third["losses"] == []
    assert [one["gradients"]["count"] for one in (first, third)] == [2, 2]


def test_a_closure_makes_the_gradients(events: Events, script: Script, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded()
    text = "def closure():\n    loss = model(x).sum()\n    loss.backward()\n    return loss\noptimizer.step(closure)\n"
    script(text, **_parts(torch))
    (step,) = (what for event, what in events if event == "step")
    assert step["gradients"]["count"] == 2 and len(step["losses"]) == 1


def test_what_backward_is_called_on(events: Events, script: Script, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded()
    parts = _parts(torch)
    text = "a = model(x).sum()\nb = model(x).sum() * 2\ntorch.autograd.backward([a, b])\nc = model(x).sum()\ntorch.autograd.grad(c, [model.weight])\noptimizer.step()\nmodel(x).sum().backward()"
    script(text, **parts)
    (step,) = (what for event, what in events if event == "step")
    assert [one["value"] for one in step["losses"]] == ["2.0", "4.0"]
    assert [event for event, _ in events].count("pass") == 2


def test_seeds_are_noted_before_they_are_set(events: Events, script: Script, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded()
    state = torch.get_rng_state()
    script("torch.manual_seed(3)\ntorch.random.manual_seed(seed=4)\ntorch.manual_seed(3)\n", torch=torch)  # fmt: skip
    assert torch.initial_seed() == 3
    torch.set_rng_state(state)
    assert events == [("seed", {"value": value, "place": ["t.py", line]}) for line, value in enumerate("343", 1)]  # fmt: skip


def test_a_checkpoint_is_noted_leaf_by_leaf(places: Path, events: Events, torch: Any, recorded: Any) -> None:  # fmt: skip
    recorded()
    tree, copy = places / "tree/project", places / "copy/project"
    (tree / "a.pt").write_text("the user's")
    (copy / "a.pt").symlink_to(tree / "a.pt")
    model = _parts(torch)["model"]
    deep: Any = 1
    for _ in range(9):
        deep = [deep]
    value = {"model": model, "best": 1.5, "list": [1, "x", True, None], "deep": deep, 3: (torch.ones(1, 2, dtype=torch.int32),)}  # fmt: skip
    torch.save(value, copy / "a.pt")
    assert (tree / "a.pt").read_text() == "the user's"
    ((event, what),) = events
    assert (event, what["file"], what["step"]) == ("saved", "a.pt", 0)
    weight, bias = what["leaves"].pop(".model.weight"), what["leaves"].pop(".model.bias")
    assert float(weight[0]) == pytest.approx(2**0.5)
    assert weight[1:] == [_bits_of((1.0, 1.0)), "torch.float32", [1, 2]]
    assert bias == ["0.0", 0, "torch.float32", [1]]
    assert what["leaves"] == {".best": [1.5], ".list.0": [1], ".list.1": ["x"], ".list.2": [True], ".3.0": ["0.0", 1 + (1 << 32), "torch.int32", [1, 2]]}  # fmt: skip
    files._orders = None
    torch.save(obj=1, f=copy / "b.pt")
    torch.save({"w": 2}, f=str(copy / "c.pt"))
    with (copy / "d.pt").open("wb") as file:
        torch.save([1], file)
    assert [(what["file"], what["leaves"]) for _, what in events[1:]] == [("b.pt", {"": [1]}), ("c.pt", {".w": [2]}), ("", {".0": [1]})]  # fmt: skip


def test_joining_a_process_group_is_told(events: Events, torch: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    joined: list[Any] = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *given, **how: joined.append((given, how)))  # fmt: skip
    recorded()
    torch.distributed.init_process_group("gloo", rank=1)
    assert events == [("alone", {"why": "joins a process group"})]
    assert joined == [(("gloo",), {"rank": 1})]


@pytest.mark.parametrize("exact", [True, False])
def test_without_autocast_where_it_is_asked(torch: Any, recorded: Any, exact: bool) -> None:
    recorded(float32=exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = torch.ones(2, 2) @ torch.ones(2, 2)
    assert made.dtype == (torch.float32 if exact else torch.bfloat16)


@pytest.mark.parametrize(("given", "rank"), [("3", 3), ("x", None), (None, None)])
@pytest.mark.parametrize("joined", [True, False])
def test_the_rank_of_a_step(torch: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch, given: str | None, rank: int | None, joined: bool) -> None:  # fmt: skip
    found = recorded()
    monkeypatch.delenv("RANK", raising=False)
    if given is not None:
        monkeypatch.setenv("RANK", given)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: joined)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 5)
    assert found._rank() == (5 if joined else rank)
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    assert found._rank() == rank


def test_checksums_of_what_is_no_plain_float(torch: Any, recorded: Any) -> None:
    found = recorded()
    norm = found._norm
    none = {"norm": "0.0", "bits": 0, "count": 0, "kinds": {}, "each": []}
    assert norm([None, torch.ones(1, device="meta")]) == none
    assert norm([torch.ones(0)]) == {**none, "count": 1, "kinds": {"float32 on cpu": 1}}
    whole = norm([torch.tensor([2, 3]), torch.tensor([1, 2, 3], dtype=torch.int8)])
    assert whole == {**none, "bits": 11, "count": 2, "kinds": {"int64 on cpu": 1, "int8 on cpu": 1}}
    mixed = norm([torch.tensor([3 + 4j])])
    assert (mixed["norm"], mixed["each"], mixed["kinds"]) == ("5.0", [[5.0, 0.0]], {"complex64 on cpu": 1})  # fmt: skip
    assert mixed["bits"] == _bits_of((3.0, 4.0))
    assert norm([torch.tensor([0.0, -0.0, 1.0])])["bits"] == _bits_of((0.0, 0.0, 1.0))
    assert norm([torch.tensor([-1.0, 0, 0])])["each"] == [[1.0, -0.577350269]]
    assert norm([torch.tensor([1.0, 2.0]).to_sparse()])["bits"] == _bits_of((1.0, 2.0))
    assert norm([torch.tensor([True])])["bits"] == 1
    assert norm([torch.tensor([1.0, 2.0], dtype=torch.float64)])["bits"] == sum(struct.unpack("<2q", struct.pack("<2d", 1, 2))) % (1 << 63)  # fmt: skip
    assert norm([torch.tensor([3 + 4j], dtype=torch.complex128)])["bits"] == sum(struct.unpack("<2q", struct.pack("<2d", 3, 4))) % (1 << 63)  # fmt: skip
    calls: list[Any] = []

    class Own(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    own = torch.ones(2).as_subclass(Own).requires_grad_()
    calls.clear()
    with found._aside():
        assert found._norm([own])["count"] == 1 and not own.abs().requires_grad
    assert calls == []
    assert norm([torch.tensor([1.0], dtype=torch.float16)])["bits"] == 0x3C00
    assert found._value(torch.tensor([3 + 4j]))["value"] == "5.0"
    assert found._value(torch.tensor([1.5, 1.0], dtype=torch.bfloat16)) == {"value": "2.5", "dtype": "bfloat16", "device": "cpu", "place": None}  # fmt: skip


def test_which_options_of_an_optimizer_count() -> None:
    group = {"params": [], "lr": 1, "fused": True, "foreach": True, "capturable": True, "differentiable": True, "betas": (0.9, 0.99), "eps": 1e-8, "name": "x", "none": None, "made": object(), "mixed": [1, object()]}  # fmt: skip
    assert training._options(group) == {"betas": (0.9, 0.99), "eps": 1e-8, "name": "x", "none": None}  # fmt: skip
