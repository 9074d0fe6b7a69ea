"""The mechanisms on objects of their own: code exchange, attributes, constructors, waiting for a module."""

from __future__ import annotations

import importlib
import inspect
import struct
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpushim.shim.imports.waiter import Waiter
from hpushim.shim.mechanisms import constructor, in_place
from hpushim.shim.patch import MISSING, Patch, patch


def make_patch(path: str, how: Any, replacement: Callable[..., Any], **more: Any) -> Patch:
    return Patch("sample", path, how, "sample.row", "exact", replacement, **more)


SOURCE = """
import functools
LIMIT = 3
def plain(a, b=2, *, c=3):
    "Adds."
    return a + b + c
def closing(n):
    def inner(x=1):
        return x + n
    return inner
adds_five = closing(5)
@functools.lru_cache
def cached(x):
    return x * 2
class Base:
    def greet(self, who="you"):
        return f"base {who}"
    def __init__(self, n=1):
        self.n = n
class Child(Base):
    def greet(self, who="you"):
        return "child " + super().greet(who)
    @staticmethod
    def still(x):
        return x
    @classmethod
    def made(cls, n):
        return cls(n)
    @property
    def double(self):
        return 2 * self.n
    def steps(self):
        yield from range(self.n)
"""


@pytest.fixture
def sample() -> types.ModuleType:
    module = types.ModuleType("sample")
    exec(SOURCE, module.__dict__)
    return module


def snapshot(module: types.ModuleType) -> dict[str, Any]:
    """Every object that a patch could change, by identity."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        found[name] = value
        if isinstance(value, types.FunctionType):
            found |= {f"{name}.code": value.__code__, f"{name}.dict": dict(value.__dict__)}
        if isinstance(value, type):
            for attribute, member in vars(value).items():
                if attribute in ("__dict__", "__weakref__"):
                    continue
                found[f"{name}.{attribute}"] = member
                inner = getattr(member, "__func__", member)
                if isinstance(inner, types.FunctionType):
                    found[f"{name}.{attribute}.code"] = inner.__code__
    return found


CASES = {
    "plain": lambda m: m.plain(1),
    "adds_five": lambda m: m.adds_five(),
    "cached": lambda m: m.cached(4),
    "Base.greet": lambda m: m.Child().greet("x"),
    "Base.__init__": lambda m: m.Child(7).n,
    "Child.greet": lambda m: m.Child().greet(),
    "Child.still": lambda m: m.Child.still(3),
    "Child.made": lambda m: m.Child.made(3).n,
    "Child.steps": lambda m: list(m.Child(3).steps()),
}


@pytest.mark.parametrize("path", list(CASES))
def test_patch_reaches_and_returns(sample: types.ModuleType, path: str) -> None:
    call = CASES[path]
    before, expected = snapshot(sample), call(sample)
    seen: list[int] = []

    def replacement(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        seen.append(len(args))
        return original(*args, **kwargs)

    undo = in_place.apply(make_patch(path, "function", replacement), sample)
    assert call(sample) == expected and seen
    assert undo()
    seen.clear()
    assert call(sample) == expected and not seen
    assert snapshot(sample) == before


def test_exchange_is_seen_by_every_holder(sample: types.ModuleType) -> None:
    held = sample.plain
    undo = in_place.apply(make_patch("plain", "function", lambda original, *a, **k: "mine"), sample)
    assert held(1) == "mine" and held is sample.plain
    assert str(inspect.signature(held)) == "(a, b=2, *, c=3)"
    assert undo() and held(1) == 6


def test_getter_and_value(sample: types.ModuleType) -> None:
    before = snapshot(sample)
    undos = [
        in_place.apply(
            make_patch("Child.double", "getter", lambda original, self: original(self) + 1), sample
        ),
        in_place.apply(make_patch("LIMIT", "value", lambda current: current + 10), sample),
        in_place.apply(make_patch("absent", "value", lambda current: current is MISSING), sample),
    ]
    assert sample.Child(4).double == 9 and sample.LIMIT == 13 and sample.absent is True
    assert all(undo() for undo in reversed(undos))
    assert snapshot(sample) == before


def test_foreign_change_is_left_alone(sample: types.ModuleType) -> None:
    undo = in_place.apply(make_patch("LIMIT", "value", lambda current: 5), sample)
    sample.LIMIT = 99
    assert not undo() and sample.LIMIT == 99


def test_missing_target(sample: types.ModuleType) -> None:
    for path, how in (
        ("nothing", "function"),
        ("Nobody.greet", "function"),
        ("Child.nil", "getter"),
    ):
        with pytest.raises(in_place.MissingTarget):
            in_place.apply(make_patch(path, how, lambda original: None), sample)


def test_note_is_said_once(sample: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from hpushim.shim import log

    log.forget()
    told = make_patch("plain", "function", lambda o, *a: o(*a), code="HPU902", note="close enough")
    undo = in_place.apply(told, sample)
    sample.plain(1), sample.plain(2)
    undo()
    found = [row for row in log.fired() if row["code"] == "HPU902"]
    assert [row["count"] for row in found] == [2]
    assert found[0]["site"].rpartition(":")[0] == __file__


def test_constructor_hook_keeps_the_type() -> None:
    held = struct.Struct
    undo = constructor.hook(
        struct.Struct, lambda original, cls, fmt, *a: original(cls, fmt.replace("x", "i"), *a)
    )
    try:
        assert isinstance(held("x"), held)
        with pytest.raises(struct.error):
            held("bogus")
    finally:
        assert undo()
    assert struct.Struct("i").size == 4


def test_constructor_hook_refuses_python_classes() -> None:
    class Own:
        def __new__(cls) -> Any:
            return object.__new__(cls)

    with pytest.raises(in_place.HookUnavailable):
        constructor.hook(Own, lambda original, cls: original(cls))


def test_stand_in_keeps_isinstance() -> None:
    module = types.ModuleType("m")
    module.Struct = struct.Struct  # type: ignore[attr-defined]
    undo = constructor.stand_in(module, "Struct", lambda original, cls, fmt: original(cls, "q"))
    made = module.Struct("i")
    assert (
        made.size == 8
        and isinstance(made, module.Struct)
        and issubclass(struct.Struct, module.Struct)
    )
    assert undo() and module.Struct is struct.Struct


def test_waiter_calls_after_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "awaited_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    waiter, seen = Waiter(), []
    before = list(sys.meta_path)
    waiter.wait_for("awaited_module", lambda module: seen.append(module.value))
    module = importlib.import_module("awaited_module")
    assert seen == [1] and sys.meta_path == before
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__
    del sys.modules["awaited_module"]


def test_patch_needs_a_module() -> None:
    with pytest.raises(ValueError, match="expected 'module:attribute'"):
        patch("nonsense", level="exact")(lambda original: None)


@given(st.lists(st.sampled_from(sorted(CASES))))
def test_any_stack_of_patches_comes_off(choices: list[str]) -> None:
    module = types.ModuleType("sample")
    exec(SOURCE, module.__dict__)
    before = snapshot(module)
    undos = []
    for path in choices:
        replacement = lambda original, *a, **k: original(*a, **k)  # noqa: E731
        undos.append(in_place.apply(make_patch(path, "function", replacement), module))
        CASES[path](module)
    for undo in reversed(undos):
        assert undo()
    assert snapshot(module) == before
