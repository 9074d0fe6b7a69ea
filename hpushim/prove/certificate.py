"""The certificate of a proof: everything that was found, as plain data, JSON by the shipped schema, and a page in Markdown."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata

import msgspec

from hpushim.prove.choose import Candidate
from hpushim.prove.covered import Place
from hpushim.prove.locate import Cause
from hpushim.prove.records import Refused
from hpushim.prove.runs import failure
from hpushim.prove.trial import Outcome, Request

SCHEMA_VERSION = 1
CANNOT_SHOW = (
    "Gaudi's speed",
    "Gaudi's own numerics: the emulated HPU computes with the CPU's kernels",
    "asynchrony, real graph compilation and HCCL's own behaviour",
    "memory limits: the emulated figures are a lower bound",
    "steps after the last one compared, and code that did not run",
)


class RunRow(msgspec.Struct):
    """One of the runs. ``exit_code`` is null where its time was up; losses are of the first process."""

    way: str
    title: str
    command: list[str]
    exit_code: int | None
    seconds: float
    processes: int
    steps: int
    first_loss: float | None
    last_loss: float | None
    error: str | None


class PairRow(msgspec.Struct):
    """Two runs compared: the largest relative differences (null: no number), and what rounding explains in one step."""

    first: str
    second: str
    steps: int
    loss: float | None
    gradients: float | None
    parameters: float | None
    bit_for_bit: bool
    format: str
    roundings: int
    bound: float
    difference: str | None
    notes: list[str]
    metrics: int


class CoverageRow(msgspec.Struct):
    """What the runs went through. ``share`` is null where there is no rewrite."""

    rewrites: int
    rewrites_run: int
    share: float | None
    rewrites_not_run: list[Place]
    findings_run: list[Place]
    findings_not_run: list[Place]
    files_never_loaded: list[str]


class Certificate(msgspec.Struct):
    """See ``prove.schema.json``."""

    schema_version: int
    tool: str
    emulated: bool
    verdict: str
    reason: str
    cause: Cause | None
    command: list[str]
    again: str
    versions: dict[str, str]
    target: dict[str, str]
    seed: int
    step_limit: int
    compute_on_hpu: float | None
    runs: list[RunRow]
    comparisons: list[PairRow]
    coverage: CoverageRow
    changed_in_your_tree: list[str]
    cannot_show: list[str]
    refused_on_gaudi: list[Refused]
    narrowed_on_gaudi: list[Refused] = []
    unsafe_rewrites: list[Candidate] = []  # of `migrate --prove`
    cuda: str = ""  # the device that the original and the copy ran on, or why they did not


def certificate(
    request: Request, outcome: Outcome, again: str, candidates: Sequence[Candidate] = ()
) -> Certificate:
    """The certificate of an outcome; ``again`` is the command that repeats it."""
    from hpushim import __version__

    target = request.target
    found = outcome.coverage
    return Certificate(
        schema_version=SCHEMA_VERSION,
        tool=f"hpushim {__version__}",
        emulated=True,
        verdict=outcome.verdict,
        reason=outcome.reason,
        cause=outcome.cause,
        command=list(request.command.shown()),
        again=again,
        versions={
            "hpushim": __version__,
            "python": platform.python_version(),
            "torch": _torch(),
            "platform": f"{sys.platform} {platform.machine()}",
        },
        target={
            "gaudi": target.gaudi,
            "stack": target.stack,
            "mode": target.mode,
            "style": target.style,
        },
        seed=request.seed,
        step_limit=request.steps,
        compute_on_hpu=outcome.on_hpu,
        runs=_runs(outcome),
        comparisons=_pairs(outcome),
        coverage=CoverageRow(
            rewrites=len(found.rewrites_run) + len(found.rewrites_not_run),
            rewrites_run=len(found.rewrites_run),
            share=found.share,
            rewrites_not_run=found.rewrites_not_run,
            findings_run=found.findings_run,
            findings_not_run=found.findings_not_run,
            files_never_loaded=found.files_not_loaded,
        ),
        changed_in_your_tree=outcome.written,
        cannot_show=list(CANNOT_SHOW),
        refused_on_gaudi=outcome.refused,
        narrowed_on_gaudi=outcome.narrowed,
        unsafe_rewrites=list(candidates),
        cuda=outcome.cuda,
    )


def _torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not found"


def _runs(outcome: Outcome) -> list[RunRow]:
    rows = []
    for run in (*outcome.runs, *outcome.elsewhere):
        first = run.record.processes[:1]
        losses = [float(x["value"]) for p in first for s in p.steps for x in s["losses"]]
        why = failure(run)
        rows.append(
            RunRow(
                way=run.way,
                title=run.title,
                command=list(run.command),
                exit_code=run.code,
                seconds=round(run.seconds, 2),
                processes=len(run.record.processes),
                steps=run.record.steps,
                first_loss=losses[0] if losses else None,
                last_loss=losses[-1] if losses else None,
                error=f"{why['kind']}: {why['message']}" if why else None,
            )
        )
    return rows


def _pairs(outcome: Outcome) -> list[PairRow]:
    rows = []
    for one in outcome.comparisons:
        assert one.bound is not None
        rows.append(
            PairRow(
                first=one.first,
                second=one.second,
                steps=one.steps,
                loss=one.loss,
                gradients=one.gradients,
                parameters=one.parameters,
                bit_for_bit=one.exact and not one.largest,
                format=one.bound.format,
                roundings=one.bound.roundings,
                bound=one.bound.at(1),
                difference=one.difference.what if one.difference else None,
                notes=one.notes,
                metrics=one.numbers,
            )
        )
    return rows


def to_json(found: Certificate) -> bytes:
    """The certificate as indented JSON; a number that JSON lacks (NaN, infinity) is null."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def schema() -> bytes:
    """The JSON schema of the certificate; shipped as ``prove.schema.json``."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Certificate)), indent=2) + b"\n"  # fmt: skip


def page(found: Certificate) -> str:
    """The certificate as a page in Markdown."""
    reason = f": {found.reason}" if found.reason else ""
    lines = [f"# {found.verdict}{reason}", ""]
    lines += [f"`{shlex.join(found.command)}` and its copy migrated by {found.tool}, compared on an *emulated* HPU.", ""]  # fmt: skip
    if found.compute_on_hpu == 0:
        lines += ["**Nothing ran on hpu.**", ""]
    if found.cause is not None and found.cause.shown():
        lines += [f"The first difference is {found.cause.shown()}.", ""]
    lines += ["| run | steps | first loss | last loss | exit code | seconds |", "|---|---|---|---|---|---|"]  # fmt: skip
    for run in found.runs:
        lines.append(f"| {run.title} | {run.steps} | {_number(run.first_loss)} | {_number(run.last_loss)} | {run.exit_code} | {run.seconds} |")  # fmt: skip
    lines += ["", "| compared | steps | loss | gradients | parameters | rounding explains, a step |", "|---|---|---|---|---|---|"]  # fmt: skip
    for pair in found.comparisons:
        lines.append(f"| {pair.second} with {pair.first} | {pair.steps} | {_number(pair.loss)} | {_number(pair.gradients)} | {_number(pair.parameters)} | {pair.bound:.1e} ({pair.format}) |")  # fmt: skip
    if found.refused_on_gaudi:
        lines += ["", "**Operators and dtypes that Gaudi rejects:**", ""]
        lines += [f"- {r.code} {r.what}" + (f" (`{r.file}:{r.line}`)" if r.file else "") for r in found.refused_on_gaudi]  # fmt: skip
    cover = found.coverage
    share = f" ({cover.share:.0%})" if cover.share is not None else ""
    lines += ["", f"Rewrites that ran: {cover.rewrites_run} of {cover.rewrites}{share}.", ""]
    if cover.rewrites_not_run:
        lines += ["Rewrites that did not run and are therefore not proved:", ""]
        lines += [f"- `{p.file}:{p.line}` {p.code} {p.name}" for p in cover.rewrites_not_run]
        lines.append("")
    if cover.findings_not_run or cover.findings_run:
        lines += ["Remaining findings:", ""]
        lines += [f"- `{p.file}:{p.line}` {p.code} {p.name}: its line ran" for p in cover.findings_run]  # fmt: skip
        lines += [f"- `{p.file}:{p.line}` {p.code} {p.name}" for p in cover.findings_not_run]
        lines.append("")
    if found.unsafe_rewrites:
        lines += ["Unsafe rewrites:", ""]
        lines += [f"- {one.shown()}" for one in found.unsafe_rewrites]
        lines.append("")
    lines += [f"CUDA: {found.cuda}.", ""] if found.target["style"] != "native" else []
    lines += ["This cannot show:", ""]
    lines += [f"- {one}" for one in found.cannot_show]
    versions = ", ".join(f"{name} {value}" for name, value in found.versions.items())
    target = ", ".join(found.target.values())
    lines += ["", f"Target {target}; seed {found.seed}; {versions}.", "", f"Again: `{found.again}`"]
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
