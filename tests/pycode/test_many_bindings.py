"""A name with thousands of bindings: questions that are put at each place do not go through all of them."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from hpushim.pycode.source import Source
from hpushim.pycode.values import Values


class _Closed(list[Any]):
    """Bindings of which only the first may be looked at."""

    def __iter__(self) -> Any:
        raise AssertionError("goes through all bindings")


@pytest.mark.parametrize("head", ["", "x = 0\n", "def x(): pass\n"])
def test_what_is_asked_of_each_use_is_not_asked_of_each_binding(
    head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(head + "x = x.cuda()\n" * 3)
    use = source.index.names("x")[-1]
    bindings = source.bindings(use)
    calls = source.view(Values).calls
    monkeypatch.setattr(source, "bindings", lambda _name: _Closed(bindings))
    assert calls.class_named(use) is None
    assert not calls.is_self(use)


def test_a_class_and_self_are_still_known() -> None:
    source = Source("class C:\n  def f(self, x):\n    self = self\n    x = C\n    C('C')\nC = C\n")
    calls = source.view(Values).calls
    owner = source.index.statements(ast.ClassDef)[0]
    (call,) = source.index.calls("C")
    assert calls.class_named(call.func) is owner
    assert calls.class_named(call.args[0]) is owner
    assert [calls.is_self(name) for name in source.index.names("self")] == [True, True]
    assert not any(calls.is_self(name) for name in source.index.names("x"))
