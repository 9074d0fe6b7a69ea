"""What a name of torch.cuda answers by its row, and what the questions about autocast ask of torch: over functions and rows made here."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from hpushim import matrix
from hpushim.errors import UnsupportedOnHpu
from hpushim.shim import cuda_names, log
from hpushim.shim.patches import amp

_Row = types.SimpleNamespace


def _original(a: Any = None, b: Any = None, device: Any = None, **more: Any) -> tuple[Any, ...]:
    return "own", a, b, device, more


@contextlib.contextmanager
def _region() -> Any:
    yield "never"


def _answer(patch: pytest.MonkeyPatch, row: Any, original: Callable[..., Any] = _original) -> tuple[Callable[..., Any], list[Any]]:  # fmt: skip
    said: list[Any] = []
    patch.setattr(matrix, "load", lambda: _Row(row={"torch.cuda.x": row}.get, unwitnessed=lambda row: row.unseen))  # fmt: skip
    for level in ("warn", "note"):
        patch.setattr(log, level, lambda *what, level=level: said.append((level, *what)))
    patch.setattr(log, "unhandled", lambda name: said.append(("unhandled", name)))
    patch.setattr(cuda_names, "_resolve", {"torch.hpu.x": lambda *args, **kwargs: (args, kwargs)}.get)  # fmt: skip
    return cuda_names._Answer("torch.cuda.x", "torch.cuda", original).callable(), said


def _row(runtime: str, *, warn: bool = False, rule: str = "", value: str = "", target: str = "torch.hpu.x", args: Any = (), unseen: Any = ()) -> Any:  # fmt: skip
    return _Row(runtime=runtime, warn=warn, rule=rule, note="so it is", value=value, target=target, args=args, unseen=unseen)  # fmt: skip


ANSWERS: list[tuple[Any, Any]] = [
    (_row("alias"), ((1, 2), {"k": 3})),
    (_row("noop"), None),
    (_row("constant", value="(4, 'x')"), (4, "x")),
    (_row("constant", value="False"), False),
    (_row("none"), ("own", 1, 2, None, {"k": 3})),
    (None, ("own", 1, 2, None, {"k": 3})),
]


@pytest.mark.parametrize(("row", "result"), ANSWERS, ids=lambda one: getattr(one, "runtime", None))
@pytest.mark.parametrize("warn", [False, True])
@pytest.mark.parametrize("rule", ["", "HPU123"])
def test_each_row_s_result_is_handed_back_and_warned_of(monkeypatch: pytest.MonkeyPatch, row: Any, result: Any, warn: bool, rule: str) -> None:  # fmt: skip
    if row is not None:
        row = _Row(**{**vars(row), "warn": warn, "rule": rule})
    call, said = _answer(monkeypatch, row)
    told = [("unhandled", "torch.cuda.x")] if row is None else [("warn", rule or "HPU902", "torch.cuda.x: so it is")] * warn  # fmt: skip
    for number in (1, 2):
        assert call(1, 2, k=3) == result
        assert said == told * number


@pytest.mark.parametrize("warn", [False, True])
def test_a_refusal_is_raised_but_not_at_torch_itself(monkeypatch: pytest.MonkeyPatch, warn: bool) -> None:  # fmt: skip
    for row in (_row("raise", warn=warn, rule="HPU123"), _row("alias", warn=warn, target="torch.hpu.gone")):  # fmt: skip
        call, _ = _answer(monkeypatch, row)
        with pytest.raises(UnsupportedOnHpu, match=r"torch\.cuda\.x does not work on HPU") as error:
            call()
        assert (row.rule or "HPU904") in str(error.value)
        monkeypatch.setattr(cuda_names.callers, "of_patched", lambda module: "torch.nn")
        assert call(1, 2, k=3) == ("own", 1, 2, None, {"k": 3})
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("args", "given", "named", "result"),
    [
        ((), (1, 2), {}, ((1, 2), {})),
        ((_Row(name="b", change="drop", value=""),), (1, 2), {}, ((1,), {})),
        ((_Row(name="a", change="drop", value=""),), (1, 2), {}, ((), {"b": 2})),
        ((_Row(name="b", change="drop", value=""),), (1,), {"b": 2, "k": 3}, ((1,), {"k": 3})),
        ((_Row(name="b", change="rename", value="c"),), (1, 2), {}, ((1,), {"c": 2})),
        ((_Row(name="b", change="rename", value="c"),), (1,), {"b": None}, ((1,), {"c": None})),
        ((_Row(name="b", change="rename", value="c"),), (1,), {}, ((1,), {})),
        ((_Row(name="c", change="set", value="5"),), (1,), {}, ((1,), {"c": 5})),
        ((), (1, 2, "cuda:0"), {}, ((1, 2, "hpu:0"), {})),
        ((), ("cuda:0",), {}, (("cuda:0",), {})),
        ((), (), {"device": "cuda", "b": "cuda"}, ((), {"device": "hpu", "b": "cuda"})),
    ],
)
def test_what_an_alias_is_given(monkeypatch: pytest.MonkeyPatch, args: Any, given: Any, named: Any, result: Any) -> None:  # fmt: skip
    call, said = _answer(monkeypatch, _row("alias", args=args, unseen=("torch.hpu.x", "y")))
    found, keywords = call(*given, **named)
    assert (tuple(map(str, found)), {key: str(value) for key, value in keywords.items()}) == (tuple(map(str, result[0])), {key: str(value) for key, value in result[1].items()})  # fmt: skip
    assert said == [("note", "HPU902", "torch.cuda.x calls torch.hpu.x and y, which nobody is known to have run on a Gaudi")]  # fmt: skip


def test_a_region_that_does_nothing_can_be_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    call, _ = _answer(monkeypatch, _row("noop"), _region)
    with call(1) as given:
        assert given is None


@pytest.mark.parametrize("original", [functools.wraps(_original)(lambda *args: "own"), _original])
def test_a_call_that_does_nothing_gives_nothing(monkeypatch: pytest.MonkeyPatch, original: Any) -> None:  # fmt: skip
    call, _ = _answer(monkeypatch, _row("noop"), original)
    assert call(1) is None


@pytest.mark.parametrize("rule", ["", "HPU123"])
def test_what_hpu_does_not_implement_is_refused(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    def missing() -> None:
        raise NotImplementedError("not yet")

    call, _ = _answer(monkeypatch, _row("alias", rule=rule))
    monkeypatch.setattr(cuda_names, "_resolve", lambda name: missing)
    with pytest.raises(UnsupportedOnHpu, match=r"torch\.cuda\.x: not yet") as error:
        call()
    assert (rule or "HPU904") in str(error.value)


@pytest.mark.parametrize(("name", "found"), [("functools.wraps", functools.wraps), ("os.path.join", os.path.join), ("json.decoder.JSONDecoder.decode", json.JSONDecoder.decode), ("print_", None), ("json.gone", None), ("json.gone.further", None), ("json.decoder.JSONDecoder.gone", None), ("no.such", None)])  # fmt: skip
def test_a_dotted_name_is_what_it_names(name: str, found: Any) -> None:
    assert cuda_names._resolve(name) == found


@pytest.mark.parametrize("error", [AssertionError, AttributeError, ImportError, RuntimeError, TypeError, ValueError])  # fmt: skip
@pytest.mark.parametrize("text", ["Torch not compiled with CUDA enabled", "something else"])
@pytest.mark.parametrize("row", [None, _row("none"), _row("none", rule="HPU123")])
def test_only_a_fault_that_is_of_cuda_becomes_a_refusal(monkeypatch: pytest.MonkeyPatch, error: type[Exception], text: str, row: Any) -> None:  # fmt: skip
    def fails() -> None:
        raise error(text)

    call, _ = _answer(monkeypatch, row, fails)
    refused = "CUDA" in text and error is not ValueError
    with pytest.raises(UnsupportedOnHpu if refused else error) as raised:
        call()
    assert text in str(raised.value)
    if refused:
        assert ("HPU123" if row is not None and row.rule else "HPU904") in str(raised.value)


@pytest.mark.parametrize(
    ("args", "kwargs", "asked"),
    [
        ((), {}, (("hpu",), {})),
        (("cuda",), {}, (("hpu",), {})),
        (("cuda", 1), {"x": 2}, (("hpu", 1), {"x": 2})),
        (("cpu",), {}, (("cpu",), {})),
        ((1,), {}, ((1,), {})),
        ((), {"device_type": "cuda"}, ((), {"device_type": "hpu"})),
        ((), {"device_type": "cpu"}, ((), {"device_type": "cpu"})),
        ((), {"x": "cuda"}, ((), {"x": "cuda"})),
    ],
)
def test_a_question_about_autocast_is_about_hpu_and_is_answered(args: Any, kwargs: Any, asked: Any) -> None:  # fmt: skip
    assert amp.ask_autocast(lambda *a, **k: (a, k), *args, **kwargs) == asked


@pytest.mark.parametrize(("given", "asked"), [((True,), ("hpu", True)), ((False,), ("hpu", False)), (("cuda", True), ("hpu", True)), (("cpu", False), ("cpu", False)), ((1,), (1,))])  # fmt: skip
def test_autocast_is_set_for_hpu(given: Any, asked: Any) -> None:
    found: list[Any] = []
    amp.set_autocast_enabled(lambda *a: found.append(a), *given)
    assert found == [asked]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "hpu", "cpu", None])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_float16_of_cuda_is_bfloat16(device: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    found: list[Any] = []
    said: list[Any] = []
    monkeypatch.setattr(log, "note", lambda *what: said.append(what))
    amp.set_autocast_dtype(lambda *a: found.append(a), device, dtype)
    ours = device not in ("cpu", None)
    halved = ours and dtype is torch.float16
    assert found == [("hpu" if ours else device, torch.bfloat16 if halved else dtype)]
    assert [code for code, _ in said] == ["HPU203"] * halved
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: {"hpu": "of hpu"}[kind])
    assert amp.get_autocast_gpu_dtype(lambda: "own") == "of hpu"
