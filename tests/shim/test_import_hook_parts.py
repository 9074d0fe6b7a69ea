"""The import hook with nothing imported: whom it lets find, what it takes, and what it names."""

from __future__ import annotations

import atexit
import importlib.machinery
import os
import sys
import types
import zipimport
from pathlib import Path
from typing import Any

import pytest

from hpushim.shim import policy
from hpushim.shim.run import compiling, import_hook, own

OURS = "`hpushim run` rewrites such comparisons, `hpushim migrate` does so for good"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is warned of; nothing was before."""
    found: list[Any] = []
    monkeypatch.setattr(import_hook, "_reported", set())
    monkeypatch.setattr(import_hook.log, "warn", lambda code, text, at: found.append((code, text, at)))  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("lines", "also"),
    [([3], ""), ([3, 5], " (also line 5)"), ([*range(1, 9)], " (also line 2, 3, 4, 5, 6, 7, 8)"), ([*range(1, 10)], " (also line 2, 3, 4, 5, 6, 7, 8 …)")],
)  # fmt: skip
@pytest.mark.parametrize("why", ["", "a reason"])
def test_a_file_that_compares_is_named_once(said: list[Any], monkeypatch: pytest.MonkeyPatch, lines: list[int], also: str, why: str) -> None:  # fmt: skip
    asked: list[str] = []
    monkeypatch.setattr(compiling, "compared_lines", lambda file: asked.append(file) or lines)
    for _ in range(2):
        import_hook._name("a.py", why)
    assert said == [("HPU107", f"compares a device with 'cuda', which is 'hpu' here{also}; {why or OURS}", ("a.py", lines[0]))]  # fmt: skip
    assert asked == ["a.py"]


def test_a_file_that_does_not_compare_is_not_named(said: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def compared(file: str) -> list[int]:
        if file == "gone.py":
            raise OSError
        return []

    monkeypatch.setattr(compiling, "compared_lines", compared)
    for file in ("gone.py", "plain.py"):
        import_hook._name(file, "")
    assert said == []


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("mine", "/p/a.py", "/p/a.py"), ("mine", "/p/a.so", None), ("mine", None, None), ("torch.x", "/p/a.py", None), ("mine", "/lib/site-packages/a.py", None),
    ],
)  # fmt: skip
def test_the_source_of_a_module_of_the_user_s(name: str, given: str | None, expected: str | None) -> None:  # fmt: skip
    module = types.ModuleType("mine")
    if given is not None:
        module.__file__ = given
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    assert import_hook._source_of(module) == expected
    assert import_hook._source_of(types.SimpleNamespace(__file__="/p/a.py")) is None
    del module.__spec__
    assert import_hook._source_of(module) == (given if given == "/p/a.py" else None)


@pytest.mark.parametrize("rewriting", [True, False])
def test_what_is_loaded_is_named_but_for_what_was_rewritten(said: list[Any], monkeypatch: pytest.MonkeyPatch, rewriting: bool) -> None:  # fmt: skip
    class Another:
        pass

    modules = {}
    for name in ("mine", "rewritten", "torch"):
        modules[name] = module = types.ModuleType(name)
        module.__file__, module.__loader__ = f"/p/{name}.py", Another()  # type: ignore[assignment]
    finder = import_hook._Finder()
    finder.rewriting = rewriting
    monkeypatch.setattr(sys, "meta_path", [object(), finder])
    monkeypatch.setattr(compiling, "is_rewritten", lambda file: file == "/p/rewritten.py")
    named: list[Any] = []
    monkeypatch.setattr(import_hook, "_name", lambda *given: named.append(given))
    monkeypatch.setattr(import_hook, "sys", types.SimpleNamespace(modules=modules, meta_path=sys.meta_path))  # fmt: skip
    import_hook.name_loaded()
    by = f"it was loaded by {Another.__qualname__} instead of Python's loader and cannot be rewritten: use `is_cuda`, or migrate the file"
    assert named == [("/p/mine.py", by if rewriting else "")]


@pytest.mark.parametrize("rewriting", [True, False])
def test_the_hook_is_there_once_and_goes(monkeypatch: pytest.MonkeyPatch, rewriting: bool) -> None:
    done: list[Any] = []
    other: Any = object()
    monkeypatch.setattr(sys, "meta_path", [other])
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(atexit, "register", lambda call: done.append(("register", call)))
    monkeypatch.setattr(atexit, "unregister", lambda call: done.append(("unregister", call)))
    monkeypatch.setattr(compiling, "install", lambda: done.append("install"))
    monkeypatch.setattr(compiling, "uninstall", lambda: done.append("uninstall"))
    assert not import_hook.is_inherited()
    import_hook.install(rewriting=rewriting)
    import_hook.install(rewriting=rewriting)
    finder, *others = sys.meta_path
    assert isinstance(finder, import_hook._Finder) and finder.rewriting is rewriting
    assert others == [other]
    assert import_hook.is_inherited() is rewriting
    assert done.count(("register", import_hook.name_loaded)) >= 1 and done.count("install") == 2 * rewriting  # fmt: skip
    done.clear()
    import_hook.uninstall(naming_only=True)
    assert sys.meta_path == ([finder, other] if rewriting else [other])
    gone: list[Any] = [("unregister", import_hook.name_loaded), "uninstall"]
    assert done == ([] if rewriting else gone)
    done.clear()
    import_hook.uninstall()
    assert sys.meta_path == [other] and done == gone


class Finds:
    """Finds what it is asked for, and notes it."""

    def __init__(self, spec: Any) -> None:
        self.spec, self.asked = spec, []  # type: list[Any], list[Any]

    def find_spec(self, *given: Any) -> Any:
        self.asked.append(given)
        return self.spec


def _spec(origin: str, located: bool = True, loader: Any = None) -> Any:
    return types.SimpleNamespace(origin=origin, has_location=located, loader=loader)


def test_the_others_find_and_what_is_the_user_s_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = import_hook._Finder()
    first, second, third = Finds(None), Finds(_spec("/p/a.py")), Finds(_spec("x"))
    monkeypatch.setattr(sys, "meta_path", [finder, object(), first, second, third])
    taken: list[Any] = []
    ours = {"a": True, "b": False}
    monkeypatch.setattr(finder, "_is_ours", lambda name, file: ours[name])
    monkeypatch.setattr(finder, "_take", taken.append)
    assert finder.find_spec("a", ["p"], "t") is second.spec
    assert first.asked == second.asked == [("a", ["p"], "t")] and third.asked == []
    assert finder.find_spec("b") is second.spec and taken == [second.spec]
    assert finder.find_spec("torch.cuda") is None and len(first.asked) == 2
    second.spec = _spec("/p/a.py", located=False)
    assert finder.find_spec("a") is second.spec and len(taken) == 1
    second.spec = third.spec = None
    assert finder.find_spec("a") is None


def test_what_is_imported_to_decide_loads_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = import_hook._Finder()
    other = Finds(_spec("/p/a.py"))
    monkeypatch.setattr(sys, "meta_path", [finder, other])
    inner: list[Any] = []
    taken: list[Any] = []

    def is_ours(name: str, file: str) -> bool:
        inner.append((finder.find_spec("b"), finder.find_spec(name)))
        raise KeyError

    monkeypatch.setattr(finder, "_is_ours", is_ours)
    monkeypatch.setattr(finder, "_take", taken.append)
    for _ in range(2):
        with pytest.raises(KeyError):
            finder.find_spec("a")
    assert inner == [(other.spec, other.spec)] * 2 and taken == []

    def find(*given: Any) -> Any:
        assert finder.find_spec("a") is None, "it is asked by one that it asks"
        assert finder.find_spec("c") is None
        return None

    monkeypatch.setattr(other, "find_spec", lambda name, *given: find() if name == "a" else None)
    assert finder.find_spec("a") is None


@pytest.mark.parametrize("rewriting", [True, False])
@pytest.mark.parametrize(
    ("own_file", "user", "compares", "expected"),
    [(True, True, False, (True, True)), (True, False, True, (False, False)), (False, True, True, (True, False)), (False, True, False, (False, False))],
)  # fmt: skip
def test_whose_file_it_is(monkeypatch: pytest.MonkeyPatch, rewriting: bool, own_file: bool, user: bool, compares: bool, expected: tuple[bool, bool]) -> None:  # fmt: skip
    finder = import_hook._Finder()
    finder.rewriting = rewriting
    asked: list[Any] = []
    monkeypatch.setattr(own, "is_own_file", lambda path: own_file)
    monkeypatch.setattr(policy, "is_users", lambda name, silently: asked.append((name, silently)) or user)  # fmt: skip
    monkeypatch.setattr(policy, "compares_devices", lambda name: asked.append(name) or compares)
    assert finder._is_ours("pkg.sub", "/p/a.py") is expected[not rewriting]
    assert asked == ([("pkg", True)] if own_file else ["pkg"] * rewriting)


def test_what_is_taken_gets_a_loader_that_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    import zipfile

    finder = import_hook._Finder()
    named: list[Any] = []
    monkeypatch.setattr(finder, "_name", named.append)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("pkg/m.py", "")
    source = importlib.machinery.SourceFileLoader("m", "/p/m.py")

    class Kind(importlib.machinery.SourceFileLoader):
        pass

    archive = zipimport.zipimporter(f"{tmp_path}/a.zip/pkg")
    for rewriting in (False, True):
        finder.rewriting = rewriting
        specs = [_spec("o", loader=loader) for loader in (source, archive, Kind("m", "/p/m.py"))]
        for spec in specs:
            finder._take(spec)
        kinds = [type(spec.loader) for spec in specs]
        assert kinds == ([compiling.Loader, compiling.Archive, Kind] if rewriting else [type(source), type(archive), Kind])  # fmt: skip
        assert named == (specs[2:] if rewriting else specs)
        named.clear()
    assert (specs[0].loader.name, specs[0].loader.path) == ("m", "/p/m.py")
    assert (specs[1].loader.archive, specs[1].loader.prefix) == (f"{tmp_path}/a.zip", "pkg/")


@pytest.mark.parametrize(
    ("name", "data", "rewriting", "kind"),
    [
        ("a.py", b"cuda", True, "by another"), ("a.py", b"cuda", False, ""), ("gone.py", b"x CUDA", True, "no source"), ("gone.py", b"x", True, None), ("a.pyc", b"cuda", True, "no source"), ("a.pyc", b"x", True, None),
        ("a.so", b"cuda", True, None), ("a.pyc", OSError(), True, None), ("a.pyc", None, True, None), ("a.pyc", b"cuda", False, ""),
    ],
)  # fmt: skip
def test_how_it_is_named_that_a_file_is_not_rewritten(said: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: Any, rewriting: bool, kind: str | None) -> None:  # fmt: skip
    class Other:
        def get_data(self, path: str) -> bytes:
            if isinstance(data, Exception):
                raise data
            return data  # type: ignore[no-any-return]

    loader = object() if data is None else Other()
    (tmp_path / "a.py").touch()
    finder = import_hook._Finder()
    finder.rewriting = rewriting
    named: list[Any] = []
    monkeypatch.setattr(import_hook, "_name", lambda *given: named.append(given))
    path = str(tmp_path / name)
    finder._name(_spec(path, loader=loader))
    assert named == {"by another": [(path, import_hook._by_another(loader))], "": [(path, "")]}.get("none" if kind is None else kind, [])  # fmt: skip
    lacks = "is loaded without its source file: comparisons with 'cuda' in it, if any, are not rewritten"
    assert said == [("HPU107", lacks, (path, 0))] * (kind == "no source")
