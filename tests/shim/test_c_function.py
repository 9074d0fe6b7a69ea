"""Functions, methods and getters written in C do something else and stay the same objects."""

from __future__ import annotations

import datetime
import inspect
import math
import operator
import pickle
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from hpushim.shim.mechanisms import c_function, thunks
from hpushim.shim.mechanisms.in_place import HookUnavailable

try:
    thunks.check()
except HookUnavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)


def telling(seen: list[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A replacement that writes its arguments down and does what the original does."""

    def replacement(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen[len(seen) :] = [(args, kwargs)]  # no call of a method that may be the target
            return original(*args, **kwargs)

        return call

    return replacement


# One for each way in which C functions take arguments: one, none, any, any with keywords, a static one.
FUNCTIONS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (math.floor, (2.5,), {}),
    (sys.getrecursionlimit, (), {}),
    (math.hypot, (3.0, 4.0), {}),
    (sorted, ([2, 1],), {"reverse": True}),
    (print, ("",), {"end": ""}),
    (str.maketrans, ("a", "b"), {}),
    (getattr, (1, "real"), {}),
]
METHODS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (str.upper, ("a",), {}),
    (list.append, ([], 1), {}),
    (str.split, ("a b",), {"maxsplit": 0}),
    (str.startswith, ("ab", "a"), {}),
    (datetime.date.replace, (datetime.date(2000, 1, 1),), {"year": 2001}),
]


def _name(value: Any) -> str:
    """The text of a case's part, without addresses: workers of pytest compare the names of their tests."""
    return getattr(value, "__qualname__", str(value))


@pytest.mark.parametrize(("target", "args", "kwargs"), [*FUNCTIONS, *METHODS], ids=_name)
def test_called_in_every_way(target: Any, args: Any, kwargs: Any) -> None:
    before = (hash(target), repr(target), target.__doc__, target.__name__)
    table, pickled, seen = {target: 1}, pickle.dumps(target), []  # type: ignore[var-annotated]
    undo = c_function.exchange(target, telling(seen))
    try:
        told = [target(*args, **kwargs), _many(target, args, kwargs)]
        assert (hash(target), repr(target), target.__doc__, target.__name__) == before
        assert table[target] == 1 and pickle.dumps(target) == pickled
        count = len(seen)
        assert c_function.is_exchanged(target)
    finally:
        assert undo()
    assert count == 101 and all(one == (args, kwargs) for one in seen), seen[:3]
    assert target(*args, **kwargs) == told[0]
    assert len(seen) == count and not c_function.is_exchanged(target) and not undo()


def _many(target: Any, args: Any, kwargs: Any) -> Any:
    # As often as makes the interpreter choose a way of its own for this very call.
    if not kwargs and len(args) == 1:
        one = args[0]
        return [target(one) for _ in range(100)]
    return [target(*args, **kwargs) for _ in range(100)]


def test_methods_called_on_their_object_and_bound() -> None:
    seen: list[Any] = []
    text = "a b"
    undo = c_function.exchange(str.split, telling(seen))
    try:
        bound = text.split
        told = [
            text.split(),
            bound(),
            bound(None, maxsplit=1),
            operator.methodcaller("split")(text),
        ]
        told += list(map(str.split, [text]))
    finally:
        assert undo()
    assert told == [["a", "b"]] * 5 and len(seen) == 5
    assert bound() == ["a", "b"]  # a method that was bound meanwhile outlives it


def test_errors_arrive() -> None:
    def refuse(original: Any) -> Any:
        def call(*args: Any) -> Any:
            raise KeyError("mine")

        return call

    for target, use in (
        (math.floor, lambda: math.floor(1.5)),
        (str.upper, lambda: "a".upper()),  # noqa: PLW0108
        (str.upper, lambda: getattr("a", "upper")()),  # noqa: B009, PLW0108
    ):
        undo = c_function.exchange(target, refuse)  # type: ignore[arg-type]
        try:
            with pytest.raises(KeyError, match="mine"):
                use()
        finally:
            assert undo()


def test_getter() -> None:
    descriptor: Any = vars(types.FunctionType)["__code__"]

    def inner() -> Any:
        return descriptor

    undo = c_function.exchange(descriptor, lambda original: lambda self: ("mine", original(self)))
    try:
        answer = inner.__code__
        assert vars(types.FunctionType)["__code__"] is descriptor
    finally:
        assert undo()
    assert answer == ("mine", inner.__code__) and not undo()  # type: ignore[comparison-overlap]


def test_a_later_change_of_the_same_function_is_undone_in_order() -> None:
    first, second = [], []  # type: ignore[var-annotated]
    undo_first = c_function.exchange(math.ceil, telling(first))
    undo_second = c_function.exchange(math.ceil, telling(second))
    assert math.ceil(0.5) == 1 and len(first) == len(second) == 1
    assert not undo_first()
    assert undo_second() and math.ceil(0.5) == 1
    assert (len(first), len(second)) == (2, 1)
    assert undo_first() and math.ceil(0.5) == 1 and len(first) == 2


def test_exchanged_while_other_threads_call() -> None:
    stop, wrong = threading.Event(), []

    def call() -> None:
        while not stop.is_set():
            if math.gcd(12, 18) != 6 or "x".upper() != "X":
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        undos = [c_function.exchange(one, telling([])) for one in (math.gcd, str.upper)]  # type: ignore[arg-type]
        assert all(undo() for undo in undos)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_signature_stays() -> None:
    undo = c_function.exchange(sorted, telling([]))
    try:
        assert str(inspect.signature(sorted)) == "(iterable, /, *, key=None, reverse=False)"
    finally:
        assert undo()


def test_another_processor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thunks.platform, "machine", lambda: "aarch64")
    with pytest.raises(HookUnavailable, match="aarch64"):
        thunks.check()


def test_calls_that_need_no_python_are_those_described() -> None:
    class Own(bytes):
        pass

    seen: list[Any] = []

    def replacement(original: Callable[..., Any]) -> Callable[..., Any]:
        call = telling(seen)(original)
        call.__hpushim_straight__ = c_function.Straight(bytes, bytes.__basicsize__ - 1, ord("c"))  # type: ignore[attr-defined]
        return call

    text, find = b"abc", bytes.find
    undo = c_function.exchange(find, replacement)  # type: ignore[arg-type]
    try:
        for _ in range(300):  # past the point where the interpreter chooses its ways
            assert (text.find(b"b"), find(text, b"a")) == (1, 0)
        assert not seen
        for call in (text.find, lambda *given: find(text, *given)):
            for given in ((b"c",), (Own(b"b"),), (98,), (b"b", 0), (b"b", 0, 3)):
                del seen[:]
                assert call(*given) == (2 if given == (b"c",) else 1)  # type: ignore[operator]
                assert seen == [((text, *given), {})]
        for wrong in (text.find, lambda: text.find(b"b", more=1), lambda: find(b"b")):  # type: ignore[call-overload, call-arg]
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(TypeError):
            find(1, b"b")  # type: ignore[arg-type]
        inner = c_function.exchange(find, telling(seen))  # type: ignore[arg-type]
        del seen[:]
        assert find(text, b"b") == 1 and len(seen) == 2
        assert inner()
        assert find(text, b"b") == 1 and len(seen) == 2
    finally:
        assert undo()
    del seen[:]
    assert text.find(b"c") == 2 and not seen
