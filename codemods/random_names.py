"""Seeds and random states of the card."""

from __future__ import annotations

from typing import ClassVar

from ._names import NameRule


class RandomName(NameRule):
    """``torch.cuda.manual_seed_all`` and its neighbours."""

    code = "HPU407"
    name = "cuda-seed"
    severity = "error"
    codes: ClassVar[dict[str, str]] = {
        "manual_seed": "HPU407",
        "manual_seed_all": "HPU407",
        "seed": "HPU407",
        "seed_all": "HPU407",
        "initial_seed": "HPU407",
        "get_rng_state": "HPU408",
        "set_rng_state": "HPU408",
        "get_rng_state_all": "HPU408",
        "set_rng_state_all": "HPU408",
        "default_generators": "HPU408",
    }
    card: ClassVar[dict[str, int]] = {"get_rng_state": 0, "set_rng_state": 1}
    also: ClassVar[dict[str, str]] = {"HPU408": "cuda-random-state"}
