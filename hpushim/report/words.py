"""The words that the formats share: who does what, what it takes, for what the report was made."""

from __future__ import annotations

import re

from hpushim import showing
from hpushim.model import Dependency, DependencyKind, Effort, Report
from hpushim.report.assessment import TROUBLES, Assessment, Item, Summary, Trouble
from hpushim.report.verdict import CHOSEN, count
from hpushim.report.work import Work, in_words

#: Severity as a word; what the word means.
SEVERITIES = {
    "error": "stops on Gaudi, or leaves Gaudi unused",
    "warning": "runs with other results, speed or behaviour, or stops only if the program gets there",
    "unknown": "hpushim does not know what the code or Gaudi does",
    "note": "advice, no action required",
}
EFFORTS: dict[Effort, str] = {
    "minutes": "minutes",
    "hours": "hours",
    "none": "no counterpart on Gaudi",
}


_NEEDED = "before it trains on Gaudi"


def doer(item: Item) -> str:
    """Who takes care of a finding, in a word or two; empty for a note, of which nobody has to."""
    if item.effort == "none":
        return f"by hand: {EFFORTS['none']}"
    return {"rewritten": "rewritten", "safe": "migrate", "unsafe": "migrate --unsafe", "by-hand": "by hand", "note": ""}[item.handling]  # fmt: skip


def heading(made: Assessment, trouble: Trouble) -> str:
    """The heading of a group; where what stops is no part of the training run, it says so."""
    group = made.groups[trouble] if trouble == "stops" else ()
    needs = {place: when(each) for each in reversed(made.summary.work) for place in each.places}
    needed = {needs.get(f"{item.path}:{item.finding.line}", _NEEDED) for item in group}
    later = (
        f", {min(needed)}" if needed and _NEEDED not in needed else ""
    )  # `in parts …` before `not needed …`
    return f"{TROUBLES[trouble]}{later}"


def needed(made: Assessment, trouble: Trouble) -> str:
    """How much of what stops has to be done before the program trains, where that is a part of it."""
    group = made.groups[trouble] if trouble == "stops" else ()
    first = {place for each in made.summary.work if each.required for place in each.places}
    number = sum(f"{item.path}:{item.finding.line}" in first for item in group)
    return f" ({number:,} of them to repair {_NEEDED})" if 0 < number < len(group) else ""


def doubt(item: Item) -> str:
    """How sure the fact behind it is, where it is not stated by a source."""
    if item.unknown:
        return "unknown"
    return "inferred" if item.inferred else ""


def tags(item: Item) -> str:
    """``[migrate]``, ``[by hand: hours] (inferred)``; empty where there is nothing to say."""
    marks = [f"[{who}]"] if (who := doer(item)) else []
    if doubt(item):
        marks.append(f"({doubt(item)})")
    return " ".join(marks)


#: What the marks behind a message say, by what begins them.
_MARKS = {
    "[migrate]": "`hpushim migrate` rewrites it",
    "[migrate --unsafe]": "rewritten with --unsafe only, since the rewrite may be wrong",
    "[by hand": 'a person has to look at it; the list "By hand" says how long that may take',
    "(inferred)": "concluded from a source that does not say it itself",
    "(unknown)": "hpushim does not know what the code or Gaudi does",
}
#: Terms of Gaudi that messages use, and what they mean.
_TERMS = {
    r"(?:lazy|eager) mode": "eager mode (PT_HPU_LAZY_MODE=0): Gaudi runs each operation as it comes; lazy mode (PT_HPU_LAZY_MODE=1): it collects operations and runs them at the next `mark_step()`",
    r"\bgraph\b": "graph: operations that Gaudi compiles and runs as one (in eager mode, a single operation); for each new shape of a tensor it compiles another graph, which takes time",
    r"lightning-habana": "lightning-habana: Intel's plugin for Lightning, up to Lightning 2.5.5",
    r"\(TPC\)": "TPC: Gaudi's programmable processor cores, for which kernels are written in a language of their own",
    r"\bhccl\b": "hccl: Gaudi's backend of torch.distributed, in the place of NCCL",
}


def legend(made: Assessment) -> tuple[str, ...]:
    """What the severities, the marks and the terms of a report mean; those that it uses."""
    severities = {item.finding.severity for item in made.items}
    marks = " ".join({tags(item) for item in made.items})
    messages = "\n".join({item.finding.message for item in made.items})
    lines = (
        [f"{name}: {does}" for name, does in SEVERITIES.items() if name in severities],
        [f"{mark}{']' * mark.startswith('[b')}: {does}" for mark, does in _MARKS.items() if mark in marks],
        [does for term, does in _TERMS.items() if re.search(term, messages)],
    )  # fmt: skip
    return tuple("; ".join(line) for line in lines if line)


def when(found: Work) -> str:
    """Until when a piece of work has to be done."""
    if found.required:
        return _NEEDED
    return CHOSEN if found.chosen else "not needed to start training"


def work(found: Work) -> tuple[str, str, str]:
    """A piece of work in three cells: how long, what, where."""
    takes = in_words(found.least, found.most) if found.most else "no counterpart on Gaudi"
    path, line = found.places[0].rsplit(":", 1)
    where = f"{showing.quoted(path)}:{line}"
    if found.function:
        where += f" in {found.function}"
    if len(found.places) > 1:
        files = len({place.rsplit(":", 1)[0] for place in found.places})
        where += f" and {count(len(found.places) - 1, 'more place')}"
        where += f" ({count(files, 'file')})" if files > 1 else ""
    return takes, f"{found.code} {found.message}", where


#: What the files of a package mean for the project, by their kind.
_MEANING: dict[DependencyKind, str] = {
    "compiled for CUDA": "compiled for CUDA, and its code does not mention hpu",
    "builds CUDA": "ships or builds CUDA kernels, and its code does not mention hpu",
    "Triton kernels": "has Triton kernels, and its code does not mention hpu",
    "demands CUDA tensors": "rejects tensors that are not on CUDA",
    "chooses its device": "selects CUDA or the CPU itself in places, so the CPU on Gaudi; under `hpushim run` it uses the device",
}


def dependencies(report: Report) -> tuple[tuple[str, str], ...]:
    """The dependencies that need a look, each with what is known of it, then how many others there are, and those not assessed."""
    found: list[tuple[str, str]] = []
    for each in report.dependencies:
        if meaning := _MEANING.get(each.kind):
            version = f" {each.version}" if each.version else ""
            found.append((f"{each.name}{version}", f"{_in_files(each)}: {meaning} ({each.evidence})"))  # fmt: skip
    for kind, what in _OTHERS.items():
        some = sorted((d for d in report.dependencies if d.kind == kind), key=lambda d: not d.files)
        if some:
            hidden = some[_MOST:]
            only = "is only a requirement" if len(hidden) == 1 else "are only requirements"
            which = "more" if any(each.files for each in hidden) else f"that {only}"
            more = f" and {len(hidden):,} {which}" if hidden else ""
            shown = ", ".join(f"{each.name} ({each.files:,})" for each in some[:_MOST])
            found.append((what, f"{shown}{more}"))
    return tuple(found)


_MOST = 12
_PROGRAMS = 3
_OTHERS: dict[DependencyKind, str] = {
    "by row": "listed in the compatibility matrix (a finding says what to change, if anything)",
    "knows hpu": "mention hpu in their own code",
    "plain Python": "without CUDA code",
    "not assessed": "not assessed (not in the matrix, and not installed where hpushim runs)",
}


def _in_files(each: Dependency) -> str:
    return count(each.files, "file") if each.files else "required"


def amount(summary: Summary) -> str:
    """``6 pieces of work, 2 to 9 hours``."""
    takes = f", {in_words(summary.least, summary.most)}" if summary.most else ""
    sources = summary.verdict == "blocked" and summary.kernel_files
    return f"{count(len(summary.work), 'piece')} of work{takes}{', without the CUDA sources' if sources else ''}"


_MODES = {"portable": " (for lazy and eager mode)"}
_STYLES = {"native": "code for hpu", "dual": "code for cuda and hpu", "agnostic": "code for any accelerator"}  # fmt: skip


def setting(report: Report) -> str:
    """What it was assessed for, and by which table."""
    target = report.target
    matrix = f"; compatibility matrix {report.matrix}" if report.matrix else ""
    return f"{target.gaudi}, Gaudi software {target.stack}, mode {target.mode}{_MODES.get(target.mode, '')}, style {target.style} ({_STYLES[target.style]}){matrix}"


def files(assessment: Assessment) -> str:
    """How many files there are and what became of them."""
    s = assessment.summary
    size = f", +{s.lines_added:,} -{s.lines_removed:,} lines" if s.changed else ""
    kernels = (
        f"; also {count(s.kernel_files, 'CUDA source')} ({count(s.kernel_lines, 'line')}), which hpushim does not check"
        if s.kernel_files
        else ""
    )
    if assessment.report.stage == "before":
        done = f"{s.files - s.skipped - s.failed:,} checked"
    else:
        done = f"{s.changed:,} changed, {s.unchanged:,} unchanged"
    return f"{s.files:,} ({done}, {s.skipped:,} skipped, {s.failed:,} failed){size}{kernels}"


def trains(report: Report) -> str:
    """The programs that train, each with what shows it; empty where none is known."""
    if report.trained_by:
        return (
            f"{showing.quoted(report.program)}, with a program of the package `{report.trained_by}`"
        )
    shown = [f"{showing.quoted(each.path)} ({each.why})" for each in report.programs[:_PROGRAMS]]
    more = len(report.programs) - len(shown)
    return ", ".join(shown) + (f" and {count(more, 'more program')}" if more else "")


def by_severity(assessment: Assessment) -> str:
    """All findings by severity."""
    s = assessment.summary
    unknown = f" + {s.undetermined:,} unknown" if s.undetermined else ""
    return f"{s.findings:,} = {count(s.errors, 'error')} + {count(s.warnings, 'warning')}{unknown} + {count(s.notes, 'note')}"


def by_handling(assessment: Assessment) -> str:
    """All findings by who takes care of them."""
    s = assessment.summary
    made = f"{s.applied:,} rewritten + " if assessment.report.stage != "before" else ""
    return (
        f"{s.findings:,} = {made}{s.pending_safe:,} for migrate + {s.pending_unsafe:,} for migrate --unsafe"
        f" + {s.manual:,} by hand + {s.no_action:,} for information"
    )


def steps(assessment: Assessment) -> tuple[tuple[str, str], ...]:
    """What to do next, and what each step does."""
    s, stage = assessment.summary, assessment.report.stage
    found: list[tuple[str, str]] = []
    if s.pending_safe and stage != "migrated":
        found.append(("hpushim migrate", f"makes {count(s.pending_safe, 'rewrite')}"))
    elif s.pending_safe:
        why = "blocked by another finding; resolve that finding first"
        found.append(("by hand", f"{count(s.pending_safe, 'rewrite')} {why}"))
    if s.pending_unsafe:
        what = f"makes {s.pending_unsafe:,} more that may be wrong: review the diff"
        found.append(("hpushim migrate --unsafe", what))
    if s.manual:
        listed = "; `hpushim check` lists them" if stage == "migrated" else ""
        found.append(("by hand", f"{amount(s)}{listed}"))
    return (*found, *_runs(assessment)) if s.applied or s.pending_safe else tuple(found)


def _runs(assessment: Assessment) -> tuple[tuple[str, str], ...]:
    """How to run the project: unedited or as it was migrated, then what compares the two and what takes a migration back."""
    script, migrated = (
        showing.quoted(assessment.report.program),
        assessment.report.stage == "migrated",
    )
    found: list[tuple[str, str]] = []
    for option in assessment.report.device_options[:1]:
        after = "" if migrated else ", after migrate"
        found.append(
            (
                f"{option} hpu",
                f"replaces {option} cuda in the commands that start your scripts{after}",
            )
        )
    failed = {file.path for file in assessment.report.files if file.status == "failed"}
    if script.endswith(".sh") or assessment.report.program in failed:
        pass  # it starts a program of another package, or cannot be read
    elif script and migrated:
        native = f"hpushim run --native {script}"
        found.append((native, "runs the migrated script, on Gaudi or emulated"))
    elif script:
        found.append((f"hpushim run {script}", "runs the script unedited, on Gaudi or emulated"))
        compares = "compares three runs step by step: the unedited script on the CPU and on hpu, and the migrated copy"
        found.append((f"hpushim prove {script}", compares))
    if migrated:
        found.append(("hpushim migrate --undo", "restores every file"))
    return tuple(found)
