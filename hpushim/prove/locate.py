"""Where two runs part: the step, the operator, the line, the rewrite.

An uncaught error names its line. Where numbers part, both runs are made once more up to that step, with the result of each
operator; the first that differs has a line. Where no rewrite is there, the changes of the copy are divided: the original with
some of them, under the shim, until one alone makes the difference.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hpushim.model import Finding
from hpushim.prove import hunks as hunk_tools
from hpushim.prove.compare import BITS, Difference, compare, first_operator
from hpushim.prove.hunks import Hunk
from hpushim.prove.runs import Run

if TYPE_CHECKING:
    from hpushim.prove.trial import Outcome, Trial

_MOST_RUNS = 10  # before the changes are divided
_MOST_REPAIRS = 4  # lines that still name CUDA
_MOST_PARTS = 7  # runs with a part of the changes: each halves them
_MOST_SHOWN = 3  # findings
_CODE = re.compile(r"HPU\d{3}")
_OF_VALUES = ("loss", "gradients", "parameters", BITS)


class Cause(msgspec.Struct):
    """Where the runs part: in lines of the original, with the rewrite that is there; ``shows`` where it shows first."""

    step: int = 0
    operator: str = ""
    shows: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    name: str = ""
    how: str = ""

    def shown(self) -> str:
        """In words, for the verdict."""
        parts = [f"from step {self.step}"] if self.step else []
        if self.file:
            parts.append(f"by {self.file}:{self.line}")
            if self.code:
                parts.append(f"rewrite {self.code} {self.name}".rstrip())
        elif self.shows:
            parts.append(f"first at {self.shows}")
        return ", ".join(parts)


def locate(trial: Trial, outcome: Outcome) -> Cause:
    """Where the runs of an outcome part; as much of it as is known."""
    difference = outcome.difference
    assert difference is not None
    return _Search(trial, outcome, difference).cause


class _Search:
    def __init__(self, trial: Trial, outcome: Outcome, difference: Difference) -> None:
        self.trial = trial
        self.outcome = outcome
        self.copy = outcome.migrated
        self.shim, self.native = outcome.runs[-2:]
        self.hunks = trial.changes(outcome.report, self.copy)
        self.cause = Cause(step=difference.step)
        self.wrong = difference
        #: The line of the original whose operators the copy lacks.
        self.missing: tuple[str, int] | None = None
        self.float32 = False
        if outcome.comparisons[0].difference is not difference:
            self._against_cpu(difference)
            return
        place = difference.place
        if place is None and difference.kind in _OF_VALUES:
            place = self._operator(difference, self.shim, self.native)
        line = 0
        if place is not None:
            line = hunk_tools.original_line(self.hunks, *place)
            self.cause.shows = f"{place[0]}:{line}"
        if difference.missing is not None:
            self.missing = difference.missing
            self.cause.shows = f"{self.missing[0]}:{self.missing[1]}"
        if not self._lacks(difference, place, line):
            self._changes(difference, place, line)

    def _lacks(self, difference: Difference, place: tuple[str, int] | None, line: int) -> bool:
        """Whether the copy lacks something: a call, a mark, a rewrite; names the line that lacks it."""
        if place is not None and difference.kind == "marks":
            self._at_original(place[0], line)
            return True
        if (missing := difference.missing) is not None:
            for part in self._changed_at(*missing):
                if self._differs([part]):
                    self._at_original(*missing)
                    return True
        left = hunk_tools.left_over(self.outcome.report, self.copy, self.hunks, self._ran)
        for file, number in left[:_MOST_REPAIRS]:
            text = hunk_tools.line_of(self.copy, file, number)
            if self._is_repaired_at(file, number, text):
                self.cause.how = "the copy still names there what only CUDA has; with hpu in its place it does what the original does"
                return True
        if difference.kind == "error" and place is not None and place in left:
            self._at_original(place[0], line)
            return True
        return False

    def _is_repaired_at(self, file: str, number: int, line: str) -> bool:
        """Whether the copy does what the original does once a line of it is ``line`` with hpu for CUDA; names it then."""
        trial, outcome = self.trial, self.outcome
        for text in hunk_tools.repaired(line):
            if outcome.rehearsals >= _MOST_RUNS:
                return False
            outcome.rehearsals += 1
            trial.say(f"trying hpu in {file}:{number} of the copy")
            folder = trial.copy(f"repaired-{outcome.rehearsals}")
            hunk_tools.with_line(self.copy, folder, self.hunks, (file, number), text)
            pair = compare(self.shim, trial.run("native", "repaired", folder), same_device=True)
            if pair.difference is None and self.wrong.what not in [one.shown() for one in pair.odd]:
                self._at_original(file, hunk_tools.original_line(self.hunks, file, number))
                return True
        return False

    def _changes(self, difference: Difference, place: tuple[str, int] | None, line: int) -> None:
        """Names the change of the copy that makes the difference, if one alone does."""
        at = self._change(*place) if place is not None else None
        # What shows in a line that was changed need not be made there; where numbers differ it seldom is.
        if at is not None and difference.kind not in _OF_VALUES and self._differs([at]):
            self._at_original(at[0].file, line)
            return
        found = self._divide(place)
        if self.cause.file:
            return
        # Under the shim the copy does what it should: what is wrong is what it lacks, or is there natively alone.
        if self.missing is not None and self._is_named(*self.missing):
            self._at_original(*self.missing)
        elif not found and any(
            self._is_repaired_at(*lost)
            for lost in hunk_tools.lost(self.hunks, self._ran)[:_MOST_REPAIRS]
        ):
            self.cause.how = (
                "natively the copy does what the original does with Gaudi's word there for CUDA's"
            )
            return
        elif at is not None and difference.kind not in _OF_VALUES and not found:
            self._at_original(at[0].file, line)
            self.cause.how = "the copy does it natively, and not under the shim"
            return
        self.cause.how = "no single rewrite explains it" + (
            "; this is where it shows first" if self.cause.shows else ""
        )
        if by_hand := self._by_hand() if difference.kind == "error" else "":
            self.cause.how += f"; of the work by hand ran {by_hand}"

    def _ran(self, file: str, line: int) -> bool:
        """Whether a line of the original ran, as far as it was traced; none of a file that was never loaded did."""
        traced, ran = self.trial.traced.get(file, ()), self.shim.record.lines
        if self.shim.record.files and file not in self.shim.record.files:
            return False
        return line not in traced or any((file, one) in ran for one in self.trial.statement(file, line))  # fmt: skip

    def _change(self, file: str, line: int) -> list[Hunk] | None:
        """The change that a line of the copy is in, with what has to be made with it."""
        return next(
            (
                part
                for part in hunk_tools.units(self.hunks)
                if any(h.file == file and h.new_start < line <= h.new_end for h in part)
            ),
            None,
        )

    def _changed_at(self, file: str, line: int) -> list[list[Hunk]]:
        """The changes of which one is in a statement of the original, not only behind it."""
        lines = self.trial.statement(file, line)
        return [
            part
            for part in hunk_tools.units(self.hunks)
            if any(h.file == file and h.old and not lines.isdisjoint(_about(h)) for h in part)
        ]

    def _is_named(self, file: str, line: int) -> bool:
        """Whether a statement of the original was changed, or has a finding about which nothing was done."""
        lines = self.trial.statement(file, line)
        reported = any(
            one.file == file and one.line in lines for one in self.outcome.coverage.findings_run
        )
        return reported or bool(self._changed_at(file, line))

    def _by_hand(self) -> str:
        """The errors on Gaudi that the copy still has, in files that were loaded."""
        errors = {
            (file.path, finding.line, finding.code)
            for file in self.outcome.report.files
            for finding in file.findings
            if finding.severity == "error" and not finding.applied
        }
        some = [f"{one.file}:{one.line} {one.code} {one.name}" for one in self.outcome.coverage.findings_run if (one.file, one.line, one.code) in errors]  # fmt: skip
        more = f" and {len(some) - _MOST_SHOWN} more" if len(some) > _MOST_SHOWN else ""
        return ", ".join(some[:_MOST_SHOWN]) + more

    def _at_original(self, file: str, line: int) -> None:
        """Names a line of the original, and the rewrite in it."""
        self.cause.file, self.cause.line = file, line
        self._named(hunk_tools.finding_at(self.outcome.report, file, line, line, near=0))

    def _named(self, finding: Finding | None) -> None:
        if finding is not None:
            self.cause.code, self.cause.name = finding.code, finding.name

    def _against_cpu(self, difference: Difference) -> None:
        """Both runs on hpu agree, and differ from the CPU's: where that shows first."""
        if difference.kind == "error":
            self._fails_on_hpu(difference)
            return
        pair = next(one for one in self.outcome.comparisons if one.difference is difference)
        bound, self.float32 = pair.bound, pair.float32
        cpu = self.outcome.runs[0]
        within = bound.at(difference.step) if bound is not None else 0.0
        place = self._operator(difference, cpu, self.shim, within)
        if place is not None:
            self.cause.shows = f"{place[0]}:{place[1]}"
        self.cause.how = (
            "both runs on hpu agree: either the script behaves differently on a device (then use "
            "--no-cpu), or shim and rewrites share an error"
        )

    def _fails_on_hpu(self, difference: Difference) -> None:
        """The same error in both runs on hpu: its line, and the finding that reported it."""
        if difference.place is not None:
            self.cause.shows = f"{difference.place[0]}:{difference.place[1]}"
        code = _CODE.search(difference.what)
        coverage = self.outcome.coverage
        for reported in (*coverage.findings_run, *coverage.findings_not_run):
            if code and reported.code == code[0]:
                self.cause.how = f"a finding predicted it: {reported.code} {reported.name} at {reported.file}:{reported.line}"  # fmt: skip
                return
        for reported in coverage.findings_run:
            if difference.place is not None and (reported.file, reported.line) == tuple(
                difference.place
            ):
                self.cause.how = f"both runs on hpu fail in a line that has a finding: {reported.code} {reported.name}"  # fmt: skip
                return
        self.cause.how = (
            "the original and its migrated copy both fail there on hpu: the script uses "
            "something that hpu does not support"
        )

    def _operator(
        self, difference: Difference, one: Run, other: Run, within: float | None = None
    ) -> tuple[str, int] | None:
        """Makes two runs once more and finds the first operator of the step with another result."""
        step = difference.step
        self.trial.say(f"looking for the operator in step {step}")
        first, second = self._again(one, step), self._again(other, step)
        ranks = [
            found
            for a, b in zip(first.record.processes, second.record.processes, strict=False)
            if step in a.operators and step in b.operators
            and (found := first_operator(a.operators[step], b.operators[step], within)) is not None
        ]  # fmt: skip
        if not ranks:
            return None
        # What differs in one rank reaches the others by a collective.
        found = min(ranks, key=lambda rank: rank.after)
        self.cause.operator = found.what
        self.missing = found.missing
        return found.place

    def _again(self, before: Run, step: int) -> Run:
        trial, way = self.trial, before.way
        self.outcome.rehearsals += 1
        again = f"{way}-again-{self.outcome.rehearsals}"
        folder = self.copy if way == "native" else trial.copy(again)
        return trial.run(
            way, "again", folder, window=(step, step), values=True, steps=step, float32=self.float32
        )

    def _divide(self, place: tuple[str, int] | None) -> bool:
        """Finds the one part of the changes with which the original, under the shim, no longer does what it did; False where it does with all."""
        parts = [
            part
            for part in hunk_tools.units(self.hunks)
            if any(self._ran(hunk.file, line) for hunk in part for line in _about(hunk))
        ]
        begun = self.outcome.rehearsals
        if not parts or not self._differs(parts):
            return False
        low, high = (
            0,
            len(parts),
        )  # with the first `low` it agrees, with the first `high` it does not
        while high - low > 1:
            if self.outcome.rehearsals - begun > _MOST_PARTS:
                return True
            middle = (low + high) // 2
            if self._differs(parts[:middle]):
                high = middle
            else:
                low = middle
        part = parts[high - 1]
        # What is imported is of use only to the others.
        hunk = min(
            part,
            key=lambda one: (
                hunk_tools.only_imports(one),
                not any(self._ran(one.file, line) for line in _about(one)),
                _far(one, place),
            ),
        )
        first, last = hunk.start + 1, max(hunk.end, hunk.start + 1)
        if not hunk.old and hunk.start:
            first = last = hunk.start  # what was put behind a line
        self.cause.file, self.cause.line = hunk.file, first
        self._named(hunk_tools.finding_at(self.outcome.report, hunk.file, first, last))
        self.cause.how = f"found by {self.outcome.rehearsals} more runs with part of the rewrites"
        return True

    def _differs(self, parts: list[list[Hunk]]) -> bool:
        """Whether the original with these changes, under the shim, does what the copy does wrong."""
        trial, outcome = self.trial, self.outcome
        outcome.rehearsals += 1
        hunks = [hunk for part in parts for hunk in part]
        trial.say(f"trying {len(hunks)} of {len(self.hunks)} changes under the shim")
        folder = trial.copy(f"part-{outcome.rehearsals}")
        hunk_tools.write(trial.root, folder, [*hunks, *hunk_tools.shared_imports(self.hunks)])
        ends = self.wrong.kind in ("error", "exit", "steps", "checkpoint", "metric")
        step = 0 if ends else self.cause.step
        mixed = trial.run("shim", "part", folder, steps=step or trial.plan.steps)
        pair = compare(self.shim, mixed, same_device=True, cut=bool(step))
        if self.wrong.kind == "metric":
            return any(one.shown() == self.wrong.what for one in pair.odd)
        found = pair.difference
        if found is None or found.kind != self.wrong.kind:
            return False
        # Another exception is another difference; its words hold paths.
        return found.kind != "error" or found.what.partition(":")[0] == self.wrong.what.partition(":")[0]  # fmt: skip


def _about(hunk: Hunk) -> range:
    """The lines of the original that a hunk is about: of an insertion, the one before."""
    return range(hunk.start + 1, hunk.end + 1) if hunk.old else range(max(hunk.start, 1), max(hunk.start, 1) + 1)  # fmt: skip


def _far(hunk: Hunk, place: tuple[str, int] | None) -> int:
    """How far a hunk is from a line of the copy."""
    if place is None or hunk.file != place[0]:
        return 1_000_000
    return max(hunk.new_start + 1 - place[1], place[1] - hunk.new_end, 0)
