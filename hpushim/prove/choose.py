"""``hpushim migrate --prove``: the unsafe rewrites of a script that a proof keeps.

The safe rewrites are proved first. Then all unsafe ones whose lines ran are proved together; where that is different they are divided, until
each one that makes a difference is found. A rewrite that did not run stays out, and so does one whose effect a run of a few steps cannot
show: no proof says anything about it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from hpushim.model import FileResult, Finding, Origin, Report
from hpushim.prove import covered
from hpushim.prove.trial import Outcome, Request, prove
from hpushim.prove.verdicts import reached

Fate = Literal["kept", "taken back", "not tested", "did not run"]
#: What runs of a few steps on an emulated device cannot separate from the original, by code, each with the reason.
_NOT_TESTED = {
    "HPU312": "an emulated device has no number of its own, so no run shows which one is used",
    "HPU526": "whether a short batch would have come depends on the data, not on these steps",
}


class Candidate(msgspec.Struct):
    """Unsafe rewrites of one file that are made together or not at all, at the line of the first; ``why`` they were taken back."""

    file: str
    line: int
    code: str
    name: str
    fate: Fate = "did not run"
    why: str = ""
    origins: list[Origin] = msgspec.field(default_factory=list)

    def shown(self) -> str:
        """In one line."""
        why = f": {self.why}" if self.why else ""
        return f"{self.fate:11} {self.file}:{self.line} {self.code} {self.name}{why}"


class Choice(msgspec.Struct):
    """What came of it: ``outcome`` is the proof of the migrated copy with the candidates that were kept."""

    outcome: Outcome
    candidates: list[Candidate]
    runs: int
    seconds: float

    @property
    def proved(self) -> bool:
        return _equal(self.outcome)


def choose(request: Request, say: Callable[[str], None] = lambda line: None) -> Choice:
    """Proves the safe rewrites of a command, then the unsafe ones that ran; writes nothing. Raises HpushimError."""
    return _Choosing(request, say).choice


class _Choosing:
    def __init__(self, request: Request, say: Callable[[str], None]) -> None:
        begin = time.monotonic()
        self._say = say
        self._tried: dict[frozenset[Origin], Outcome] = {}
        report = _all_made(request)
        candidates = _candidates(report)
        wanted = covered.wanted(report)
        traced = {file: set(lines) for file, lines in wanted.lines.items()}
        self._request = msgspec.structs.replace(
            request, root=request.folder, unsafe=False, traced=traced, locate=False
        )
        say("proving the safe rewrites")
        self._best = first = prove(self._request, say)
        self._request.baseline = self._best
        places = covered.covered(wanted, *reached(first.runs), request.folder).rewrites_run
        ran = {(place.file, place.line, place.code) for place in places}
        parts = [one for one in candidates if (one.file, one.line, one.code) in ran]
        for one in parts:
            if why := _NOT_TESTED.get(one.code):
                one.fate, one.why = "not tested", why
        parts = [one for one in parts if one.fate != "not tested"]
        if not first.verdict.startswith("not"):
            self._divide(parts)
        else:
            for one in parts:
                one.fate, one.why = "not tested", f"with the safe rewrites alone: {_why(first)}"
        runs = len(first.runs) + first.rehearsals
        runs += sum(1 + outcome.rehearsals for outcome in self._tried.values())
        self.choice = Choice(self._best, candidates, runs, time.monotonic() - begin)

    def _divide(self, parts: list[Candidate]) -> None:
        """Finds the parts that can be kept, beside none or, where the script needs some to run, beside half of them."""
        if not parts:
            return
        half = len(parts) // 2
        base: list[Candidate] = []
        if not _equal(self._best):
            halves = (parts, parts[half:], parts[:half])
            base = next((some for some in halves if some and self._keeps(some)), [])
            if not base:
                for one in parts:
                    one.fate, one.why = "taken back", "the copy is different with it and without it"
                return
        rest = [one for one in parts if one not in base]
        if (
            not self._keep(base, rest) and len(rest) > 1
        ):  # alone they may fail for want of each other
            together = _why(self._proof([*base, *rest]))
            for one in rest:
                if one.why != together:
                    one.why += f"; all together: {together}"

    def _keep(self, base: list[Candidate], parts: list[Candidate]) -> list[Candidate]:
        """Those of ``parts`` that can be made beside ``base``, which can."""
        if not parts or self._keeps([*base, *parts]):
            return parts
        if len(parts) == 1:
            parts[0].fate, parts[0].why = "taken back", _why(self._proof([*base, *parts]))
            return []
        half = len(parts) // 2
        first = self._keep(base, parts[:half])
        return first + self._keep([*base, *first], parts[half:])

    def _keeps(self, some: Sequence[Candidate]) -> bool:
        outcome = self._proof(some)
        if _equal(outcome):
            self._best = outcome
            for one in some:
                one.fate = "kept"
        return _equal(outcome)

    def _proof(self, some: Sequence[Candidate]) -> Outcome:
        made = frozenset(origin for one in some for origin in one.origins)
        if made not in self._tried:
            self._say(f"proving {len(some)} unsafe rewrite{'s' if len(some) > 1 else ''}")
            request = msgspec.structs.replace(self._request, unsafe=made)
            self._tried[made] = prove(request, self._say)
        return self._tried[made]


def _equal(outcome: Outcome) -> bool:
    return outcome.verdict.startswith("equal")


def _why(outcome: Outcome) -> str:
    """The first difference, in words."""
    found = outcome.difference
    if found is None:
        return f"{outcome.verdict}: {outcome.reason}"
    return f"step {found.step}: {found.what}" if found.step else found.what


def _all_made(request: Request) -> Report:
    """What all rewrites together would make of the project; paths as proofs have them."""
    from hpushim.engine.project import migrate

    root = request.folder
    report = migrate(
        (root,),
        request.target,
        matrix=request.matrix,
        select=request.select,
        ignore=request.ignore,
        exclude=request.exclude,
        unsafe=True,
        write=False,
    )
    away = os.path.relpath(root, report.root)
    files = tuple(
        msgspec.structs.replace(file, path=os.path.relpath(file.path, away))
        for file in report.files
    )
    return msgspec.structs.replace(report, files=files, root=str(root))


def _candidates(report: Report) -> list[Candidate]:
    """The unsafe rewrites, in groups."""
    found: dict[tuple[str, str], Candidate] = {}
    for file in report.files:
        for finding in file.findings:
            fix = finding.fix
            unsafe = (fix.safety if fix else finding.safety) == "unsafe"
            if not (finding.applied and unsafe) or covered.is_of_the_tool(finding):
                continue
            key, origin = _key(file, finding)
            one = found.setdefault(
                (file.path, key), Candidate(file.path, finding.line, finding.code, finding.name)
            )
            one.origins.append(origin)
    return list(found.values())


def _key(file: FileResult, finding: Finding) -> tuple[str, Origin]:
    """What the fix of a finding is made together with, and its own place."""
    if file.path.endswith(".ipynb"):
        return "", Origin(file.path)
    alone = f"{finding.code}@{finding.span.start}"
    origin = Origin(file.path, finding.code, finding.span.start)
    return (finding.fix.group if finding.fix else "") or alone, origin
