"""The outcome in plain text: the verdict first."""

from __future__ import annotations

import re
from collections import Counter
from typing import get_args

from hpushim.prove.choose import Choice, Fate
from hpushim.prove.covered import Place
from hpushim.prove.runs import Run, failure
from hpushim.prove.trial import Outcome

_SHOWN = 12


def text(outcome: Outcome, again: str) -> str:
    """Verdict, runs, differences, what was not covered, the command to run it again."""
    lines = [headline(outcome), ""]
    lines += _table([*outcome.elsewhere, *outcome.runs])
    lines += ["", *_comparisons(outcome)]
    lines += _coverage(outcome)
    if outcome.report.target.style != "native":
        lines += ["", f"CUDA: {outcome.cuda}"]
    lines += [
        "",
        "Everything on hpu was emulated on the CPU: this shows that both programs do the same on the HPU path, not Gaudi's speed,",
        "its own numerics, memory limits or asynchrony.",
        f"again: {again}",
    ]
    return "\n".join(lines) + "\n"


def chosen(choice: Choice) -> str:
    """What became of the unsafe rewrites, and the verdict on the copy with those that were kept."""
    fates = Counter(one.fate for one in choice.candidates)
    counted = ", ".join(f"{fates[fate]} {fate}" for fate in get_args(Fate))
    lines = [headline(choice.outcome), f"unsafe rewrites: {counted}; {choice.runs} runs, {choice.seconds:.0f} s"]  # fmt: skip
    return "\n".join([*lines, *(f"  {one.shown()}" for one in choice.candidates)]) + "\n"


def headline(outcome: Outcome) -> str:
    """The verdict in one line, or two."""
    steps = max((c.steps for c in outcome.comparisons), default=0)
    by_hand = any(p.by_hand for run in outcome.runs for p in run.record.processes)
    over = f"{steps} {'backward pass' if by_hand else 'optimizer step'}"
    over += "" if steps == 1 else "es" if by_hand else "s"
    loud = ""
    if outcome.on_hpu is not None and outcome.on_hpu == 0:
        loud = ("NOTHING RAN ON HPU: the script did not use its device; pass the option that it "
               "needs, such as --cuda\n")  # fmt: skip
    if outcome.verdict == "not distinguishable":
        return f"{loud}not distinguishable: over {over}, {outcome.reason} (emulated){_but(outcome)}"
    if outcome.verdict == "equal":
        return f"{loud}equal: over {over} the migrated copy does what the original does, bit for bit (emulated){_but(outcome)}"
    if outcome.verdict == "equal within":
        far = max(outcome.comparisons, key=lambda one: one.largest)
        why = (
            f" (rounding in {far.bound.format} explains {far.bound.at(1):.1e} a step)"
            if far.bound
            else ""
        )
        again = next((one for one in outcome.comparisons if one.float32), None)
        if again is not None and again.bound is not None:
            why = f", in float32 within {again.largest:.1e} (rounding explains {again.bound.at(1):.1e} a step)"
            if again.exact and not again.largest:
                why = ", in float32 bit for bit"
        return f"{loud}equal within {outcome.reason}{why}: over {over} the migrated copy does what the original does (emulated){_but(outcome)}"
    if outcome.verdict == "different":
        where = f" {outcome.cause.shown()}" if outcome.cause and outcome.cause.shown() else ""
        what = "different"
        if len(outcome.comparisons) > 1 and outcome.comparisons[0].difference is None:
            difference = outcome.difference
            if difference is not None and difference.kind == "error":
                return f"{loud}different from the CPU run: in step {difference.step} the script fails on hpu, the original and its migrated copy alike: {outcome.reason}"
            what = "different from the CPU run, though both runs on hpu agree" + "," * bool(where)
        return f"{loud}{what}{where}: {outcome.reason}"
    return f"{loud}not proved: {outcome.reason}"


def _but(outcome: Outcome) -> str:
    """What the first line says beside the verdict: the error that every run ends with, what a Gaudi refuses of what ran."""
    but = f"; then the script fails in every run: {outcome.ends}" if outcome.ends else ""
    but += (
        f"; the unedited original fails on hpu: {outcome.unmigrated}" if outcome.unmigrated else ""
    )
    for one in outcome.refused[:1]:
        at = f" at {one.file}:{one.line}" if one.file else ""
        more = f" and {len(outcome.refused) - 1} more" if len(outcome.refused) > 1 else ""
        but += f"; BUT A GAUDI REFUSES WHAT RAN: {one.code} {one.what}{at}{more}"
    return but


def _table(runs: list[Run]) -> list[str]:
    rows = [("run", "steps", "loss, first to last", "exit", "seconds")]
    for run in runs:
        losses = [x["value"] for p in run.record.processes[:1] for s in p.steps for x in s["losses"]]  # fmt: skip
        shown = f"{float(losses[0]):.6g} to {float(losses[-1]):.6g}" if losses else "-"
        code = "time up" if run.code is None else str(run.code)
        rows.append((run.title, str(run.record.steps), shown, code, f"{run.seconds:.1f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]  # fmt: skip
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if failure(run):
            groups.setdefault(re.sub(r":\d+", "", _failed(run)), []).append(run)
    lines += [f"{_named_runs(failed, runs)}: {_failed(failed[0])}" for failed in groups.values()]
    return lines


def _named_runs(some: list[Run], runs: list[Run]) -> str:
    if len(some) == len(runs):
        return "every run"
    return "both runs on hpu" if some == runs[-2:] else " and ".join(run.title for run in some)


def _failed(run: Run) -> str:
    """The uncaught exception of a run with its line."""
    why = failure(run) or {}
    place = ":".join(map(str, why["places"][-1])) if why["places"] else ""
    named = place.rpartition("/")[2] in why["message"]
    return f"{why['kind']}: {why['message']}" + ("" if named else f" at {place}")


def _comparisons(outcome: Outcome) -> list[str]:
    names = {
        "cpu": "the CPU run",
        "shim": "the shim's run",
        "native": "the migrated copy",
        "copy": "the migrated copy on the CPU",
        "cuda": "the original's run on CUDA",
        "cuda-copy": "the migrated copy on CUDA",
    }
    lines = []
    if outcome.cause is not None:
        cause = outcome.cause
        first = f" at {cause.shows}" if cause.shows else ""
        if cause.operator or first:
            lines.append(f"shows first{first}" + (f": {cause.operator}" if cause.operator else ""))
        if cause.how:
            lines.append(cause.how)
    for one in outcome.comparisons:
        if not one.steps:
            lines.append(f"{names[one.second]} against {names[one.first]}: no step was compared")
            lines += [f"  {note}" for note in one.notes]
            continue
        same = "bit for bit" if one.exact and not one.largest else ""
        far = f"loss {one.loss:.1e}, gradients {one.gradients:.1e}, parameters {one.parameters:.1e} apart at most"
        lines.append(f"{names[one.second]} against {names[one.first]}: {same or far}")
        if one.bound is not None and not same:
            lines.append(f"  {one.bound.shown()}")
        lines += [f"  {note}" for note in one.notes]
    lines += _without_cpu(outcome)
    lines += [f"a Gaudi refuses: {one.code} {one.what}" + (f" ({one.file}:{one.line})" if one.file else "") for one in outcome.refused[:_SHOWN]]  # fmt: skip
    narrowed: dict[str, list[str]] = {}
    for groups in outcome.narrowed:
        at = narrowed.setdefault(f"a Gaudi computes in less: {groups.code} {groups.what}", [])
        at += [f"{groups.file}:{groups.line}"] if groups.file else []
    for what, at in narrowed.items():
        more = f" and {len(at) - 1} more" if len(at) > 1 else ""
        lines.append(what + (f" ({at[0]}{more})" if at else ""))
    numbers = max((one.numbers for one in outcome.comparisons), default=0)
    if numbers:
        lines.append(f"numbers of the output and the logs compared, by their text: {numbers}")
    if outcome.on_hpu is not None:
        lines.append(f"compute operators on hpu: {outcome.on_hpu:.1%}")
    codes = {run.code for run in outcome.runs}
    if outcome.verdict == "not proved" and all(map(failure, outcome.runs)):
        lines.append(
            "each run uses a copy of the project's folder; if the script needs files outside of "
            "it, name a wider folder with --root"
        )
    if len(codes) == 1 and codes - {0, None} and not any(map(failure, outcome.runs)):
        lines.append(f"the script itself ends with exit code {codes.pop()} in every run")
    if outcome.written:
        lines.append(
            f"CHANGED IN YOUR PROJECT during the runs: {', '.join(outcome.written[:_SHOWN])}"
        )
    beside = sorted({name for run in outcome.runs for name in run.record.beside})
    if beside:
        shown = ", ".join(beside[:_SHOWN])
        lines.append(f"loaded from outside of the project and not migrated: {shown}; name a wider folder "
                     "with --root")  # fmt: skip
    return lines


def _without_cpu(outcome: Outcome) -> list[str]:
    """Why no CPU run is compared with, where that is so."""
    if outcome.cpu is None or not outcome.runs:
        return ["no run on the CPU: --no-cpu"]
    if len(outcome.comparisons) > 1 or not outcome.runs[-1].record.steps:
        return []
    why = failure(outcome.runs[0])
    if why is None:
        return [f"the run on the CPU ({outcome.cpu.why}) made no step: pass the script's option for "
                "the CPU with --cpu-args"]  # fmt: skip
    return [
        f"the original does not run on the CPU ({outcome.cpu.why}), so only the runs on hpu "
        "are compared; pass its option for the CPU with --cpu-args"
    ]


def _coverage(outcome: Outcome) -> list[str]:
    found = outcome.coverage
    run, idle = len(found.rewrites_run), len(found.rewrites_not_run)
    lines = []
    if run + idle:
        line = f"rewrites that ran: {run} of {run + idle} ({run / (run + idle):.0%})"
        loaded = run + sum(p.file not in found.files_not_loaded for p in found.rewrites_not_run)
        if loaded < run + idle and loaded:
            line += f"; of the {loaded} in files that were loaded {run / loaded:.0%}"
        lines.append(line)
    else:
        lines.append("rewrites: none, the script needs no change")
    away = set(found.files_not_loaded)
    here = [p for p in found.rewrites_not_run if p.file not in away]
    lines += _named("did not run and are therefore not proved", here)
    lines += _named("findings whose line ran", found.findings_run)
    left = [p for p in found.findings_not_run if p.file not in away]
    lines += _named("findings whose line did not run", left)
    if away:
        counts = Counter(p.file for p in found.rewrites_not_run)
        shown = [f"{name} ({counts[name]})" if counts[name] else name for name in sorted(away)]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        lines.append(f"files that were never loaded (rewrites in them): {', '.join(shown[:_SHOWN])}{more}")  # fmt: skip
    return lines


def _named(title: str, places: list[Place]) -> list[str]:
    """The places under a title, each once, the first of them only."""
    if not places:
        return []
    lines = [f"{title}:"]
    counts = Counter((p.file, p.line, p.code, p.name) for p in places)
    shown = list(counts)[:_SHOWN]
    lines += [f"  {file}:{line} {code} {name}" for file, line, code, name in shown]
    if len(counts) > _SHOWN:
        lines.append(f"  and {len(counts) - _SHOWN} more")
    return lines
