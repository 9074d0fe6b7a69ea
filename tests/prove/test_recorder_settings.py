"""What the recorder sets in torch, over a torch that has no more than that."""

from __future__ import annotations

import types
from typing import Any

import pytest

from hpushim.prove.recorder import enable, training


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("seed", [0, 7])
def test_torch_is_seeded_and_has_one_answer(monkeypatch: pytest.MonkeyPatch, deterministic: bool, seed: int) -> None:  # fmt: skip
    asked: list[Any] = []

    def seeded(number: int) -> Any:
        asked.append(number)
        return types.SimpleNamespace(initial_seed=lambda: ("of", number))

    cudnn = types.SimpleNamespace(deterministic=None, benchmark=None)
    torch = types.SimpleNamespace(
        manual_seed=seeded, random=types.SimpleNamespace(), backends=types.SimpleNamespace(cudnn=cudnn),
        use_deterministic_algorithms=lambda *args, **kwargs: asked.append((args, kwargs)),
    )  # fmt: skip
    orders: Any = types.SimpleNamespace(seed=seed, deterministic=deterministic)
    monkeypatch.setattr(training, "watch", lambda *given: asked.append(given))
    enable._torch_arrived(torch, orders)
    assert asked == [seed, *[((True,), {"warn_only": True})] * deterministic, (torch, orders)]
    assert (cudnn.deterministic, cudnn.benchmark) == ((True, False) if deterministic else (None, None))  # fmt: skip
    for draw in (torch.seed, torch.random.seed):
        asked.clear()
        assert (draw(), asked) == (("of", seed), [seed])
