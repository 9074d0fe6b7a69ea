"""The ledger over a device that only answers: what it asks of it, when, and how its answers are written down."""

from __future__ import annotations

import json
import logging
import os
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hpushim.emulator import device, leaving, ledger, ledger_file, objections, profiles, steps


class Native:
    """The device's answers, and what was asked of it."""

    answers: ClassVar[dict[str, Any]] = {
        "totals": {"operators": 3, "compute_hpu": 2, "compute_elsewhere": 4, "autocast hpu bfloat16": 5},
        "recompilation_causes": ([("mm", 1, "a", "b", 2, [("size", "x", None, "3", "4")], 6, "t.py", 7)], 8),
        "sites": ([("t.py", 1, "sync", "item", 2, 3), ("", 4, "copy", "to", 5, 6)], 9),
        "fallback_operators": [("b", 1), ("a", 2)],
        "operator_calls": [("b", 1), ("a", 1), ("c", 2)],
        "first_compute_elsewhere": ["t.py", 1],
        "first_lines": [("t.py", 3, "demotion", "float64 as float32"), ("t.py", 4, "sync", "x"), ("<string>", 5, "demotion", "int64 as int32"), ("t.py", 6, "sync", "float64 x"), ("/a.py", 7, "demotion", "complex64 x")],
    }  # fmt: skip

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any) -> Any:
            self.asked.append((name, *given))
            return self.answers.get(name)

        return ask


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Native:
    made = Native()
    monkeypatch.setattr(device, "load", lambda: made)
    monkeypatch.setattr(device, "memory_stats", lambda: {"peak": 11, "now": 1})
    monkeypatch.setattr(leaving, "folder", lambda: None)
    monkeypatch.setattr(profiles, "current", lambda: types.SimpleNamespace(lazy=True))
    for name, value in (("_objections", {}), ("_process_groups", []), ("unhandled_cuda", []), ("_file", None), ("_first_rank", None), ("_started_in", 0), ("_began_at", "/began")):  # fmt: skip
        monkeypatch.setattr(ledger, name, value)
    for name in ("HPUSHIM_LOG", "HPUSHIM_LEDGER", "HPUSHIM_GAUDI", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return made


def test_a_snapshot_has_what_the_device_answers(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    now = types.SimpleNamespace(parameters={"hpu": 1}, data=lambda: ["a step"])
    monkeypatch.setattr(steps, "now", lambda: now)
    ledger.add_objection("HPU1", "t.py:1", "a", refused=True)
    ledger.unhandled_cuda.append({"name": "x"})
    ledger.add_process_group("hccl", "hpu", 2, 1)
    found = ledger.snapshot()
    assert found == {
        "schema_version": 1, "emulated": True, "gaudi": "gaudi2", "mode": "lazy", "operators": 3, "peak_bytes": 11, "compute_operators": {"hpu": 2, "cpu": 4},
        "fallback_operators": {"a": 2, "b": 1}, "operator_calls": {"c": 2, "a": 1, "b": 1},
        "recompilation_causes": [{"operator": "mm", "position": 1, "before": "a", "after": "b", "count": 2, "others": 6, "file": "/began/t.py", "line": 7, "differences": [{"kind": "size", "argument": "x", "dimension": None, "before": "3", "after": "4"}]}],
        "parameters": {"hpu": 1}, "steps": ["a step"], "graph_breaks": [], "first_compute_on_cpu": ["t.py", 1], "objections": [{"code": "HPU1", "text": "a", "site": "t.py:1"}],
        "demotion_lines": [{"file": "/began/t.py", "line": 3, "what": "float64 as float32"}, {"file": "<string>", "line": 5, "what": "int64 as int32"}, {"file": "/a.py", "line": 7, "what": "complex64 x"}],
        "autocast": [{"device": "hpu", "dtype": "bfloat16", "count": 5}], "process_groups": [{"backend": "hccl", "device": "hpu", "size": 2}], "unhandled_cuda": [{"name": "x"}],
        "sites": [{"file": "/began/t.py", "line": 1, "kind": "sync", "what": "item", "count": 2, "bytes": 3}, {"file": "", "line": 4, "kind": "copy", "what": "to", "count": 5, "bytes": 6}],
        "left_out": {"recompilation_causes": 8, "sites": 9},
    }  # fmt: skip
    assert list(found["operator_calls"]) == ["c", "a", "b"]
    assert list(found["fallback_operators"]) == ["a", "b"]
    monkeypatch.setitem(native.answers, "totals", {"compute_hpu": 2, "compute_elsewhere": -1})
    monkeypatch.setenv("HPUSHIM_GAUDI", "gaudi3")
    monkeypatch.setattr(profiles, "current", lambda: types.SimpleNamespace(lazy=False))
    found = ledger.snapshot()
    assert found["compute_operators"] == {"hpu": 2, "cpu": None}
    assert (found["gaudi"], found["mode"], found["autocast"]) == ("gaudi3", "eager", [])
    monkeypatch.setitem(native.answers, "totals", {"compute_hpu": 0, "compute_elsewhere": 0})
    assert ledger.snapshot()["compute_operators"] == {"hpu": 0, "cpu": 0}


def test_what_is_handed_on_to_the_device(native: Native) -> None:
    ledger.mark_step()
    ledger.mark_step(1)  # type: ignore[arg-type]
    ledger.add("x")
    ledger.add("y", 2.0)  # type: ignore[arg-type]
    ledger.note("sync", "item")
    assert native.asked == [("mark_step", False), ("mark_step", True), ("add", "x", 1), ("add", "y", 2), ("note", "sync", "item")]  # fmt: skip


def test_objections_are_kept_once_and_up_to_a_number(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(ledger, "_MOST_OBJECTIONS", 2)
    for code, line, refused in (("A", "1", True), ("A", "2", False), ("B", "3", False), ("C", "4", True)):  # fmt: skip
        ledger.add_objection(code, line, "t", refused=refused)
    assert ledger.refusals() == [("A", "t", "1")]
    assert ledger._objections == {("A", "t"): ("1", True), ("B", "t"): ("3", False)}
    ledger.unhandled_cuda.append({})
    ledger.add_process_group("hccl", "hpu", 2)
    ledger.reset()
    assert not ledger._objections and not ledger._process_groups and not ledger.unhandled_cuda
    assert native.asked[0] == ("reset_ledger",)


def test_demotions_of_floats_are_told_with_their_rule(native: Native) -> None:
    found = ledger.narrowed()
    assert [(text, line) for _, text, line in found] == [("float64 as float32", "/began/t.py:3"), ("complex64 x", "/a.py:7")]  # fmt: skip
    assert found[0][0].startswith("HPU") and native.asked == [("first_lines",)]


@pytest.mark.parametrize("log", ["", "sites", " Trace ", "quiet"])
@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
def test_how_a_ledger_is_opened(native: Native, monkeypatch: pytest.MonkeyPatch, log: str, file: bool, leaves: bool) -> None:  # fmt: skip
    said = native.asked
    monkeypatch.setenv("HPUSHIM_LOG", log)
    monkeypatch.setattr(ledger, "_file", Path("x") if file else None)
    monkeypatch.setattr(leaving, "folder", lambda: "f" if leaves else None)
    monkeypatch.setattr(leaving, "begin", lambda: said.append("begin"))
    monkeypatch.setattr(steps, "watch", lambda: said.append("steps"))
    monkeypatch.setattr(steps, "each_doubling", said.append)
    monkeypatch.setattr(ledger, "library_roots", lambda: ["roots"])
    monkeypatch.setattr(ledger, "_watch_autocast", lambda: said.append("autocast"))
    ledger.start()
    sites = file or log in ("sites", " Trace ")
    expected: list[Any] = [("record_graphs", True, True)]
    expected += [("watch_compute",), "steps"] * (file or leaves)
    expected += ["begin", ledger._leave_so_far] * leaves
    if sites:
        expected += [("set_library_roots", ["roots"]), ("record_sites", True, log == " Trace "), ("watch_compute",), "steps", "autocast"]  # fmt: skip
    assert said == expected
    assert (ledger._started_in, ledger._began_at) == (os.getpid(), str(Path.cwd()))
    ledger.start()
    assert said == expected, "once a process"


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("error", ["", "full"])
def test_how_a_ledger_ends(native: Native, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], leaves: bool, file: bool, error: str) -> None:  # fmt: skip
    left: list[Any] = []
    monkeypatch.setattr(ledger, "snapshot", lambda: {"a": 1})
    monkeypatch.setattr(leaving, "folder", lambda: "f" if leaves else None)
    monkeypatch.setattr(leaving, "leave", lambda *given, **how: left.append((*given, how)))
    path = tmp_path / "ledger.json"
    monkeypatch.setattr(ledger, "_file", path if file else None)
    monkeypatch.setattr(ledger, "_first_rank", 3)
    asked: list[Any] = []
    monkeypatch.setattr(ledger_file, "place", lambda *given: asked.append(given) or path)
    if error:

        def write(*given: Any) -> None:
            raise OSError(28, error)

        monkeypatch.setattr(ledger_file, "write", write)
    ledger.write_at_exit()  # another process has opened it
    assert native.asked == left == asked == []
    monkeypatch.setattr(ledger, "_started_in", os.getpid())
    ledger.write_at_exit()
    assert native.asked[0] == ("record_sites", False, False)
    assert left == [({"a": 1}, 3, ["t.py", 1], {})] * leaves
    assert asked == [(path, 3, True)] * file
    said = capsys.readouterr().err
    if file and error:
        assert said == f"hpushim: the ledger (emulated) could not be written to {path}: full; set HPUSHIM_LEDGER to a writable path\n"  # fmt: skip
    else:
        assert said == ""
        assert not file or json.loads(path.read_text()) == {"a": 1, "complete": True}
    monkeypatch.setitem(native.answers, "totals", {"operators": 0})
    monkeypatch.setattr(ledger_file, "place", lambda *given: asked.append(given))
    asked.clear()
    ledger.write_at_exit()
    assert asked == [(path, 3, False)] * file and capsys.readouterr().err == ""
    left.clear()
    ledger._leave_so_far()
    assert left == [({"a": 1}, 3, ["t.py", 1], {"unfinished": True})]


def test_the_file_is_taken_once(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Path] = []
    monkeypatch.setattr(ledger_file, "take", lambda path: taken.append(path) or path)
    ledger.take_file()
    assert taken == [] and ledger._file is None
    monkeypatch.setenv("HPUSHIM_LEDGER", "x.json")
    ledger.take_file()
    ledger.take_file()
    assert taken == [Path("x.json")] and ledger._file == Path("x.json")


def _distributed(**how: Any) -> Any:
    plain = {"is_available": True, "is_initialized": True, "get_rank": 4, "get_backend": "gloo", "get_world_size": 2}  # fmt: skip
    return types.SimpleNamespace(**{name: lambda value=value: value for name, value in (plain | how).items()})  # fmt: skip


def test_the_rank_of_a_process(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, rank in (("", None), ("x", None), ("5", 5)):
        monkeypatch.setenv("RANK", text)
        assert ledger._rank() == rank
    for how, rank in (({}, 4), ({"is_initialized": False}, 5), ({"is_available": False}, 5)):
        monkeypatch.setitem(sys.modules, "torch.distributed", _distributed(**how))
        assert ledger._rank() == rank
    ledger.add_process_group("hccl", "hpu", 2, 0)
    ledger.add_process_group("hccl", "hpu", 2, 1)
    assert ledger._rank() == 0


@pytest.mark.parametrize(
    ("known", "how", "noted"),
    [
        ([], {}, [("gloo", 2)]), (["gloo"], {}, []), (["hccl"], {}, [("gloo", 2)]), ([], {"get_backend": "hccl"}, []), (["hccl"], {"get_backend": "nccl"}, []), (["hccl"], {"get_backend": "undefined"}, []),
        ([], {"get_backend": "nccl"}, [("nccl", 2)]), ([], {"is_initialized": False}, []), ([], {"is_available": False}, []),
    ],
)  # fmt: skip
def test_groups_of_other_backends_are_noted_once(native: Native, monkeypatch: pytest.MonkeyPatch, known: list[str], how: dict[str, Any], noted: list[Any]) -> None:  # fmt: skip
    for one in known:
        ledger.add_process_group(one, "hpu", 8)
    ledger.note_present_groups()
    assert len(ledger._process_groups) == len(known)
    monkeypatch.setitem(sys.modules, "torch.distributed", _distributed(**how))
    ledger.note_present_groups()
    assert ledger._process_groups[len(known) :] == [{"backend": backend, "device": "cpu", "size": size} for backend, size in noted]  # fmt: skip


def test_graph_breaks_are_told_the_most_frequent_first(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    counted = {f"r{n}": n for n in range(60)} | {"long\n  " + "x" * 500: 100}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", types.SimpleNamespace(counters={"graph_break": counted}))  # type: ignore[arg-type]  # fmt: skip
    found = ledger._graph_breaks()
    assert found[0] == {"reason": "long " + "x" * 395, "count": 100}
    assert found[1:3] == [{"reason": "r59", "count": 59}, {"reason": "r58", "count": 58}]
    assert len(found) == 50


def test_files_of_libraries_are_not_the_user_s() -> None:
    torch = pytest.importorskip("torch")
    found = ledger.library_roots()
    standard = sysconfig.get_path("stdlib")
    assert f"{Path(torch.__file__).parent}/" == found[0]
    assert f"{Path(ledger.__file__).parent.parent}/" in found
    assert sys.modules["typing_extensions"].__file__ in found
    assert f"{standard}/json/" in found and f"{standard}/os.py" in found
    assert not any(root.rstrip("/").endswith("-packages") for root in found)


@pytest.mark.parametrize(("enabled", "name"), [(True, "autocast cpu bfloat16"), (False, "autocast cpu off")])  # fmt: skip
@pytest.mark.parametrize("compiles", [True, False])
def test_regions_of_autocast_are_counted(monkeypatch: pytest.MonkeyPatch, enabled: bool, name: str, compiles: bool) -> None:  # fmt: skip
    torch = pytest.importorskip("torch")
    kind = torch.amp.autocast_mode.autocast
    monkeypatch.setattr(kind, "__enter__", kind.__enter__)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiles)
    added: list[str] = []
    monkeypatch.setattr(ledger, "add", added.append)
    ledger._watch_autocast()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled) as region:
        assert torch.is_autocast_enabled("cpu") is enabled and region is not None
    assert added == [name] * (not compiles)


@pytest.mark.parametrize("verbosity", ["quiet", "normal"])
@pytest.mark.parametrize("speaker", [True, False])
@pytest.mark.parametrize("refused", [True, False])
def test_an_objection_is_kept_and_said_by_one_process(monkeypatch: pytest.MonkeyPatch, verbosity: str, speaker: bool, refused: bool) -> None:  # fmt: skip
    said: list[Any] = []
    monkeypatch.setattr(ledger, "_objections", {})
    monkeypatch.setattr(objections.messages, "verbosity", lambda: verbosity)
    monkeypatch.setattr(objections.messages, "reports_here", lambda: speaker)
    monkeypatch.setattr(objections.messages, "emit", lambda *given: said.append(given))
    objections.report("HPU1", "t.py:4", "a text", refused)
    assert ledger._objections == {("HPU1", "a text"): ("t.py:4", refused)}
    speaks = speaker and verbosity != "quiet"
    assert said == [(logging.WARNING, "HPU1 t.py:4: a text (emulated)")] * speaks


def test_what_torch_is_told_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from hpushim.emulator import calls, enabling, ending, hccl, refusals, sync_norm

    done: list[str] = []
    module = types.ModuleType("an_hpu")
    parts = {"load": device, "_seed_with_torch": enabling, "_fork_random_with_torch": enabling, "_set_autocast": enabling, "share_cpu_random": device, "_register_device_module": torch}  # fmt: skip
    for name, owner in parts.items():
        monkeypatch.setattr(owner, name, lambda *given, name=name: done.append(name))
    for owner, name in ((refusals, "install"), (calls, "install"), (hccl, "register"), (sync_norm, "register"), (ledger, "start"), (objections, "enforce"), (ending, "register")):  # fmt: skip
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"
        monkeypatch.setattr(owner, name, lambda label=label: done.append(label))
    monkeypatch.setattr(enabling, "_random_of_cpu", lambda: True)
    monkeypatch.setattr(enabling.importlib, "import_module", lambda name: module)
    monkeypatch.setattr(torch, "hpu", None, raising=False)
    monkeypatch.setattr(enabling, "_dressed", False)
    enabling.dress_torch()
    assert done == [
        "load", "refusals.install", "calls.install", "_seed_with_torch", "_fork_random_with_torch", "_set_autocast", "_register_device_module", "hccl.register", "sync_norm.register", "ledger.start", "objections.enforce", "share_cpu_random", "ending.register",
    ]  # fmt: skip
    assert vars(module)["_initialized"] is True
    enabling.dress_torch()
    assert len(done) == 13, "once a process"
