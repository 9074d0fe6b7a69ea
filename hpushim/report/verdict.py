"""The verdict on a project: one word, and one sentence or two in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from hpushim.model import ABSENT
from hpushim.report.work import (
    BUILDERS,
    CARRIES,
    KERNELS,
    in_words,
    is_on_the_way,
    is_required,
    optional_kernels,
    span,
)

if TYPE_CHECKING:
    from hpushim.model import Dependency, DependencyKind, Report
    from hpushim.report.assessment import Item, LineCounts
    from hpushim.report.work import Work

#: ``blocked``: something that decides has no counterpart on Gaudi, or the core of the project is CUDA kernels.
Verdict = Literal[
    "ready",
    "ready with --unsafe",
    "needs work",
    "blocked",
    "nothing to do",
    "nothing new",
    "nothing looked at",
    "incomplete",
]
#: Where work is that a training run by the defaults does not come to: options, other models, other scripts, tests.
CHOSEN = "in parts that the training run does not use by default"
#: A project is one of kernels when one line in so many is in a CUDA source or in a Python file that holds or builds kernels.
_ONE_IN = 5


def decide(
    report: Report, items: Sequence[Item], lines: LineCounts, works: Sequence[Work]
) -> tuple[Verdict, str]:
    """The verdict, from the worst that was found in files that a training run needs."""
    verdict, sentence = _worst(report, items, works)
    verdict, sentence = _with_dependencies(report, verdict, sentence)
    if lines.total and verdict not in _NOTHING:
        sentence += f" {_share(lines)}"
    if report.hidden is not None:
        hidden = f"{count(report.hidden, 'known finding')} {_verb(report.hidden, 'is')} not shown."
        verdict = verdict if items else "nothing new"
        sentence = f"{sentence} {hidden}" if items else f"No new finding. {hidden}"
    if report.other_framework:
        verdict = "needs work"
        sentence = f"This code uses {report.other_framework}, not torch. hpushim checks torch code only and did not check the training here. {sentence}"
    unread = {item.path for item in items if item.trouble == "unread"}
    unread |= {file.path for file in report.files if file.status == "failed"}
    if unread and unread <= report.around:
        sentence += f" {count(len(unread), 'file')} that no training program imports could not be read or rewritten in full."
    elif unread:
        if verdict not in ("blocked", "needs work"):
            verdict = "incomplete"  # what is in them may change the verdict
        sentence = f"{count(len(unread), 'file')} could not be read or rewritten in full. For the other files: {sentence}"
    return verdict, sentence


_NOTHING: frozenset[Verdict] = frozenset({"nothing to do", "nothing looked at"})


def _with_dependencies(report: Report, verdict: Verdict, sentence: str) -> tuple[Verdict, str]:
    """The verdict where packages that the project imports decide; what nobody assessed is counted."""
    needs = [each for each in report.dependencies if each.kind in NEED_CUDA and each.required]
    if needs:
        names = ", ".join(f"{each.name} ({count(each.files, 'file')})" for each in needs[:3])
        more = f" and {len(needs) - 3:,} more" if len(needs) > 3 else ""
        sentence += f" {names}{more} {_verb(len(needs), 'needs')} CUDA."
        verdict = verdict if verdict in ("blocked", "incomplete") else "needs work"
    python = sum(file.path.endswith(".py") for file in report.files)
    open_ones = [e for e in report.dependencies if e.files and not e.aside and _is_open(e)]
    decisive = [each for each in open_ones if each.files * CARRIES >= python and each.files > 2]
    if report.trained_by in {each.name for each in open_ones} and verdict not in _NOTHING:
        decisive = [each for each in open_ones if each.name == report.trained_by]
        sentence = (
            f"The training loop is in {_named(decisive)}: assess that package first. {sentence}"
        )
        verdict = verdict if verdict == "blocked" else "needs work"
    absent = [each for each in open_ones if each.evidence == ABSENT and each.required]
    if absent and verdict not in _NOTHING:
        sentence = f"{_named(absent)} {_verb(len(absent), 'is')} not in this checkout: fetch and assess it before you plan. {sentence}"
        verdict = verdict if verdict in ("blocked", "needs work") else "incomplete"
    trains = decisive if report.trained_by in {each.name for each in decisive} else []
    rest = [each for each in open_ones if each not in [*trains, *absent]]
    unknown = [each for each in rest if each.kind == "not assessed"]
    unsure = [each for each in rest if each.kind != "not assessed"]
    said = []
    if unknown:
        it, package = ("it", "package") if len(unknown) == 1 else ("them", "packages")
        said.append(f"Not counted: work for the {package} {_named(unknown)}; to assess {it}, add `--env PYTHON`, the path of a Python that has {it} installed.")  # fmt: skip
    if unsure:
        said.append(f"No source shows whether {_named(unsure)} {_verb(len(unsure), 'works')} on Gaudi.")  # fmt: skip
    first = decisive and verdict not in _NOTHING
    sentence = " ".join([*said, sentence] if first else [sentence, *said])
    return verdict, sentence


def _is_open(each: Dependency) -> bool:
    """Does nobody know whether the package works on Gaudi?"""
    return each.kind == "not assessed" or each.status == "unknown"


def _named(some: Sequence[Dependency]) -> str:
    """The first three."""
    names = ", ".join(f"`{each.name}`" for each in some[:3])
    return names + (f" and {len(some) - 3:,} more" if len(some) > 3 else "")


#: The kinds of packages that do not work without CUDA.
NEED_CUDA: frozenset[DependencyKind] = frozenset(
    {"compiled for CUDA", "builds CUDA", "Triton kernels", "demands CUDA tensors"}
)


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 place``, ``1,200 places``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _share(lines: LineCounts) -> str:
    free = lines.total - lines.by_hand
    need = _verb(lines.total, "needs")
    return f"{free:,} of {count(lines.total, 'line')} with a finding ({lines.share}%) {need} no manual work."


def _worst(report: Report, items: Sequence[Item], works: Sequence[Work]) -> tuple[Verdict, str]:
    open_ones = [item for item in items if item.handling == "by-hand"]
    kernels = [item for item in open_ones if item.trouble == "kernels"]
    required = [work for work in works if work.required]
    if _is_core(report, kernels):
        return "blocked", _core(report, kernels, required)
    missing = [work for work in required if work.effort == "none"]
    if missing:
        rest = [work for work in required if work.effort != "none"]
        more = f" Besides: {_amount(rest)}" if rest else ""
        return "blocked", f"{count(len(missing), 'thing')} that the project needs {_verb(len(missing), 'has')} no counterpart on Gaudi: {_first(missing[0])}.{more}"  # fmt: skip
    if required:
        return "needs work", f"{_why(open_ones)}{_amount(required)}{_later(works)}"
    return _passable(report, items, works)


def _why(open_ones: Sequence[Item]) -> str:
    """What is wrong, where nothing stops."""
    if any(item.trouble in ("stops", "kernels") for item in open_ones):
        return ""
    on_cpu = [item for item in open_ones if item.trouble == "cpu"]
    if not on_cpu:
        return "No source says what Gaudi does in some places. "
    by_library = all(item.finding.row for item in on_cpu)
    why = "a library puts the model there" if by_library else "the code never moves the model to Gaudi"  # fmt: skip
    return f"Training stays on the CPU: {why}. "


def _amount(required: Sequence[Work]) -> str:
    """How much there is to do before the program trains on Gaudi."""
    places = sum(len(work.places) for work in required)
    least, most = span(required)
    return f"{count(len(required), 'piece')} of work by hand ({count(places, 'place')}) {_verb(len(required), 'is')} left before it trains on Gaudi: {in_words(least, most)}."


def _later(works: Sequence[Work]) -> str:
    """The work for what somebody may choose, and the work that training does not wait for."""
    some = [work for work in works if work.chosen]
    rest = [work for work in works if not work.required and not work.chosen]
    sentence = ""
    if some:
        missing = [work for work in some if work.effort == "none"]
        none = f" No counterpart on Gaudi: {_first(missing[0])}." if missing else ""
        sentence = f" {CHOSEN.capitalize()}: {count(len(some), 'piece')} of work by hand{_takes(some)}.{none}"
    if rest:
        sentence += f" Not needed to start training: {count(len(rest), 'piece')} of work by hand{_takes(rest)}."
    return sentence


def _first(work: Work) -> str:
    """What it is about, or what happens there: how its message begins."""
    return re.split(r"(?<=[.;:]) ", work.message, maxsplit=1)[0].rstrip(".;:")


def _takes(works: Sequence[Work]) -> str:
    least, most = span(works)
    return f" ({in_words(least, most)})" if most else ""


def _passable(report: Report, items: Sequence[Item], works: Sequence[Work]) -> tuple[Verdict, str]:
    waiting = [item for item in items if item.handling in ("safe", "unsafe")]
    what = _what(report)
    if any(file.path == report.program and file.status == "failed" for file in report.files):
        what = "them"  # the files that could be read
    if waiting:
        unsafe = [i for i in waiting if i.handling == "unsafe" and i.finding.severity == "error"]
        held = any(is_on_the_way(item, report) for item in unsafe)
        command = f"`hpushim migrate{' --unsafe' if held else ''}`"
        some = [] if held else [item for item in unsafe if item.path not in report.around]
        also = f" `hpushim migrate --unsafe` rewrites {count(len(some), 'more place')} {CHOSEN}." if some else ""  # fmt: skip
        sentence = f"After {command}, no finding stops {what} on Gaudi.{_reference(report, works)}{also}{_later(works)}"
        return "ready with --unsafe" if held else "ready", sentence
    if all(file.status == "skipped" for file in report.files):
        return "nothing looked at", "No file here is of a kind that hpushim reads."
    if not any(item.handling != "note" for item in items):
        return "nothing to do", _aside(report, len(items))
    return (
        "ready",
        f"No finding stops {what} on Gaudi.{_reference(report, works)}{_later(works)}",
    )


def _what(report: Report) -> str:
    return "the training code" if report.around else "the program"


def _reference(report: Report, works: Sequence[Work]) -> str:
    """What runs where the project's own kernels do not, and nothing stops for that."""
    if any(work.least >= KERNELS[0] and not work.aside for work in works):
        return ""  # some of it has nothing else
    needed = {PurePath(file.path).parent for file in report.files if file.path.endswith(".py")
              and file.path not in report.around}  # fmt: skip
    if not any(needed & {*PurePath(kernel.path).parents[:2]} for kernel in report.kernels):
        return ""
    its = _verb(len(report.kernels), "does")
    return (
        f" {_sources(report)} {its} not run there; the project has other, slower code for the same."
    )


def _is_core(report: Report, kernels: Sequence[Item]) -> bool:
    """Is a good part of the code in CUDA sources, or in Python files that hold, build or register kernels?

    Not where all imports of what the sources build are optional or guarded: then the project also runs without it.
    """
    if optional_kernels(report):
        kernels = [
            item
            for item in kernels
            if PurePath(item.path).name not in BUILDERS
            and item.finding.severity == "error"
            and item.path not in report.chosen
            and item.path not in report.around
        ]
        if not kernels:
            return False
    if kernels and not any(is_required(i) and is_on_the_way(i, report) for i in kernels):
        return False
    lines = {file.path: _length(file.before) for file in report.files}
    python = sum(lines[path] for path in {item.path for item in kernels})
    sources = sum(file.lines for file in report.kernels)
    return (python + sources) * _ONE_IN >= max(report.python_lines + sources, 1)


def _length(data: bytes | None) -> int:
    return data.count(b"\n") if data else 0


def _core(report: Report, kernels: Sequence[Item], required: Sequence[Work]) -> str:
    parts = []
    if report.kernels:
        parts.append(_sources(report))
    if kernels:
        parts.append(f"{count(len(kernels), 'place')} in Python that {_verb(len(kernels), 'holds')}, {_verb(len(kernels), 'builds')} or {_verb(len(kernels), 'registers')} kernels")  # fmt: skip
    places = {f"{item.path}:{item.finding.line}" for item in kernels}
    besides = [w for w in required if w.effort != "none" and places.isdisjoint(w.places)]
    more = f" Besides the kernels, {_amount(besides)}" if besides else ""
    return (
        f"The core of this project is kernels for NVIDIA GPUs: {', and '.join(parts)}. Gaudi cannot run them, and hpushim does not "
        f"convert them; write them with torch operators, or as kernels for Gaudi's processor cores (TPC).{more}"
    )


def _sources(report: Report) -> str:
    total = sum(file.lines for file in report.kernels)
    return f"{count(len(report.kernels), 'CUDA source file')} of {count(total, 'line')}"


def _aside(report: Report, notes: int) -> str:
    besides = f", which {_verb(len(report.kernels), 'needs')} CUDA" if report.kernels else ""
    also = f" The project also has {_sources(report)}{besides}." if report.kernels else ""
    if notes:
        return f"Nothing to change; {count(notes, 'note')}.{also}"
    return f"Nothing in these files is specific to CUDA.{also}"


def _verb(number: int, one: str) -> str:
    """``stops`` for one place, ``stop`` for several."""
    irregular = {"does": "do", "has": "have", "is": "are"}
    return one if number == 1 else irregular.get(one) or one.removesuffix("s")
