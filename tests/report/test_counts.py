"""What a report counts: lines by the finding on them that asks most, times by their kind, lines of a diff."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from hpushim.model import FileResult
from hpushim.report.assessment import _efforts, _lines, diff_size
from hpushim.report.work import _is_import

#: Severity and handling of a finding, and what its line asks for: nothing, an unsafe rewrite, a hand.
ASKED = {
    ("error", "safe"): 0,
    ("error", "unsafe"): 1,
    ("error", "by-hand"): 2,
    ("note", "unsafe"): 0,
    ("note", "by-hand"): 0,
    ("unknown", "by-hand"): 2,
    ("warning", "nothing"): 0,
}


def item(line: int, kind: tuple[str, str], code: str = "HPU101", path: str = "a.py") -> Any:
    finding = SimpleNamespace(code=code, line=line, severity=kind[0])
    return SimpleNamespace(path=path, finding=finding, handling=kind[1], effort=None)


@pytest.mark.parametrize("some", list(itertools.product(ASKED, repeat=2)))
def test_a_line_counts_once_by_what_asks_most(some: tuple[tuple[str, str], ...]) -> None:
    here = [item(3, kind) for kind in some]
    alone = [item(n, kind, path="b.py") for n, kind in enumerate(ASKED, 1)]
    unread = [item(9, kind, code) for kind in ASKED for code in ("HPU003", "HPU007")]
    found = _lines([*here, *alone, *unread])
    asked = [max(ASKED[kind] for kind in some), *ASKED.values()]
    assert found.total == len(asked)
    assert (found.free, found.unsafe, found.by_hand) == tuple(map(asked.count, range(3)))


@pytest.mark.parametrize("counts", list(itertools.product((0, 1, 3), repeat=3)))
def test_times_are_counted_by_their_kind(counts: tuple[int, ...]) -> None:
    kinds = ("minutes", "hours", "none")
    items = [SimpleNamespace(effort=kind) for kind, n in zip(kinds, counts, strict=True) for _ in range(n)]  # fmt: skip
    found = _efforts([*items, SimpleNamespace(effort=None)])  # type: ignore[list-item]
    assert (found.minutes, found.hours, found.none) == counts


TEXTS = (None, b"", b"a\n", b"a\nb\n", b"b\n\xff\n")


@pytest.mark.parametrize("before", TEXTS)
@pytest.mark.parametrize("after", TEXTS)
def test_lines_of_a_diff_are_those_of_files_that_were_read_and_changed(
    before: bytes | None, after: bytes | None
) -> None:
    def pieces(data: bytes | None) -> list[bytes]:
        return (data or b"").splitlines()

    old, new = pieces(before), pieces(after)
    expected = ([n for n in new if n not in old], [n for n in old if n not in new])
    known = before is not None and after is not None
    file = FileResult("a.py", "changed", before=before, after=after)
    other = FileResult("b.py", "changed", before=b"x\n", after=b"y\nz\n")
    added, removed = (len(part) if known else 0 for part in expected)
    assert diff_size((file, other, FileResult("c.py", "unchanged"))) == (added + 2, removed + 1)


@pytest.mark.parametrize("codes", [[], ["HPU723"], ["HPU101"], ["HPU723", "HPU723"], ["HPU723", "HPU101"], ["HPU101", "HPU723"]])  # fmt: skip
def test_a_folder_that_only_imports_an_extension(codes: list[str]) -> None:
    found = _is_import(item(1, ("error", "by-hand"), code) for code in codes)
    assert found is (set(codes) <= {"HPU723"})
