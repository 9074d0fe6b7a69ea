"""What a ledger says, in words: totals, memory against the devices, steps, and per line of source what happened there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hpushim import safe_files
from hpushim.ledgers import advice as matrix_says
from hpushim.ledgers.events import events_of
from hpushim.ledgers.model import Break, Cause, Fact, Ledger, Line, Records, Site, Steps, Summary

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

_LIBRARIES = frozenset(("site-packages", "dist-packages"))
_SOURCE_LIMIT = 4 << 20  # bytes of a file of which a line is shown
_MOST_FILES = 500


def summarize(ledger: Ledger, matrix: Matrix, *, below: Path | None = None) -> Summary:
    """Everything that the renderers show. Paths below ``below`` (default: the current folder) are shown without it."""
    records = ledger.joined
    lines = _lines(records, matrix, below or Path.cwd(), ledger.written)
    return Summary(
        path=ledger.path,
        verdict=_verdict(records),
        facts=tuple(_facts(ledger, matrix)),
        memory=tuple(_memory(ledger, matrix)),
        lines=lines,
        steps=ledger.main.steps,
        after=_after(ledger.main),
        breaks=_breaks(records),
        notes=tuple(_notes(ledger, lines)),
    )


def bytes_text(amount: float) -> str:
    """``1.3 MB``: decimal units, three figures."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def counted(count: int, what: str) -> str:
    """``1 step``, ``1,200 steps``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _verdict(records: Records) -> str:
    hpu, cpu = records.compute_operators.hpu, records.compute_operators.cpu or 0
    generation = records.gaudi.replace("gaudi", "Gaudi ") or "Gaudi"
    if not records.operators:
        where = (
            f", the first {records.first_compute_on_cpu}" if records.first_compute_on_cpu else ""
        )
        return f"Nothing ran on hpu: {cpu:,} matrix products, convolutions and the like ran on the CPU{where}."
    what = "matrix products, convolutions and the like"
    share = f"all {hpu:,} {what}" if not cpu else f"{hpu:,} of {hpu + cpu:,} {what}"
    return f"On the emulated {generation} ran {share} ({records.mode} mode)."


def _facts(ledger: Ledger, matrix: Matrix) -> Iterable[Fact]:
    records = ledger.joined

    def fact(name: str, value: str, row: str = "") -> Fact:
        return Fact(name, value, matrix_says.of_row(matrix, row) if row else None)

    ranks = f" in {ledger.processes} processes" if ledger.processes > 1 else ""
    yield fact("operators on hpu", f"{records.operators:,}{ranks}")
    unit = (
        "in lazy mode a graph is what runs from one mark or read to the next"
        if records.mode == "lazy"
        else "in eager mode each operator is a graph, also where torch.compile would join some"
    )
    yield fact("graphs", f"{records.graphs:,} compiled, run {records.graph_runs:,} times; {unit}")
    if breaks := sum(one.count for one in records.graph_breaks):
        yield fact("graphs that torch.compile ended", f"{breaks:,}", matrix_says.BREAKS)
    by_number = records.recompilations_by_number
    by_shape = records.recompilations - by_number
    yield fact(
        "recompilations by shapes",
        f"{by_shape:,}{_first(records)}" if by_shape else "0",
        matrix_says.SHAPES if by_shape else "",
    )
    yield fact(
        "recompilations by numbers", f"{by_number:,}", matrix_says.NUMBERS if by_number else ""
    )
    yield fact(
        "host syncs",
        f"{records.host_syncs:,}{_a_step(ledger)}",
        "torch.Tensor.item" if records.host_syncs else "",
    )
    fallbacks = records.cpu_fallbacks
    yield fact(
        "CPU fallbacks", f"{fallbacks:,}", "operators without a Gaudi kernel" if fallbacks else ""
    )
    demoted = {one.what for one in records.demotion_lines}
    yield fact("dtypes kept narrower", "; ".join(sorted(demoted)) or "none")
    yield fact(
        "copied to the device",
        f"{records.host_to_device:,} times, {bytes_text(records.host_to_device_bytes)}",
    )
    yield fact(
        "copied to the host",
        f"{records.device_to_host:,} times, {bytes_text(records.device_to_host_bytes)}",
    )
    if records.collectives:
        groups = {(group.backend, group.size) for group in records.process_groups}
        named = ", ".join(f"{backend} of {size}" for backend, size in sorted(groups))
        yield fact("collectives", f"{records.collectives:,} over {named}")
    if records.parameters:
        yield fact(
            "parameters at the first step",
            ", ".join(f"{n:,} on {d}" for d, n in sorted(records.parameters.items())),
        )


def _first(records: Records) -> str:
    """Where a shape was another for the first time: what comes after it follows from it."""
    causes = records.recompilation_causes
    first = next((cause for cause in causes if not cause.by_number and cause.line), None)
    return f"; the first at {Path(first.file).name}:{first.line}" if first else ""


def _a_step(ledger: Ledger) -> str:
    steps, syncs = ledger.later
    return f"; {syncs / steps:.3g} a step, the first step left out" if steps else ""


def _memory(ledger: Ledger, matrix: Matrix) -> Iterable[Fact]:
    peak = ledger.joined.peak_bytes
    largest = " of the process that took most" if ledger.processes > 1 else ""
    says = matrix_says.of_row(matrix, matrix_says.MEMORY)
    yield Fact(
        "peak",
        f"{bytes_text(peak)}{largest}; a lower bound: a Gaudi rounds blocks up and takes a workspace for each graph",
        says,
    )
    for name in ("gaudi2", "gaudi3"):
        info = matrix.generations.get(name)
        if info is not None:
            share = 100 * peak / info.memory_bytes
            fits = "" if share <= 100 else ": more than the device has"
            yield Fact(f"of the {info.memory_gb} GB of a {info.title}", f"{share:.3g} %{fits}")


def _after(records: Records) -> dict[str, int]:
    """What happened after the last step of an optimizer, such as a checkpoint that is written."""
    if not records.steps.entries:
        return {}
    # A graph that was pending after the last step is compiled where the host next reads.
    names = ("operators", "recompilations", "host_syncs", "device_to_host", "device_to_host_bytes")
    done = {n: sum(entry.get(n, 0) for entry in records.steps.entries) for n in names}
    return {n: max(0, int(getattr(records, n)) - done[n]) for n in names}


def _breaks(records: Records) -> tuple[Break, ...]:
    return tuple(sorted(records.graph_breaks, key=lambda one: -one.count))


def _notes(ledger: Ledger, lines: tuple[Line, ...]) -> Iterable[str]:
    yield (
        "Emulated: counts of what the program did, in host memory. Nothing here is a Gaudi's speed, and nothing here was "
        "run on a Gaudi."
    )
    if not ledger.joined.sites and ledger.joined.operators:
        yield "No line was recorded."
    for name, lost in ledger.left_out:
        yield (
            f"{name or 'The first process'}: {lost.sites:,} events at further lines and {lost.recompilation_causes:,} causes of "
            "recompilations had no room and are missing here; the totals count them."
        )
    changed = _changed_since((line.file for line in lines if line.own), ledger.written)
    if changed:
        yield f"Changed since the run, so that its lines may have moved: {', '.join(changed)}; run it again."
    if ledger.unfinished:
        yield f"Not finished, and so not counted: {', '.join(Path(name).name for name in ledger.unfinished)}."


def _changed_since(files: Iterable[str], written: float) -> list[str]:
    """Files, by their names, that were written later than the ledger."""
    changed = []
    for file in dict.fromkeys(files):
        try:
            later = Path(file).stat().st_mtime > written
        except (OSError, ValueError):
            continue
        if later:
            changed.append(Path(file).name)
    return changed


def _lines(records: Records, matrix: Matrix, below: Path, written: float) -> tuple[Line, ...]:
    sites: dict[tuple[str, int], list[Site]] = {}
    for site in records.sites:
        sites.setdefault((site.file, site.line), []).append(site)
    by_place: dict[tuple[str, int], list[Cause]] = {}
    first_change: dict[tuple[str, int], int] = {}
    for at, cause in enumerate(records.recompilation_causes, 1):
        by_place.setdefault((cause.file, cause.line), []).append(cause)
        if not cause.by_number:
            first_change.setdefault((cause.file, cause.line), at)
    sources = _Sources(written)
    lines = []
    for (file, number), found in sites.items():
        here = by_place.get((file, number), [])
        events = events_of(found, here, matrix)
        if events:
            lines.append(
                Line(
                    file,
                    number,
                    is_own(file),
                    _shown(file, below),
                    sources.line(file, number),
                    events,
                    first_change.get((file, number), 0),
                )
            )
    return tuple(sorted(lines, key=lambda one: (not one.own, one.file, one.line)))


def is_own(file: str) -> bool:
    """Whether a file is the user's own: not installed, and a file at all."""
    return not file.startswith("<") and not _LIBRARIES.intersection(Path(file).parts)


def _shown(file: str, below: Path) -> str:
    path = Path(file)
    if path.is_relative_to(below):
        return str(path.relative_to(below))
    parts = path.parts
    for at in range(len(parts) - 1, 0, -1):
        if parts[at] in _LIBRARIES:
            return str(Path(*parts[at + 1 :]))
    return file


class _Sources:
    """Lines of source, as long as the files are those that ran: unchanged since the ledger was written."""

    def __init__(self, written: float) -> None:
        self._written = written
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """The line, without blanks around it; empty where it cannot be had."""
        if file not in self._files:
            self._files[file] = self._read(file) if len(self._files) < _MOST_FILES else []
        lines = self._files[file]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def _read(self, file: str) -> list[str]:
        path = Path(file)
        try:
            if path.suffix != ".py" or path.stat().st_mtime > self._written:
                return []
            return safe_files.read(path, _SOURCE_LIMIT).decode("utf-8-sig", "replace").split("\n")
        except (OSError, ValueError):
            return []


def steps_text(steps: Steps) -> str:
    """``8 steps of 2 optimizers``."""
    if not steps.count:
        return "no step of an optimizer was seen"
    whose = "one optimizer" if steps.optimizers == 1 else f"{steps.optimizers} optimizers"
    return f"{counted(steps.count, 'step')} of {whose}"
