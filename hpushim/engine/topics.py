"""A migration in parts, one for each topic, so that each can be read and merged by itself.

A part is what the rules of its areas write alone, made from the same files. Where the parts of a file touch the same lines, or one has no
meaning without the other, the whole file is in the part that changes most of it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import msgspec

from hpushim.model import AREAS, FileResult, Finding, Report

#: What each part is called, and the areas of its rules.
TOPICS = {
    "devices": ("devices", "tool", "libraries"),
    "mixed precision": ("precision",),
    "distributed": ("distributed",),
    "memory and execution": ("memory", "execution", "training"),
    "launchers and settings": ("files",),
}
#: So many lines between the changes of two parts let each be applied without the other.
_APART = 4
_Change = tuple[int, int, list[bytes]]


class Part(msgspec.Struct):
    """The files that one topic changes, each with what it is before and after."""

    topic: str
    files: list[FileResult] = []

    @property
    def findings(self) -> list[Finding]:
        """The findings of its areas that were settled in its files."""
        return [f for file in self.files for f in file.findings if f.applied and topic(f) == self.topic]  # fmt: skip


def topic(finding: Finding) -> str:
    """The part that a finding belongs to."""
    area = AREAS[int(finding.code[3])] if finding.code[3].isdigit() else ""
    return next((name for name, areas in TOPICS.items() if area in areas), next(iter(TOPICS)))


def scope(report: Report) -> list[tuple[str, int, int]]:
    """Each topic with the files that it changes, and how many findings it settles."""
    made = [(topic(f), file.path) for file in report.files for f in file.findings if f.applied]
    return [
        (
            name,
            len({path for one, path in made if one == name}),
            sum(one == name for one, _ in made),
        )
        for name in TOPICS
        if any(one == name for one, _ in made)
    ]


def split(whole: Report, alone: Callable[[tuple[str, ...]], Report]) -> list[Part]:
    """The parts of ``whole``; ``alone`` migrates the same files with the rules of some codes (or prefixes) only."""
    parts = {name: Part(name) for name in TOPICS}
    made: dict[str, dict[str, bytes]] = {}
    changed = [f for f in whole.files if f.before is not None and f.after not in (None, f.before)]
    used = {topic(f) for file in changed for f in file.findings if f.applied}
    for name in used if len(used) > 1 else ():
        codes = tuple(f"HPU{AREAS.index(area)}" for area in TOPICS[name])
        for file in alone((*codes, "HPU023")).files:
            if file.after is not None and file.after != file.before:
                made.setdefault(file.path, {})[name] = file.after
    for file in changed:
        assert file.before is not None and file.after is not None
        texts = _apart(file.before, file.after, made.get(file.path, {}))
        for name, after in (texts or {_main(file): file.after}).items():
            parts[name].files.append(msgspec.structs.replace(file, after=after))
    return [part for part in parts.values() if part.files]


def _main(file: FileResult) -> str:
    """The topic that changes most of a file."""
    count = Counter(topic(finding) for finding in file.findings if finding.applied)
    return count.most_common(1)[0][0] if count else next(iter(TOPICS))


def _apart(before: bytes, after: bytes, made: dict[str, bytes]) -> dict[str, bytes]:
    """What the topics make of a file, where together they are the whole and none needs a line of another."""
    old = before.splitlines(keepends=True)
    changes = [
        (*change, name)
        for name, text in made.items()
        for change in _changes(old, text.splitlines(keepends=True))
    ]
    changes.sort(key=lambda change: change[:2])
    for (_, end, _, one), (start, _, _, other) in pairwise(changes):
        if start < end or (one != other and start < end + _APART):
            return {}
    together = list(old)
    for start, end, new, _ in reversed(changes):
        together[start:end] = new
    return made if b"".join(together) == after else {}


def _changes(old: list[bytes], new: list[bytes]) -> list[_Change]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(i, j, new[k:m]) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]
