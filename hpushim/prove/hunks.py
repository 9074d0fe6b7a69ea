"""What a migrated copy differs in from the original, as hunks of lines: which rewrite made each, and copies with some of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpushim import safe_files
from hpushim.model import Finding, Report

_NEAR = 2  # lines between a hunk and the finding that it belongs to
#: Lines that others need, whichever of them are made.
_NEEDED = re.compile(r"\s*(import|from)\s|\s*$|\s*#")


class Hunk(msgspec.Struct, frozen=True):
    """Lines of one file that were replaced: 0-based, half open, of the original and of the copy."""

    file: str
    start: int
    end: int
    new_start: int
    new_end: int
    new: tuple[str, ...]
    needed: bool


def between(root: Path, copy: Path, names: Iterable[str]) -> list[Hunk]:
    """The hunks in which the named files differ, by file and line."""
    found = []
    for name in sorted(set(names)):
        try:
            before, after = _lines(root / name), _lines(copy / name)
        except OSError:
            continue
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag == "equal":
                continue
            new = tuple(after[j1:j2])
            needed = name.endswith(".py") and all(map(_NEEDED.match, (*new, *before[i1:i2])))
            found.append(Hunk(name, i1, i2, j1, j2, new, needed))
    return found


def _lines(path: Path) -> list[str]:
    return safe_files.read(path).decode("utf-8", "surrogateescape").splitlines(keepends=True)


def write(root: Path, copy: Path, hunks: Iterable[Hunk]) -> None:
    """Puts these hunks, and no others, into the copy's files. Raises OSError."""
    files: dict[str, list[Hunk]] = {}
    for hunk in hunks:
        files.setdefault(hunk.file, []).append(hunk)
    for name, some in files.items():
        lines = _lines(root / name)
        for hunk in sorted(some, key=lambda one: one.start, reverse=True):
            lines[hunk.start : hunk.end] = hunk.new
        (copy / name).write_bytes("".join(lines).encode("utf-8", "surrogateescape"))


def original_line(hunks: Iterable[Hunk], file: str, line: int) -> int:
    """The 1-based line of the original for one of the copy; of an inserted line, the one behind which it stands."""
    moved = 0
    for hunk in hunks:
        if hunk.file != file or hunk.new_start >= line:
            continue
        if line <= hunk.new_end:
            inside = line - 1 - hunk.new_start
            return min(hunk.start + inside, max(hunk.end - 1, hunk.start - 1, 0)) + 1
        moved = (hunk.new_end - hunk.new_start) - (hunk.end - hunk.start) + moved
    return max(line - moved, 1)


def finding_at(report: Report, file: str, first: int, last: int) -> Finding | None:
    """The rewrite that was made in these lines (1-based) of the original, or next to them."""
    applied = [
        finding
        for result in report.files
        if result.path == file
        for finding in result.findings
        if finding.applied
    ]
    best: tuple[int, int, Finding] | None = None
    for number, finding in enumerate(applied):
        end = max(finding.end_line, finding.line)
        far = max(finding.line - last, first - end, 0)
        if far <= _NEAR and (best is None or (far, number) < best[:2]):
            best = (far, number, finding)
    return best[2] if best else None
