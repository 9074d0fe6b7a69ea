"""What the recorder sets in torch, over a torch that has no more than that."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import warm

from hpushim.prove.recorder import enable, training


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("seed", [0, 7])
def test_torch_is_seeded_and_has_one_answer(monkeypatch: pytest.MonkeyPatch, deterministic: bool, seed: int) -> None:  # fmt: skip
    asked: list[Any] = []

    def seeded(number: int) -> Any:
        asked.append(number)
        return types.SimpleNamespace(initial_seed=lambda: ("of", number))

    torch = types.SimpleNamespace(manual_seed=seeded, random=types.SimpleNamespace())
    orders: Any = types.SimpleNamespace(seed=seed, deterministic=deterministic)
    monkeypatch.setattr(training, "watch", lambda *given: asked.append(given))
    monkeypatch.setattr(enable, "_repeat_bits", lambda given: asked.append(("repeats", given)))
    enable._torch_arrived(torch, orders)
    assert asked == [seed, *[("repeats", torch)] * deterministic, (torch, orders)]
    for draw in (torch.seed, torch.random.seed):
        asked.clear()
        assert (draw(), asked) == (("of", seed), [seed])


_SET = [
    "torch.backends.cudnn.benchmark = True",
    "torch.backends.cudnn.deterministic = False",
    "torch.backends.cudnn.set_flags(_benchmark=True, _deterministic=False)",
    "torch.backends.cudnn.flags(benchmark=True, deterministic=False).__enter__()",
]


@pytest.mark.parametrize("statement", _SET)
def test_a_script_does_not_let_cudnn_choose_by_the_clock(statement: str) -> None:
    program = (
        "import torch\nfrom hpushim.prove.recorder import enable\nenable._repeat_bits(torch)\n"
        f"{statement}\ncudnn = torch.backends.cudnn\n"
        "print(cudnn.benchmark, cudnn.deterministic, torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())\n"
    )
    done = warm.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]


def _finally() -> None:
    try:
        raise ValueError("the cause\nin two lines")
    finally:
        raise AttributeError("gone")


def _twice() -> None:
    try:
        _finally()
    finally:
        raise OSError("full")


def _in_its_place() -> None:
    try:
        raise ValueError("the cause")
    except ValueError as error:
        raise AttributeError("gone") from error


def _instead() -> None:
    try:
        raise ValueError("the cause")
    except ValueError:
        raise AttributeError("gone") from None


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (_finally, "gone (raised while another error was handled: ValueError: the cause)"),
        (_twice, "full (raised while another error was handled: ValueError: the cause)"),
        (_in_its_place, "gone"),
        (_instead, "gone"),
    ],
)
def test_an_error_raised_while_another_was_handled_names_that_one(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[], None], told: str
) -> None:
    noted: dict[str, Any] = {}
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    monkeypatch.setattr(enable.recording, "note", lambda at, event, **what: noted.update(what))
    enable._record_errors(types.SimpleNamespace(at=None, root="/nowhere", file_of=str))  # type: ignore[arg-type]
    with pytest.raises((AttributeError, OSError)) as raised:
        fails()
    sys.excepthook(raised.type, raised.value, raised.tb)
    assert noted["message"] == told
