"""The last lines of ``hpushim run``: what ran where, what differs on a Gaudi, where to look.

Made from the totals that the processes of the run have left. Standard library only: each run pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_NAMED = 2  # of each kind; the ledger names them all

Totals = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What is known of a run beside the totals of its processes."""

    native: bool = False
    failed: bool = False
    ledger: str = ""  #: the file of the ledger; empty: none was kept
    hidden: str = ""  #: the setting by which the program reads that there is no CUDA device
    processes: Sequence[Totals] = field(default_factory=tuple)


def lines(run: Run) -> list[str]:
    """Up to three lines of text: what ran where, what differs on a Gaudi, where to look; the latter two where there is something.

    The first begins with capitals where nothing ran on hpu. None where the program failed before it did anything.
    """
    active = [one for one in run.processes if _computed(one) != (0, 0) or one.get("operators")]
    hpu = sum(_computed(one)[0] for one in active)
    cpu = sum(_computed(one)[1] for one in active)
    operators = sum(int(one.get("operators", 0)) for one in active)
    if not hpu and not operators:
        return _nothing(run, active, cpu)
    first = active[0]
    over = f" in {len(active)} processes" if len(active) > 1 else ""
    cut = [one for one in run.processes if one.get("unfinished")]
    over += f" (at least: {_cut(cut)})" if cut else ""
    where = f"{_counted(operators, 'operator')} ran on the emulated {_generation(first)}{over}, {first.get('mode', '')} mode"
    if cpu:
        share = 100 * hpu / (hpu + cpu)
        place = next(
            (str(one["first_elsewhere"]) for one in active if one.get("first_elsewhere")), ""
        )
        where += (
            f"; of {hpu + cpu:,} matrix products, convolutions and the like {share:.3g} % ran on hpu and {cpu:,} on the CPU"
            + (f", the first {place}" if place else "")
        )
    elif hpu:
        where += f", among them all {hpu:,} matrix products, convolutions and the like"
    on_cpu = sum(int(one.get("parameters", {}).get("cpu", 0)) for one in active)
    if on_cpu:
        where += f"; {on_cpu:,} parameters that an optimizer steps lie on the CPU"
    summary = [f"what ran where: {where}"]
    if costs := _costs(active):
        summary.append(f"on a Gaudi: {costs}")
    if costs or run.ledger:
        summary.append(_look(run))
    return summary


def _nothing(run: Run, active: list[Totals], cpu: int) -> list[str]:
    if not cpu and not any(one.get("unfinished") for one in run.processes):
        if run.failed:  # the error is what there is to say, and stays the last line
            return []
        return [
            "nothing ran on the emulated hpu: the program ran no tensor operators, on hpu or on "
            "the CPU"
        ]
    cut = [one for one in run.processes if one.get("unfinished")]
    if cut:
        return [
            f"it is unknown what ran on hpu: {_cut(cut)}",
            f"the others ran {cpu:,} matrix products, convolutions and the like on the CPU and none on the emulated hpu",
            "what to do: let workers exit normally, or call hpushim.ledger() in the worker and pass "
            "--ledger",
        ]
    place = next((str(one["first_elsewhere"]) for one in active if one.get("first_elsewhere")), "")
    on_cpu = sum(int(one.get("parameters", {}).get("cpu", 0)) for one in active)
    why = []
    if run.hidden:
        why.append(f"{run.hidden} makes the program see no CUDA device")
    if run.native:
        why.append("--native leaves CUDA calls as they are, and the program does not use hpu")
    if on_cpu:
        why.append(f"the {on_cpu:,} parameters that its optimizer steps lie on the CPU")
    if not why:
        why.append("no tensor was created on cuda or hpu")
    todo = (
        "check how the program selects its device: an option (--device, --no-cuda, "
        "accelerator=), a default of cpu, a missing .to(device)"
    )
    if run.native:
        todo = "omit --native for a CUDA script; in a migrated one " + todo
    if run.hidden:
        todo = f"unset {run.hidden.partition('=')[0]}"
    return [
        f"NOTHING RAN ON HPU: all {cpu:,} matrix products, convolutions and the like ran on the CPU"
        + (f", the first {place}" if place else ""),
        f"why: {'; '.join(why)}. So this run shows nothing of a Gaudi",
        f"what to do: {todo}",
    ]


def _cut(cut: list[Totals]) -> str:
    who = "1 process" if len(cut) == 1 else f"{len(cut)} processes"
    return f"{who} with the emulated hpu ended before the totals could be kept, by a signal or os._exit"


def _costs(active: list[Totals]) -> str:
    parts = []
    fallbacks: dict[str, int] = {}
    for one in active:
        for name, count in one.get("fallback_operators", {}).items():
            fallbacks[name] = fallbacks.get(name, 0) + int(count)
    if fallbacks:
        names = [
            name.removeprefix("aten::")
            for name, _ in sorted(fallbacks.items(), key=lambda i: -i[1])
        ]
        parts.append(
            f"{sum(fallbacks.values()):,} calls that run on the CPU there ({_some(names)})"
        )
    by_number = sum(int(one.get("recompilations_by_number", 0)) for one in active)
    by_shape = sum(int(one.get("recompilations", 0)) for one in active) - by_number
    if by_shape:
        parts.append(
            f"{_counted(by_shape, 'recompilation')} by shapes that change{_causes(active, number=False)}"
        )
    if by_number:
        parts.append(
            f"{_counted(by_number, 'recompilation')} by numbers that change{_causes(active, number=True)}"
        )
    if syncs := syncs_a_step(active):
        parts.append(f"{syncs:.3g} host sync{'' if syncs == 1 else 's'} a step")
    refused = [
        f"{row['code']} {row['text']}".strip() for one in active for row in one.get("refused", ())
    ]
    demoted = [text for one in active for text in one.get("demoted", ())]
    for texts in (refused, demoted):
        if texts:
            parts.append(_some([_clipped(text) for text in dict.fromkeys(texts)], "; "))
    return ", ".join(parts)


def syncs_a_step(processes: Sequence[Totals]) -> float:
    """Host syncs a step of the optimizers, the first step left out: it holds what came before the training too."""
    rest = [entry for one in processes for entry in one.get("steps", {}).get("entries", [])[1:]]
    steps = sum(int(entry["steps"]) for entry in rest)
    return sum(int(entry["host_syncs"]) for entry in rest) / steps if steps else 0.0


def _causes(active: list[Totals], *, number: bool) -> str:
    found = []
    for one in active:
        for cause in one.get("recompilation_causes", ()):
            differences = cause.get("differences", ())
            kinds = {d.get("kind") for d in differences}
            if differences and (kinds == {"number"}) == number:
                d = differences[0]
                where = f" dimension {d['dimension']}" if d.get("dimension") is not None else ""
                found.append(f"{cause['operator'].removeprefix('aten::')}, {d['argument']}{where}")
    return f" ({_some(list(dict.fromkeys(found)), '; ')})" if found else ""


def _some(names: list[str], joint: str = ", ") -> str:
    more = len(names) - _NAMED
    return joint.join(names[:_NAMED]) + (f"{joint}{more} more" if more > 0 else "")


def _clipped(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"


def _look(run: Run) -> str:
    if run.ledger:
        return f"where to look: hpushim ledger {run.ledger}"
    return (
        "where to look: `hpushim run --ledger FILE …` records the lines; then `hpushim ledger FILE`"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _computed(one: Totals) -> tuple[int, int]:
    found = one.get("compute_operators", {})
    return int(found.get("hpu") or 0), int(found.get("cpu") or 0)


def _generation(one: Totals) -> str:
    return str(one.get("gaudi", "Gaudi")).replace("gaudi", "Gaudi ")
