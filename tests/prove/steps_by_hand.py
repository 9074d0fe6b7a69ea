"""Runs as they are recorded, made by hand."""

from __future__ import annotations

from typing import Any

from hpushim.prove.records import Process, Record
from hpushim.prove.runs import Run

NORM = {"norm": "2.0", "bits": 7, "count": 1, "kinds": {"float32 on hpu": 1}, "each": [[1.2, 0.0], [1.6, 0.0]]}  # fmt: skip


def step(number: int, **changes: Any) -> dict[str, Any]:
    found = {
        "step": number,
        "optimizer": 0,
        "rank": None,
        "rates": [0.1],
        "options": [{"betas": [0.9, 0.99], "nesterov": False}],
        "losses": loss(1.0),
        "gradients": NORM,
        "parameters": NORM,
        "marks": [1, 0, 1],
        "place": ["t.py", 6],
    }
    return {**found, **changes}


def run(*steps: dict[str, Any], code: int = 0, saved: list[Any] | None = None) -> Run:
    process = Process(0, list(steps), saved=saved or [])
    return Run("shim", "run", ("python",), code, 1.0, "", "", Record([process]))


def loss(value: float) -> list[dict[str, Any]]:
    return [{"value": repr(value), "dtype": "float32", "device": "hpu", "place": ["t.py", 5]}]
