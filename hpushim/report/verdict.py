"""The verdict on a project: one word, and one sentence or two in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hpushim.model import Report
    from hpushim.report.assessment import Item, LineCounts

#: ``kernels``: the core of the project is code for CUDA devices, which nothing here converts.
Verdict = Literal["clean", "ready", "handled", "needs-you", "kernels", "incomplete"]
#: A project is one of kernels when one line in so many is in a CUDA source or in a Python file that holds or builds kernels.
_ONE_IN = 5


def decide(report: Report, items: Sequence[Item], lines: LineCounts) -> tuple[Verdict, str]:
    """The verdict, from the worst that was found."""
    verdict, sentence = _worst(report, items)
    if lines.total and verdict != "clean":
        sentence += f" {_share(lines)}"
    if report.other_framework:
        verdict = "needs-you"
        sentence = f"This code uses {report.other_framework}, not torch. hpushim checks torch code only and did not check the training here. {sentence}"
    unread = {item.path for item in items if item.trouble == "unread"}
    unread |= {file.path for file in report.files if file.status == "failed"}
    if unread:
        verdict = "incomplete"
        sentence = f"{count(len(unread), 'file')} could not be read or rewritten in full. For the other files: {sentence}"
    return verdict, sentence


def count(number: int, noun: str) -> str:
    """``1 place``, ``1,200 places``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _share(lines: LineCounts) -> str:
    free = lines.total - lines.by_hand
    unsafe = f", {lines.unsafe:,} of them only with `--unsafe`" if lines.unsafe else ""
    need = _verb(lines.total, "needs")
    return f"{free:,} of {count(lines.total, 'CUDA line')} ({lines.share}%) {need} no manual work{unsafe}."


def _worst(report: Report, items: Sequence[Item]) -> tuple[Verdict, str]:
    open_ones = [item for item in items if item.handling == "by-hand"]
    stopping = sum(item.trouble == "stops" for item in open_ones)
    kernels = [item for item in open_ones if item.trouble == "kernels"]
    if _is_core(report, kernels):
        return "kernels", _core(report, kernels, stopping)
    blocking = stopping + sum(item.finding.severity == "error" for item in kernels)
    if blocking:
        return (
            "needs-you",
            f"{count(blocking, 'place')} {_verb(blocking, 'stops')} on Gaudi and {_verb(blocking, 'needs')} you.",
        )
    on_cpu = [item for item in open_ones if item.trouble == "cpu"]
    if on_cpu:
        by_library = all(item.basis.effect == "cpu" for item in on_cpu)
        why = (
            "a library puts the model there"
            if by_library
            else "the code never moves the model to Gaudi"
        )
        return "needs-you", f"Training stays on the CPU: {why}."
    dark = sum(item.finding.severity == "unknown" for item in open_ones)
    if dark:
        return (
            "needs-you",
            f"{count(dark, 'place')} {_verb(dark, 'needs')} you: no source says what Gaudi does there.",
        )
    return _passable(report, items, len(open_ones))


def _passable(report: Report, items: Sequence[Item], by_hand: int) -> tuple[Verdict, str]:
    waiting = [item for item in items if item.handling in ("safe", "unsafe")]
    more = f"; review {count(by_hand, 'place')} by hand." if by_hand else "."
    if waiting:
        held = any(i.handling == "unsafe" and i.finding.severity == "error" for i in waiting)
        command = f"`hpushim migrate{' --unsafe' if held else ''}`"
        return "ready", f"After {command}, no finding stops the program on Gaudi{more}"
    if not any(item.handling != "note" for item in items):
        if report.kernels:
            return "clean", _aside(report)
        return "clean", "Nothing in these files is specific to CUDA."
    return "handled", f"No finding stops the program on Gaudi{more}"


def _is_core(report: Report, kernels: Sequence[Item]) -> bool:
    """Is a good part of the code in CUDA sources, or in Python files that hold, build or register kernels?"""
    lines = {file.path: _length(file.before) for file in report.files}
    python = sum(lines[path] for path in {item.path for item in kernels})
    sources = sum(file.lines for file in report.kernels)
    return (python + sources) * _ONE_IN >= max(report.python_lines + sources, 1)


def _length(data: bytes | None) -> int:
    return data.count(b"\n") if data else 0


def _core(report: Report, kernels: Sequence[Item], stopping: int) -> str:
    parts = []
    if report.kernels:
        parts.append(_sources(report))
    if kernels:
        parts.append(f"{count(len(kernels), 'place')} in Python that {_verb(len(kernels), 'holds')}, {_verb(len(kernels), 'builds')} or {_verb(len(kernels), 'registers')} kernels")  # fmt: skip
    more = (
        f" {count(stopping, 'more place')} {_verb(stopping, 'stops')} on Gaudi." if stopping else ""
    )
    return (
        f"The core of this project is kernels for NVIDIA GPUs: {', and '.join(parts)}. Gaudi cannot run them, and hpushim does not "
        f"convert them; write them with torch operators, or for Gaudi's TPC.{more}"
    )


def _sources(report: Report) -> str:
    total = sum(file.lines for file in report.kernels)
    return f"{count(len(report.kernels), 'CUDA source file')} of {count(total, 'line')}"


def _aside(report: Report) -> str:
    return f"Nothing in the files that hpushim reads is specific to CUDA. The project also has {_sources(report)}, which Gaudi cannot run."


def _verb(number: int, one: str) -> str:
    """``stops`` for one place, ``stop`` for several."""
    return one if number == 1 else one.removesuffix("s")
