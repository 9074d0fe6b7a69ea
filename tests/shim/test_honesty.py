"""What the matrix calls unsupported is never done in silence, and what it calls a noop is accepted: asked of shim and emulator
under each policy, row by row (``honesty.toml``).
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli
import warm

from hpushim import matrix

torch = pytest.importorskip("torch", reason="the probes run on torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
TABLE = tomli.loads((HERE / "honesty.toml").read_text(encoding="utf-8"))
ROWS = [row for row in matrix.load().rows if row.status in ("unsupported", "noop")]
PROBES = {row["name"]: row for row in TABLE["row"]}
#: Each policy, each way; the others in ``make test-all``.
RUNS = [("shim", "observe"), ("native", "observe"), ("native", "faithful"), ("shim", "strict"),
        *(pytest.param(*run, marks=pytest.mark.slow) for run in (("shim", "faithful"), ("native", "strict")))]  # fmt: skip
# CUDA's own functions: without the shim torch answers for them, and says that it has no CUDA.
OF_CUDA = ("torch.cuda", "torch.backends.cu", "torch._C._cuda", "torch.version.cuda", "cudaProf")


@cache
def outcomes(mode: str, policy: str) -> dict[str, Any]:
    """What became of each probe."""
    return {**_outcomes(mode, policy, "0"), **_outcomes(mode, policy, "1")}


def _outcomes(mode: str, policy: str, lazy: str) -> dict[str, Any]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, str(HERE / "honesty_runner.py"), mode],
        env={
            **inherited,
            "HPUSHIM_POLICY": policy,
            "PYTHONPATH": str(HERE.parents[1]),
            "PT_HPU_LAZY_MODE": lazy,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    if done.returncode != 0:
        return {"failed": done.stderr[-3000:]}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def why_elsewhere(row: Any) -> str:
    """Why a row has no probe; empty when it should have one."""
    for entry in TABLE["elsewhere"]:
        if (
            row.area in entry.get("areas", ())
            or row.kind in entry.get("kinds", ())
            or row.name in entry.get("names", ())
        ):
            return str(entry["why"])
    return ""


def test_every_row_is_asked_or_accounted_for() -> None:
    missing = [row.name for row in ROWS if row.name not in PROBES and not why_elsewhere(row)]
    assert missing == []
    twice = [row.name for row in ROWS if row.name in PROBES and why_elsewhere(row)]
    assert twice == []
    assert set(PROBES) <= {row.name for row in ROWS}
    assert len(PROBES) > 100


def expected(row: Any, mode: str, policy: str) -> tuple[str, ...]:
    """What may become of a row's probe."""
    probe = PROBES[row.name]
    native = mode == "native"
    if native and row.name.startswith(OF_CUDA):
        return "torch's own", "silent", "error"  # not a word of ours, whatever the policy
    if row.status == "noop":
        if native and "natively" in probe:
            return ("refused", "error") if policy == "strict" else ("silent", "error")
        return ("told",) if row.warn and not native else ("told", "silent")
    if native and (probe.get("silent") or probe.get("natively")):
        return ("silent", "told") if policy == "observe" else ("silent", "told", "refused")
    if probe.get("silent"):
        return ("silent",) if policy == "observe" else ("silent", "refused")
    if "says" in probe:
        return "refused", "error", "torch's own", *(("told",) if policy == "observe" else ())
    if native and "ignored" in probe:
        return ("told",)
    if "goes_on" in probe:
        return ("refused",) if native and policy == "strict" else ("told",)
    if native and policy != "observe":
        return "refused", "error", "torch's own"
    return ("refused", "told", "error", "torch's own") if native else ("refused", "told")


@pytest.mark.parametrize(("mode", "policy"), RUNS)
def test_rows(mode: str, policy: str) -> None:
    told = outcomes(mode, policy)
    assert "failed" not in told, told["failed"]
    asked = [row for row in ROWS if row.name in PROBES]
    wrong = {
        row.name: told[row.name]
        for row in asked
        if told[row.name][0] not in expected(row, mode, policy)
        or (mode == "shim" and PROBES[row.name].get("says", "") not in told[row.name][1])
    }
    assert wrong == {} and len(asked) == len(PROBES)


@pytest.mark.parametrize("mode", ["shim", "native"])
def test_a_reason_for_silence_is_one(mode: str) -> None:
    """A probe that is said to be silent, and is not, needs no reason any more."""
    told = outcomes(mode, "observe")
    key = "silent" if mode == "shim" else "natively"
    spoke = [n for n, p in PROBES.items() if key in p and told[n][0] in ("told", "refused")]
    assert spoke == []
