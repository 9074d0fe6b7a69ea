"""What ``import hpushim`` does by itself: the package's own file, run with a session, a waiter and an emulator that note what is asked."""

from __future__ import annotations

import gc
import runpy
import sys
import types
from typing import Any

import pytest

import hpushim
import hpushim.shim

OWN = "hpushim.shim.session", "hpushim.shim.imports.waiter", "hpushim.shim.unfinished"


class Noting:
    """Whatever is called is noted, with whether circles are collected, and answered with its name."""

    def __init__(self, asked: list[Any], **answers: Any) -> None:
        self.asked, self.answers = asked, answers

    def __getattr__(self, name: str) -> Any:
        def called(*args: Any) -> Any:
            self.asked.append((name, *args[:1], gc.isenabled()) if name == "activate" else (name, *args[:1]))  # fmt: skip
            return self.answers.get(name, name)

        return called


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch, self.asked = monkeypatch, []  # type: ignore[var-annotated]
        self.unfinished = Noting(self.asked, being_imported=False)
        session, waiter = Noting(self.asked, activate=True), Noting(self.asked)
        for name, module in zip(OWN, (types.SimpleNamespace(session=session), types.SimpleNamespace(waiter=waiter), self.unfinished), strict=True):  # fmt: skip
            monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
        monkeypatch.setattr(hpushim, "emulator", Noting(self.asked), raising=False)
        monkeypatch.setattr(hpushim.shim, "unfinished", self.unfinished, raising=False)

    def has(self, name: str, module: object) -> None:
        if module is None:
            self.patch.delitem(sys.modules, name, raising=False)
        else:
            self.patch.setitem(sys.modules, name, module)  # type: ignore[arg-type]

    def run(self, wanted: str | None) -> dict[str, Any]:
        if wanted is None:
            self.patch.delenv("HPUSHIM", raising=False)
        else:
            self.patch.setenv("HPUSHIM", wanted)
        found = runpy.run_path(str(hpushim.__file__))
        # What came with torch has been asked; from here on each test asks for itself.
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


WAITS = [("forget", "torch"), ("wait_for", "torch")]


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [(None, WAITS), ("", WAITS), ("off", []), (" OFF ", []), ("0", []), ("auto", WAITS), ("hpu", WAITS), ("emulate", [("offer_look_alike",), *WAITS]), ("Emulate", [("offer_look_alike",), *WAITS])],
)  # fmt: skip
def test_the_variable_decides_whether_torch_is_waited_for(world: World, wanted: str | None, asked: list[Any]) -> None:  # fmt: skip
    world.has("torch", None)
    world.run(wanted)
    assert world.asked == asked


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("vendor", [None, "there", "coming"])
def test_torch_that_is_there_is_patched_at_once(world: World, collects: bool, vendor: str | None) -> None:  # fmt: skip
    own = world.run("off")
    world.has("torch", types)
    package = types.ModuleType("v") if vendor else None
    world.has("habana_frameworks.torch", package)
    world.unfinished.answers["being_imported"] = vendor == "coming"
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        done = own["activate"]()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
    looked = [("being_imported", package)] if vendor else []
    assert done is (vendor != "coming")
    assert world.asked == [*looked, ("when_done", package) if vendor == "coming" else ("activate", False)]  # fmt: skip
    world.asked.clear()
    own["_torch_arrived"](None)
    assert len(world.asked) == 1 + len(looked)


def test_the_rest_is_the_session_s(world: World) -> None:
    own = world.run("off")
    assert [own[name]() for name in ("native", "status", "ledger")] == ["native", "status", "ledger"]  # fmt: skip
    world.asked.clear()
    assert own["deactivate"]() is None
    assert world.asked == [("forget", "torch"), ("deactivate",)]
    world.has(OWN[0], None)
    assert own["deactivate"]() is None
    assert world.asked[2:] == [("forget", "torch")]


@pytest.mark.parametrize(
    ("argv", "words", "left"),
    [
        (["-m", "check"], ["python", "-m", "OWN", "check"], True), (["-m"], ["python", "-m", "OWN"], True), (["-m"], ["python", "-mOWN"], True), (["-m"], ["python", "-BmOWN"], True), (["-m"], ["python", "-m", "OWN.cli"], True),
        (["-m"], ["python", "-m", "OWNs"], False), (["-m"], ["python", "-m", "other"], False), (["-m"], ["python", "-mother"], False), (["check"], ["python", "-m", "OWN"], False), ([], ["python", "-m", "OWN"], False), (["-m"], ["-m"], False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("safe", ["", "safe_path", "isolated"])
@pytest.mark.parametrize("by", ["runpy", ""])
def test_the_current_folder_is_left_under_m(world: World, argv: list[str], words: list[str], left: bool, safe: str, by: str) -> None:  # fmt: skip
    own = world.run("off")
    leave = own["_leave_current_folder"]
    within = leave.__globals__
    name = within["__name__"]
    # "-m": what is there while Python looks for the module.
    words = [word.replace("OWN", name) for word in words]
    flags = {"isolated": 0, "safe_path": False, **({safe: 1} if safe else {})}
    path = ["here", "lib"]
    within["_sys"] = types.SimpleNamespace(flags=types.SimpleNamespace(**flags), argv=argv, orig_argv=words, path=path, modules={by: 1})  # fmt: skip
    leave()
    leaves = left and not safe
    assert (path == ["lib"], within["_leaves_later"]) == (leaves and by == "runpy", leaves and by != "runpy")  # fmt: skip
    del within["_sys"].flags.safe_path  # as before Python 3.11
    if not safe and by:
        path[:] = ["here", "lib"]
        leave()
        assert (path == ["lib"]) is leaves
