"""The mechanisms on objects of their own: code exchange, attributes, constructors, waiting for a module."""

from __future__ import annotations

import importlib.util
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


TAKING = {
    "a, b=2, *, c=3": ["1", "1, 5", "1, c=4", "1, b=5", "b=2, a=1", "1, 2, c=3", "1, 7, c=8"],
    "a, /, b=2": ["1", "1, 4", "1, b=4"],
    "a=1, /, b=2": ["", "5", "5, 6", "b=3"],
    "a, b=2, *rest": ["1", "1, 2", "1, 2, 3, 4"],
    "a=0, *rest, c=1, **more": ["", "1, 2", "c=5, d=6", "1, 2, c=1, d=4"],
    "*rest, **more": ["", "1, 2, d=3"],
    "a, *, b, c=None": ["1, b=2", "1, b=2, c=[]", "b=3, a=2"],
    "self, params, lr=0.1, betas=(0.9, 0.99), *, fused=None, __class__=0": ["1, 2", "1, 2, 3, fused=True"],
    "**more": ["", "a=1"],
    "": [""],
}  # fmt: skip
FORMS = {
    "a function": "def made({0}): return sorted(locals().items())",
    "with a free variable": "def outer(n):\n def made({0}): return n, sorted((k, v) for k, v in locals().items() if k != 'n')\n return made\nmade = outer(3)",
    "with a parameter that a function inside keeps": "def made({0}):\n before = sorted(locals().items())\n def inner(): return {1}\n return before, inner()",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("taking", TAKING)
def test_a_function_keeps_its_parameters(taking: str, form: str) -> None:
    """For those who ask and for those who call; what is not given does not reach the replacement."""
    module = types.ModuleType("sample")
    first = taking.partition("=")[0].partition(",")[0].strip("*")
    exec(FORMS[form].format(taking, first or "None"), module.__dict__)
    made, code, seen = module.made, module.made.__code__, []
    calls = [f"made({one})" for one in TAKING[taking]]
    expected = [eval(one, vars(module)) for one in calls]

    def asked() -> list[Any]:
        code = made.__code__
        taken = code.co_argcount + code.co_kwonlyargcount
        told = [inspect.signature(made), inspect.getfullargspec(made), vars(made).copy()]
        return [*told, code.co_varnames[:taken], code.co_argcount, code.co_posonlyargcount]

    def replacement(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return original(*args, **kwargs)

    looks = asked()
    undo = in_place.apply(make_patch("made", "function", replacement), module)
    assert made.__code__ is not code and asked() == looks
    assert [eval(one, vars(module)) for one in calls] == expected and len(seen) == len(calls)
    named = [(name, value) for kwargs in seen for name, value in kwargs.items()]
    assert not any(value is (made.__kwdefaults__ or {}).get(name, MISSING) for name, value in named)
    if "rest" not in taking:
        with pytest.raises(TypeError, match=r"made\(\) takes"):
            made(*range(9))
    assert undo() and made.__code__ is code


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


def test_templates_are_kept_for_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(in_place, "_made", {})
    shapes: list[in_place._Shape] = [((), 2, 1, 1, 1, 0), (("a", "b"), 0, 0, 0, 0, 12)]
    try:
        in_place._found.cache_clear()
        made = [in_place._template(shape) for shape in shapes]
        in_place.keep_templates()
        assert not in_place._made
        in_place._found.cache_clear()
        monkeypatch.delattr(in_place, "_compiled")
        assert [in_place._template(shape) for shape in shapes] == made
        monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", b"another interpreter")
        in_place._found.cache_clear()
        assert in_place._found() == {}
    finally:
        in_place._found.cache_clear()
