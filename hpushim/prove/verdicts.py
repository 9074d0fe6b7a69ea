"""What runs and their comparisons say together: the verdict, and why. Nothing here starts a run."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from hpushim.prove.compare import Comparison
from hpushim.prove.runs import Run, failure

Verdict = Literal["equal", "equal within", "different", "not distinguishable", "not proved"]
#: How far apart (relative) two runs may be and be called equal, whatever rounding explains beyond that; and how much it may explain.
_WIDTH = {"loss": 0.02, "parameters": 0.02, "gradients": 0.2}
_WIDEST = 0.02


class Judgement(NamedTuple):
    """``ends`` is the error in which every run ends behind the last step that was compared."""

    verdict: Verdict
    reason: str
    ends: str = ""


def of(runs: list[Run], whole: Run, pairs: list[Comparison]) -> Judgement:
    """Of the runs of a proof; ``whole`` is that on hpu that was compared with the CPU's."""
    shim, native = runs[-2:]
    difference = next((pair.difference for pair in pairs if pair.difference), None)
    stopped = next((run for run in (shim, native) if run.code is None and not run.record.steps), None)  # fmt: skip
    if difference is not None:
        return Judgement("different", difference.what)
    if stopped is not None:
        return Judgement(
            "not proved",
            f"{stopped.title}: stopped after {stopped.seconds:.0f} s, before its first optimizer step; "
            "give it more time with --timeout",
        )
    if not _optimized(whole) and (failure(whole) or whole.code):
        return Judgement("not proved", _fails(runs, whole))
    if not whole.record.steps:
        return Judgement("not proved", "no optimizer step was seen: only exit code and output were compared")  # fmt: skip
    if _stops_on_hpu(runs):
        return Judgement(
            "not proved",
            f"{native.record.steps} steps agree, then the script fails on hpu, the original and its migrated copy: {failed(native)}",
        )
    if not any(pair.steps for pair in pairs):
        return Judgement("not proved", "no step was compared")
    if wide := _too_wide(pairs):
        return Judgement("not distinguishable", _not_distinguishable(wide[0]))
    if not any(map(_moved, (shim, native))):
        return Judgement(
            "not distinguishable",
            "each gradient is 0 or not finite, so that other data would have made no difference: look at the loss",
        )
    ends = failed(native) if failure(native) else ""
    if all(pair.exact and not pair.largest for pair in pairs):
        return Judgement("equal", "", ends)
    return Judgement("equal within", f"{max(pair.largest for pair in pairs):.1e}", ends)


def _fails(runs: list[Run], whole: Run) -> str:
    """That the script itself fails, or on hpu alone."""
    what = failed(whole)
    before = " before its first optimizer step" if whole.record.steps else ""
    cpu = runs[0] if len(runs) == 3 else None
    if cpu is None or _fail_alike(cpu, whole):
        return f"the script fails in every run{before}: {what}"
    fails = failure(cpu) or cpu.code
    other = f"fails otherwise: {failed(cpu)}" if fails else f"made {cpu.record.steps} steps"
    return f"the script fails on hpu{before}, the original and its migrated copy: {what}; the CPU run {other}"


def _fail_alike(one: Run, two: Run) -> bool:
    """Whether two runs end with the same error; its message may name a file of the run's own copy."""
    first, second = failure(one), failure(two)
    if first is None or second is None:
        return first is second and one.code == two.code
    same = first["message"] == second["message"] or first["places"][-1:] == second["places"][-1:]
    return bool(first["kind"] == second["kind"] and same)


def _too_wide(pairs: list[Comparison]) -> list[Comparison]:
    """The pairs that are too far apart, or whose bound would let too much pass, unless the same two runs agree in float32.

    Small gradients alone may be further apart in the narrow format where they are the same to the bit in float32.
    """
    narrow = {(c.first, c.second) for c in pairs if c.float32 and not is_wide(c)}
    exact = {(c.first, c.second) for c in pairs if c.float32 and c.exact and not c.largest}
    return [
        c
        for c in pairs
        if any(
            getattr(c, n) > most
            for n, most in _WIDTH.items()
            if n != "gradients" or (c.first, c.second) not in exact
        )
        or (is_wide(c) and (c.first, c.second) not in narrow)
    ]


def is_wide(pair: Comparison) -> bool:
    """Whether the numbers of a pair are not those of one program, and its bound is no witness either."""
    assert pair.bound is not None
    exact = pair.exact and not pair.largest
    return not exact and pair.bound.at(max(pair.apart, 1)) > _WIDEST


def _not_distinguishable(wide: Comparison) -> str:
    assert wide.bound is not None
    apart = ", ".join(f"{name} {getattr(wide, name):.1e}" for name in _WIDTH)
    fewer = (
        ", over fewer steps (--steps 1)" if wide.apart > 1 and wide.bound.at(1) <= _WIDEST else ""
    )
    return (
        f"the runs are apart by {apart}, which rounding in {wide.bound.format} alone could explain ({wide.bound.at(1):.1e} a step) "
        f"and a fault could too; compare in float32 (without autocast){fewer}, without dropout"
    )


def _moved(run: Run) -> bool:
    """Whether any gradient of a run is a finite number other than 0, or none is known."""
    steps = [step for process in run.record.processes for step in process.steps]
    known = [float(g["norm"]) for step in steps if (g := step["gradients"]) and g["count"]]
    return not known or any(norm and math.isfinite(norm) for norm in known)


def _optimized(run: Run) -> bool:
    """Whether an optimizer stepped, or a script that writes its updates itself came to its end."""
    return bool(run.record.steps) and not (
        failure(run) and all(process.by_hand for process in run.record.processes)
    )


def _stops_on_hpu(runs: list[Run]) -> bool:
    """Whether both runs on hpu end with an uncaught exception, and no run on the CPU shows that it is the script's own."""
    if len(runs) == 3 and usable(*runs):
        return False
    return failure(runs[-1]) is not None and failure(runs[-2]) is not None


def failed(run: Run) -> str:
    """How a run ended that failed."""
    why = failure(run)
    if why:
        return f"{why['kind']}: {why['message']}"
    said = run.errors.strip().splitlines()
    return f"exit code {run.code}{f', {said[-1].strip()[:300]}' if said else ''}"


def is_mended(cpu: Run, shim: Run, native: Run) -> bool:
    """Whether the original fails on hpu alone, and its migrated copy does not."""
    ends = all(run.code == 0 and failure(run) is None for run in (cpu, native))
    return ends and failure(shim) is not None


def usable(cpu: Run, shim: Run, native: Run) -> bool:
    """Whether the CPU run is a reference: it trained, and did not fail for want of a device, or later than both runs on hpu."""
    mine, other = failure(cpu), failure(shim)
    fails_alike = mine is not None and other is not None and mine["kind"] == other["kind"]
    later = all(failure(run) and run.record.steps < cpu.record.steps for run in (shim, native))
    return bool(cpu.record.steps) and (mine is None or fails_alike or later)


def reached(runs: list[Run]) -> tuple[set[tuple[str, int]], set[str]]:
    """The lines and files that the original's run on hpu went through; where it fails there, those of its run on the CPU too."""
    shim = runs[-2].record
    cpu = runs[0].record if len(runs) == 3 and failure(runs[-2]) else shim
    return shim.lines | cpu.lines, shim.files | cpu.files


def share(*runs: Run) -> float | None:
    """The share of compute operators on the emulated HPU, the smaller one of the runs; None where nothing was trained.

    Where none of them was noted, by the devices of the parameters.
    """
    shares = []
    for one in runs:
        devices = one.record.devices()
        if sum(devices.values()):
            shares.append(devices.get("hpu", 0) / sum(devices.values()))
        elif one.record.processes:
            first = one.record.processes[0].steps[0]
            kinds = first["parameters"]["kinds"] or [x["device"] for x in first["losses"]]
            shares.append(sum("hpu" in kind for kind in kinds) / max(len(kinds), 1))
    return min(shares) if shares else None
