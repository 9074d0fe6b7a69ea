"""Findings that a person has to deal with, as pieces of work: what one edit settles is one piece, with a range of minutes.

A piece is one cause: what a message says of several places, in Python else what one code finds in one function, in other files what it finds
in all of them (21 Dockerfiles request one base image). What has no counterpart on Gaudi has no range: nobody can say what replaces it.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from hpushim.model import Effort, FileResult

if TYPE_CHECKING:
    from hpushim.report.assessment import Item

#: Minutes for the first place of a piece, and for each further one, from and to. Estimates; no study of ports gives figures.
_FIRST: dict[Effort, tuple[int, int]] = {"minutes": (5, 20), "hours": (60, 240), "none": (0, 0)}
_MORE: dict[Effort, tuple[int, int]] = {"minutes": (1, 5), "hours": (5, 30), "none": (0, 0)}
_DAY = 8 * 60
#: A folder with CUDA kernels of the project's own, to be written with torch's operators.
_KERNELS = (_DAY, 5 * _DAY)
#: Files that a training run does not need.
_ASIDE = re.compile(
    r"(?:^|/)(?:\.[^/]+|tests?|testing|benchmarks?|docs?|docker|ci)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*_test\.py|[^/]*export[^/]*\.py|[^/]*dockerfile[^/]*)$",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"`[^`]*`")
#: What has to be done before a program runs on Gaudi as it should.
REQUIRED: frozenset[str] = frozenset({"stops", "kernels", "cpu"})


class Work(msgspec.Struct, frozen=True):
    """One piece of work: its first finding's code and message, and all its places as ``path:line``.

    ``least`` and ``most`` are minutes, zero where Gaudi has no counterpart. ``required``: the program does not train on Gaudi before it
    is done; ``aside``: it is in tests, benchmarks, exporters, images or continuous integration.
    """

    code: str
    message: str
    effort: Effort
    places: tuple[str, ...]
    function: str
    least: int
    most: int
    required: bool
    aside: bool


def pieces(items: Iterable[Item], files: Iterable[FileResult]) -> tuple[Work, ...]:
    """The work for all findings left to a person, what decides first."""
    sources = {file.path: file.before or b"" for file in files}
    functions = cache(lambda path: _Functions(sources[path]))
    found: dict[tuple[str, ...], list[Item]] = {}
    by_hand = [item for item in items if item.effort is not None]
    said = Counter((item.finding.code, item.finding.message) for item in by_hand)
    for item in by_hand:
        code, message = item.finding.code, item.finding.message
        key: tuple[str, ...]
        if item.trouble == "kernels":
            key = ("kernels", item.path.rpartition("/")[0])
        elif said[code, message] > 1:
            key = (code, message)
        elif item.path.endswith((".py", ".pyi")):
            function = functions(item.path).around(item.finding.line)
            key = (code, item.finding.row or "", item.path, function)
        else:
            key = (code, _QUOTED.sub("``", message))
        found.setdefault(key, []).append(item)
    made = [_piece(group, key[3] if len(key) == 4 else "") for key, group in found.items()]
    return tuple(sorted(made, key=lambda work: (work.aside, not work.required, work.effort != "none", -work.most)))  # fmt: skip


def span(works: Sequence[Work]) -> tuple[int, int]:
    """Minutes for all of ``works``, from and to."""
    return sum(work.least for work in works), sum(work.most for work in works)


def in_words(least: int, most: int) -> str:
    """``5 to 20 minutes``, ``1 to 4 hours``, ``2 to 6 days`` (of eight hours)."""
    for unit, size, above in (("minutes", 1, 0), ("hours", 60, 90), ("days", _DAY, 2 * _DAY)):
        if most >= above:
            low, high, name = round(least / size), max(1, round(most / size)), unit
    return f"{low} to {high} {name}" if low else f"up to {high} {name.removesuffix('s') if high == 1 else name}"  # fmt: skip


def _piece(items: Sequence[Item], function: str) -> Work:
    first = items[0]
    effort: Effort = first.effort or "minutes"
    (least, most), (each, at_most) = _FIRST[effort], _MORE[effort]
    if first.trouble == "kernels" and effort == "none":
        effort, (least, most) = "hours", _KERNELS
    places = tuple(dict.fromkeys(f"{item.path}:{item.finding.line}" for item in items))
    aside = all(is_aside(item.path) for item in items)
    return Work(
        first.finding.code,
        first.finding.message,
        effort,
        places,
        function,
        least + each * (len(places) - 1),
        most + at_most * (len(places) - 1),
        any(is_required(item) for item in items) and not aside,
        aside,
    )


def is_aside(path: str) -> bool:
    """Does no training run need the file?"""
    return _ASIDE.search(path) is not None


def is_required(item: Item) -> bool:
    """Does the program not train on Gaudi before a person has done something here?"""
    if item.trouble == "kernels":
        return item.finding.severity == "error"
    return item.trouble in REQUIRED or item.finding.severity == "unknown"


class _Functions:
    """The functions of a Python file, by line; none of one that does not parse."""

    def __init__(self, data: bytes) -> None:
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        #: Lines where a function begins or ends, a depth that sorts those of one line, and the innermost function from there on.
        changes = [(1, 0, "")]
        stack: list[tuple[ast.AST, str, int]] = [(tree, "", 0)]
        while stack:
            node, around, depth = stack.pop()
            for child in ast.iter_child_nodes(node):
                inner = around
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    inner = f"{around}.{child.name}" if around else child.name
                    changes.append((child.lineno, depth + 1, inner))
                    changes.append(((child.end_lineno or child.lineno) + 1, -depth - 1, around))
                if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                    stack.append((child, inner, depth + (inner != around)))
        changes.sort(key=lambda change: change[:2])
        self._starts = [line for line, _, _ in changes]
        self._names = [name for _, _, name in changes]

    def around(self, line: int) -> str:
        """The innermost function or class at a line, ``Model.forward``; empty at the top level."""
        return self._names[max(bisect_right(self._starts, line) - 1, 0)]
