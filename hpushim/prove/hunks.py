"""What a migrated copy differs in from the original, as hunks of lines: which rewrite made each, and copies with some of them."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hpushim import safe_files
from hpushim.model import Finding, Report

_ALIKE = 0.6  # of the letters of two lines
_NEAR = 1  # lines between a hunk and the finding that it belongs to
#: What only CUDA's side says.
_LEFT = re.compile(r"\b(cuda|nccl|float16|half)\b|\bcuda:")
#: What Gaudi's side says in its place.
_COUNTERPART = re.compile(r"\b(hpu|hccl|bfloat16)\b")


class Hunk(msgspec.Struct, frozen=True):
    """Lines of one file that were replaced: 0-based, half open, of the original and of the copy."""

    file: str
    start: int
    end: int
    new_start: int
    new_end: int
    old: tuple[str, ...]
    new: tuple[str, ...]


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
            whole = Hunk(name, i1, i2, j1, j2, tuple(before[i1:i2]), tuple(after[j1:j2]))
            found += _divided(whole, before) if name.endswith(".py") else [whole]
    return found


def _divided(hunk: Hunk, before: list[str]) -> list[Hunk]:
    """A hunk by lines: each old line with the new one most like it, what was put between by itself. As it is where a part alone is no Python."""
    pairs = _alike(hunk.old, hunk.new)
    if not pairs:
        return [hunk]
    found: list[Hunk] = []
    i = j = 0
    for a, b in [*pairs, (len(hunk.old), len(hunk.new))]:
        for i1, i2, j1, j2 in ((i, a, j, b), (a, a + 1, b, b + 1)):
            old, new = hunk.old[i1:i2], hunk.new[j1:j2]
            if old != new:
                at, to = hunk.start + i1, hunk.new_start + j1
                found.append(Hunk(hunk.file, at, at + len(old), to, to + len(new), old, new))
        i, j = a + 1, b + 1
    if all(_is_python([*before[: one.start], *one.new, *before[one.end :]]) for one in found):
        return found
    return [hunk]


def _alike(old: tuple[str, ...], new: tuple[str, ...]) -> list[tuple[int, int]]:
    """Pairs of lines, in order, that are the same statement before and after."""
    found: list[tuple[int, int]] = []
    j = 0
    for i, line in enumerate(old):
        likes = [difflib.SequenceMatcher(None, line, other).ratio() for other in new[j:]]
        best = max(range(len(likes)), key=likes.__getitem__, default=-1)
        if best >= 0 and likes[best] > _ALIKE:
            found.append((i, j + best))
            j += best + 1
    return found


def _is_python(lines: list[str]) -> bool:
    try:
        ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _lines(path: Path) -> list[str]:
    return safe_files.read(path).decode("utf-8", "surrogateescape").splitlines(keepends=True)


def write(root: Path, copy: Path, hunks: Iterable[Hunk]) -> None:
    """Puts these hunks, and no others, into the copy's files. Raises OSError.

    What they import comes behind what was imported: the other lines may still need that.
    """
    files: dict[str, list[Hunk]] = {}
    for hunk in hunks:
        files.setdefault(hunk.file, []).append(hunk)
    for name, some in files.items():
        lines = _lines(root / name)
        for hunk in sorted(some, key=lambda one: (one.start, one.end), reverse=True):
            kept = hunk.old if name.endswith(".py") and only_imports(hunk) else ()
            lines[hunk.start : hunk.end] = (*kept, *hunk.new)
        (copy / name).write_bytes("".join(lines).encode("utf-8", "surrogateescape"))


def with_line(
    original: Path, folder: Path, hunks: list[Hunk], place: tuple[str, int], text: str
) -> None:
    """Puts the copy's files into another folder, with another text for one line of them."""
    for name in {hunk.file for hunk in hunks} | {place[0]}:
        lines = _lines(original / name)
        if name == place[0]:
            lines[place[1] - 1] = text
        (folder / name).write_bytes("".join(lines).encode("utf-8", "surrogateescape"))


def line_of(copy: Path, file: str, line: int) -> str:
    """A line of a file, with its end."""
    return _lines(copy / file)[line - 1]


def shared_imports(hunks: list[Hunk]) -> list[Hunk]:
    """Hunks that import for others: both what they take away and what they give can be there, for no name changes its meaning."""
    return [one for one in hunks if one.file.endswith(".py") and only_imports(one) and not _rebound(one)]  # fmt: skip


def _rebound(hunk: Hunk) -> set[str]:
    """Names that an import binds to something else than before."""
    old, new = _names(hunk.old), _names(hunk.new)
    return {name for name, _ in old - new} & {name for name, _ in new - old}


def units(hunks: list[Hunk]) -> list[list[Hunk]]:
    """The hunks in parts that can be made one without another: names that one of them gives or takes are used by no other part.

    What only imports for the others belongs to no part (see :func:`shared_imports`); of an import that changes the meaning of some
    names, what uses those.
    """
    shared = shared_imports(hunks)
    hunks = [hunk for hunk in hunks if hunk not in shared]
    parts = [[hunk] for hunk in hunks]
    for hunk in hunks:
        if not hunk.file.endswith(".py"):
            continue
        names = _rebound(hunk) if only_imports(hunk) else {name for name, _ in _names(hunk.old) ^ _names(hunk.new)}  # fmt: skip
        if not names:
            continue
        word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
        mine = next(part for part in parts if hunk in part)
        for part in [p for p in parts if p is not mine]:
            if any(o.file == hunk.file and word.search("".join((*o.old, *o.new))) for o in part):
                mine.extend(part)
                parts.remove(part)
    return parts


def only_imports(hunk: Hunk) -> bool:
    """Whether all that a hunk gives or takes is imports."""
    try:
        found = [ast.parse(textwrap.dedent("".join(lines))).body for lines in (hunk.old, hunk.new)]
    except (SyntaxError, ValueError):
        return False
    return all(isinstance(node, (ast.Import, ast.ImportFrom)) for body in found for node in body)


def _names(lines: tuple[str, ...]) -> set[tuple[str, str]]:
    """What some lines import, from where, or define, where they can be read by themselves."""
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (SyntaxError, ValueError):
        return set()
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            for alias in node.names:
                found.add(((alias.asname or alias.name).partition(".")[0], module))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add((node.id, "="))
    return found


def original_line(hunks: Iterable[Hunk], file: str, line: int) -> int:
    """The 1-based line of the original for one of the copy; of an inserted line, the one before it."""
    moved = 0
    for hunk in hunks:
        if hunk.file != file or hunk.new_start >= line:
            continue
        if line <= hunk.new_end:
            inside = line - 1 - hunk.new_start
            return min(hunk.start + inside, max(hunk.end - 1, hunk.start - 1, 0)) + 1
        moved = (hunk.new_end - hunk.new_start) - (hunk.end - hunk.start) + moved
    return max(line - moved, 1)


def is_left(line: str) -> bool:
    """Does a line name what only CUDA's side has?"""
    return _LEFT.search(line.partition("#")[0]) is not None


def repaired(line: str) -> list[str]:
    """What a line that was left could be in HPU code."""
    devices = re.sub(r"\bcuda\b", "hpu", re.sub(r"\bnccl\b", "hccl", line))
    words = re.sub(r"\b(float16|half)\b", "bfloat16", devices)
    # A text may be what the user chooses by, and stays.
    attributes = re.sub(r"(?<=\.)(float16|half)\b", "bfloat16", devices)
    general = line.replace("torch.cuda.", "torch.")
    return [one for one in dict.fromkeys((words, attributes, general)) if one != line]


def lost(hunks: list[Hunk], ran: Callable[[str, int], bool]) -> list[tuple[str, int, str]]:
    """The lines (of the copy) that ``ran``, whose original names what only CUDA has and that name nothing of Gaudi's; with the original."""
    return [
        (hunk.file, hunk.new_end, hunk.old[0])
        for hunk in hunks
        if len(hunk.old) == len(hunk.new) == 1
        and hunk.file.endswith(".py")
        and is_left(hunk.old[0])
        and not is_left(hunk.new[0])
        and not _COUNTERPART.search(hunk.new[0])
        and ran(hunk.file, hunk.start + 1)
    ]


def left_over(
    report: Report, copy: Path, hunks: list[Hunk], ran: Callable[[str, int], bool]
) -> list[tuple[str, int]]:
    """The lines (of the copy) that ``ran`` and still name what only CUDA has, those that a rewrite was made in first."""
    found: list[tuple[bool, str, int]] = []
    for result in report.files:
        if result.path.endswith(".py"):
            made = {finding.line for finding in result.findings if finding.applied}
            for number, text in enumerate(_lines(copy / result.path), 1):
                line = original_line(hunks, result.path, number)
                if is_left(text) and ran(result.path, line):
                    found.append((line not in made, result.path, number))
    return [one[1:] for one in sorted(found, key=lambda one: one[0])]


def finding_at(
    report: Report, file: str, first: int, last: int, near: int = _NEAR
) -> Finding | None:
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
        if far <= near and (best is None or (far, number) < best[:2]):
            best = (far, number, finding)
    return best[2] if best else None
