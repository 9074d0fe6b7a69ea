"""The recorder and the comparison, with the emulated HPU in CUDA's place; and the shim's answers beside those of an NVIDIA H200."""

from __future__ import annotations

import copy
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli
import warm

torch = pytest.importorskip("torch", reason="it records what torch answers")
sys.path.insert(0, str(Path(__file__).parent))
import cuda_answers  # noqa: E402
import recording  # noqa: E402


@cache
def _recorded() -> str:
    with warm.serving(), pytest.MonkeyPatch.context() as patched:
        # The order of sets is the same in all runs that are served; that what does not repeat is left out has a test of its own.
        patched.setattr(recording, "SEEDS", (0, 0))
        return json.dumps(recording.record("shim", processes=("plain",), programs=1))


@pytest.fixture
def ours() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_recorded())
    return found


@pytest.fixture
def cuda(ours: dict[str, Any]) -> dict[str, Any]:
    """What the emulated HPU answered, in CUDA's words."""
    return json.loads(re.sub(r"\bhpu\b", "cuda", json.dumps(ours)))


def test_the_same_answers_differ_nowhere(ours, cuda):
    assert len(ours["idioms"]) > 100
    assert sum(bool(one["answers"]) for one in ours["idioms"].values()) > 50
    assert list(recording.odd(cuda, ours)) == []


def _first(record: dict[str, Any], of: str) -> tuple[str, str, Any]:
    return next(
        (key, name, value)
        for key, one in record["idioms"].items()
        for name, value in one["answers"].items()
        if one["outcome"] == "ok" and value[0] == of
    )


CHANGES = {
    "a tensor's type": ("tensor", 1, "torch.cuda.HalfTensor"),
    "a dtype": ("tensor", 2, "torch.float64"),
    "a shape": ("tensor", 4, [7, 7]),
    "a text": ("str", 1, "another text"),
    "a number": ("int", 1, 12345),
    "a class": ("object", 1, "torch.cuda.Other"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_answer_is_reported(change, ours, cuda):
    of, place, value = CHANGES[change]
    changed = copy.deepcopy(cuda)
    key, name, _ = _first(changed, of)
    changed["idioms"][key]["answers"][name][place] = value
    found = list(recording.odd(changed, ours))
    assert [(one.key, one.kind) for one in found] == [(key, "answer")]
    assert f"{name} is " in found[0].what


@pytest.mark.parametrize(
    ("outcome", "kind"), [("ValueError: no", "outcome"), ("missing", "missing")]
)
def test_another_outcome_is_reported(outcome, kind, ours, cuda):
    key = _first(ours, "tensor")[0]
    if kind == "missing":
        del ours["idioms"][key]
    else:
        cuda["idioms"][key]["outcome"] = outcome
    assert [(one.key, one.kind) for one in recording.odd(cuda, ours)] == [(key, kind)]


def test_a_device_program_that_prints_otherwise_on_cuda_is_reported(ours, cuda):
    assert len(ours["device_programs"]) == len(recording.device_programs.PROGRAMS)
    one = recording.device_programs.PROGRAMS[0]
    cuda["device_programs"] = {one.module: ["another line"]}
    assert [(o.key, o.kind) for o in recording.odd(cuda, ours)] == [(one.name, "output")]


def test_what_the_shim_refuses_as_documented_is_no_difference(ours, cuda):
    refused = [key for key, one in ours["idioms"].items() if "HPU" in one["outcome"]]
    assert refused
    for key in refused:
        cuda["idioms"][key]["outcome"] = "ok"
    assert list(recording.odd(cuda, ours)) == []


def test_errors_are_compared_by_their_kind():
    theirs = {
        "outcome": "TypeError: can't convert cuda:0 device type tensor to numpy",
        "answers": {},
    }
    alike = {"outcome": "TypeError: can't convert hpu:0 device type tensor to numpy", "answers": {}}
    other = {"outcome": "RuntimeError: no", "answers": {}}
    assert not list(recording._odd_idiom("a/b", theirs, alike, ["ok"]))
    assert [one.kind for one in recording._odd_idiom("a/b", theirs, other, ["ok"])] == ["error"]


@pytest.mark.parametrize(
    ("theirs", "ours", "alike"),
    [
        ("loss 1.0000 on cuda:0", "loss 1.0001 on hpu:0", True),
        ("loss 1.0000 on cuda:0", "loss 1.1000 on hpu:0", False),
        ("loss 1.0000 torch.bfloat16", "loss 1.0300 torch.bfloat16", True),
        ("step 3", "step 4", False),
        ("nan 1.0", "nan 1.0", True),
        ("cuda:0", "cpu", False),
    ],
)
def test_printed_lines_are_compared_by_words_and_numbers(theirs, ours, alike):
    record = {"code": 0, "lines": [theirs]}
    found = list(recording._odd_program("program 1", record, {"code": 0, "lines": [ours]}))
    assert (not found) is alike


def test_a_program_is_recorded_and_another_exit_code_reported(ours, cuda):
    ((key, program),) = ours["programs"].items()
    assert program["code"] == 0
    assert any(program["lines"])
    cuda["programs"][key]["code"] = 1
    assert [one.kind for one in recording.odd(cuda, ours)] == ["outcome"]


def test_what_does_not_repeat_is_not_compared():
    first = {"a/b": {"outcome": "ok", "answers": {"x": ["float", "0.1"], "y": ["int", 3]}}}
    second = {"a/b": {"outcome": "ok", "answers": {"x": ["float", "0.2"], "y": ["int", 3]}}}
    assert recording._twice(first, second)["a/b"]["answers"] == {"y": ["int", 3]}


def test_values_in_words():
    assert cuda_answers.described(torch.device("cpu")) == ["device", "cpu"]
    assert cuda_answers.described(torch.tensor([1.5])) == ["tensor", "torch.FloatTensor", "torch.float32", "cpu", [1], False, ["1.5"]]  # fmt: skip
    assert cuda_answers.described({"a": (1, None)}) == ["dict", 1, [["tuple", 2, [["str", "a"], ["tuple", 2, [["int", 1], ["NoneType", None]]]]]]]  # fmt: skip
    assert cuda_answers.described(ValueError("at 0x7f\nmore")) == ["ValueError", "at …"]
    assert cuda_answers.described(len) is None


def test_nothing_is_recorded_without_a_cuda_device():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(SystemExit, match="no working CUDA device"):
        recording._machine("cuda")


@pytest.mark.slow
def test_the_shim_answers_as_an_h200_did_but_for_what_was_reviewed() -> None:
    here = Path(__file__).parent
    reviewed = {key for keys in tomli.loads((here / "reviewed.toml").read_text()).values() for key in keys}  # fmt: skip
    cuda = json.loads((here / "h200.json").read_text())
    assert len(cuda["idioms"]) > 550 and reviewed < set(cuda["idioms"])
    ours = recording.record("shim", programs=0)
    cuda["idioms"] = {key: one for key, one in cuda["idioms"].items() if key in ours["idioms"]}
    assert len(cuda["idioms"]) > 500
    assert [one for one in recording.odd(cuda, ours) if one.key not in reviewed] == []
