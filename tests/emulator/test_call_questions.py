"""Which calls the emulated device objects to: each question by what it is given, and how an objection is said."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from hpushim import callers, matrix
from hpushim.emulator import calls, device, objections, profiles

torch = pytest.importorskip("torch")


class OnHpu(torch.Tensor):  # type: ignore[misc]
    """A tensor that says it is there."""

    device = types.SimpleNamespace(type="hpu")


def _on_hpu() -> Any:
    return torch.ones(1).as_subclass(OnHpu)


def _module(there: bool) -> Any:
    module = torch.nn.Linear(1, 1)
    if there:
        module.parameters = lambda: iter([torch.ones(1), _on_hpu()])
    return module


@pytest.mark.parametrize("there", [True, False])
def test_what_is_on_hpu(there: bool) -> None:
    value = _on_hpu() if there else torch.ones(1)
    assert (
        calls._is_on_hpu(value)
        is calls._any_on_hpu(1, value)
        is calls._any_on_hpu(x=value)
        is there
    )
    assert (
        calls._is_on_hpu(_module(there)) is calls._module_on_hpu(None, _module(there), 1) is there
    )
    assert not calls._is_on_hpu("hpu") and not calls._any_on_hpu() and not calls._module_on_hpu(_module(True), None)  # fmt: skip
    assert (
        calls._script_on_hpu(None, [value], a=1)
        is calls._script_on_hpu(None, x={"k": value})
        is there
    )
    owner = types.SimpleNamespace(named_parameters=lambda: iter([("w", value), ("b", _on_hpu())]))
    script = types.SimpleNamespace(owner=owner)
    assert calls._script_on_hpu(script) is there
    assert not calls._script_on_hpu(script, torch.ones(1)), "what it is given decides"
    assert not calls._script_on_hpu(types.SimpleNamespace(owner=object()))
    assert not calls._script_on_hpu(object(), 1)


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [({}, "args"), ({"layout": torch.strided}, "args"), ({"layout": torch.jagged}, False), ({"device": "hpu"}, True), ({"device": torch.device("cpu")}, False), ({"device": None}, "args"), ({"device": "hpu", "layout": torch.jagged}, False)],
)  # fmt: skip
@pytest.mark.parametrize("there", [True, False])
def test_nested_tensors_of_strided_layout(kwargs: dict[str, Any], expected: Any, there: bool) -> None:  # fmt: skip
    given = [torch.ones(1), _on_hpu() if there else torch.ones(1)]
    assert calls._nests_on_hpu(given, **kwargs) is (there if expected == "args" else expected)


@pytest.mark.parametrize("backend", ["hccl", "gloo"])
def test_objects_that_go_over_hccl(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setattr(torch.distributed, "get_backend", lambda group: f"{group}{backend}")
    assert calls._sends_over_hccl([1], 0, "", None, 9) is (backend == "hccl")
    assert calls._sends_over_hccl([1], group="") is (backend == "hccl")
    assert calls._sends_over_hccl([1], device="hpu") is True
    assert calls._sends_over_hccl([1], 0, "", "cpu") is False


@pytest.mark.parametrize(
    ("args", "kwargs", "initialized", "default", "expected"),
    [
        (("hccl",), {}, False, "gloo", True), ((), {"backend": "cpu:gloo,hpu:hccl"}, True, "gloo", True), (("gloo",), {}, False, "hccl", False), ((), {}, False, "hccl", False), ((), {}, True, "hccl", True), (("gloo",), {}, True, "hccl", True),
        ((3, "nccl"), {}, True, "gloo", False), ((None,), {"backend": None}, True, "gloo", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("users", [True, False])
def test_groups_over_hccl(monkeypatch: pytest.MonkeyPatch, args: Any, kwargs: Any, initialized: bool, default: str, expected: bool, users: bool) -> None:  # fmt: skip
    dist = torch.distributed
    monkeypatch.setattr(dist, "is_initialized", lambda: initialized)
    monkeypatch.setattr(dist, "get_backend", lambda: default)
    outside: list[Any] = []
    monkeypatch.setattr(callers, "outside", lambda *names: outside.append(names) or ("train.loop" if users else "torch.distributed.x"))  # fmt: skip
    assert calls._over_hccl(*args, **kwargs) is expected
    for name in ("use_local_synchronization", "group_desc", "device_id"):
        assert bool(calls._special_group(*args, **kwargs, **{name: 1})) is (expected and users)
        assert not calls._special_group(*args, **kwargs, **{name: None})
    assert "hpushim" in outside[0] and "torch.distributed.distributed_c10d" in outside[0]
    assert bool(calls._binds_device(*args, **kwargs, device_id=0)) is (expected and users and not initialized)  # fmt: skip
    assert not calls._binds_device(*args, **kwargs) and not calls._binds_device(*args, **kwargs, device_id=None)  # fmt: skip


def test_a_question_is_asked_once_and_stays_on_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    objected: list[Any] = []
    monkeypatch.setattr(calls, "object_to", lambda *given: objected.append(given))
    monkeypatch.setattr(calls, "_functions", [])

    class Owner:
        def method(self, x: Any) -> Any:
            """Its text."""
            return ("done", x)

    calls._guard(Owner, "method", "a row", lambda self, x: x > 1)
    guarded = Owner.method
    calls._guard(Owner, "method", "a row", lambda self, x: True)
    assert Owner.method is guarded and guarded.__doc__ == "Its text."
    assert (Owner().method(1), Owner().method(x=2), objected) == (("done", 1), ("done", 2), [("a row", False)])  # fmt: skip
    calls._guard(Owner, "method", "another", lambda self, x: True, True)
    assert Owner().method(2) == ("done", 2)
    assert objected[1:] == [("another", True), ("a row", False)]
    assert vars(Owner.method)["__hpushim_asks__"] == {"a row", "another"}

    def function() -> str:
        return "plain"

    held, other, renamed = (
        types.ModuleType("torch.a"),
        types.ModuleType("mine"),
        types.ModuleType("torch.b"),
    )
    held.function = other.function = function  # type: ignore[attr-defined]
    renamed.function = len  # type: ignore[attr-defined]
    for module in (held, other, renamed):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    calls._guard(held, "function", "third", lambda: True)
    assert held.function is function, "put all at once"
    calls._put_functions()
    assert held.function is not function and other.function is function and renamed.function is len
    assert held.function() == "plain" and objected[-1] == ("third", False) and calls._functions == []  # fmt: skip


@pytest.mark.parametrize("policy", ["observe", "refuse"])
@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("limits", [[], ["first", "", "last"]])
def test_how_an_objection_is_said(monkeypatch: pytest.MonkeyPatch, policy: str, ignored: bool, limits: list[str]) -> None:  # fmt: skip
    row = types.SimpleNamespace(rule="HPU1", note="the note")
    profile = types.SimpleNamespace(gaudi="gaudi2", release="1.2", lazy=True, policy=policy)
    noted: list[Any] = []
    monkeypatch.setattr(calls, "_reported", set())
    monkeypatch.setattr(profiles, "current", lambda: profile)
    monkeypatch.setattr(matrix, "load", lambda: types.SimpleNamespace(row={"a.name": row}.get))
    assessed = [types.SimpleNamespace(status="unsupported", text=text) for text in limits]
    assessed.append(types.SimpleNamespace(status="supported", text="no limit"))
    monkeypatch.setattr(calls, "_assessed", lambda *given: noted.append(given) or types.SimpleNamespace(limits=assessed, status="unsupported"))  # fmt: skip
    monkeypatch.setattr(callers, "user_site", lambda: ("t.py", 4))
    monkeypatch.setattr(device, "load", lambda: types.SimpleNamespace(note=lambda *given: noted.append(given)))  # fmt: skip
    told: list[Any] = []
    monkeypatch.setattr(
        objections, "report", lambda *given, refused: told.append((*given, refused))
    )
    calls.object_to("unknown")
    assert noted == []
    text = f"a.name {'has no effect' if ignored else 'does not work'} on gaudi2: {'last' if limits else 'the note'}"
    for _ in range(2):
        if policy == "observe" or ignored:
            calls.object_to("a.name", ignored)
            continue
        with pytest.raises(NotImplementedError) as refused:
            calls.object_to("a.name", ignored)
        assert str(refused.value) == f"t.py:4: HPU1 {text} (emulated HPU; HPUSHIM_POLICY=observe goes on)"  # fmt: skip
    assert told == [("HPU1", "t.py:4", text, not ignored)] * (policy == "observe" or ignored)
    assert noted == [("a.name", "gaudi2", "1.2", True), ("unsupported", "a.name")] * 2
    assert calls.refuses("a.name") is True
    asks = calls._where_refused("a.name", lambda x: x)
    assert (asks(True), asks(False)) == (True, False)
    monkeypatch.setattr(
        calls, "_assessed", lambda *given: types.SimpleNamespace(status="supported")
    )
    assert not calls.refuses("a.name") and not asks(True)
