"""Every patch answers a row of the matrix, every row that asks for a patch has one, and one file answers a row."""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from idiom_files import idioms

from hpushim import matrix
from hpushim.shim.patch import declared


def test_rows_that_ask_for_a_patch_have_one() -> None:
    answered = {patch.row for patch in declared()}
    asking = [row for row in matrix.load().rows if row.runtime == "patch"]
    assert asking
    assert [row.name for row in asking if answered.isdisjoint(row.names)] == []


def test_every_patch_has_its_row() -> None:
    rows = {name: row for row in matrix.load().rows for name in row.names}
    without = sorted({patch.row for patch in declared()} - rows.keys())
    assert without == []
    other = [p.row for p in declared() if rows[p.row].runtime not in ("patch", "net")]
    assert sorted(set(other)) == []


def test_one_file_answers_a_row() -> None:
    files: dict[str, set[str]] = {}
    for patch in declared():
        files.setdefault(patch.row, set()).add(patch.replacement.__module__)
    assert {row: found for row, found in files.items() if len(found) > 1} == {}


def test_targets_are_patched_once() -> None:
    targets = [patch.target for patch in declared() if patch.how != "hook"]
    assert sorted({t for t in targets if targets.count(t) > 1}) == []


def test_approximations_say_what_they_are() -> None:
    """A note has a code, and a code is one of the catalogue's form."""
    for patch in declared():
        assert not patch.note or patch.code, patch.target
        assert not patch.code or (patch.code[:3] == "HPU" and patch.code[3:].isdigit()), patch.code


DECISIONS = Path(__file__).parent / "idioms" / "decisions.tsv"


def decisions() -> list[dict[str, str]]:
    """What was decided for each CUDA idiom: number, level, the patches, rows and snippets that carry it out."""
    head, *lines = (line.split("\t") for line in DECISIONS.read_text("utf-8").splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def listed(row: dict[str, str], column: str) -> list[str]:
    """The entries of a column."""
    return [entry for entry in row[column].split("; ") if entry]


def test_each_decision_is_carried_out() -> None:
    assert [row["number"] for row in decisions()][:96] == [str(n) for n in range(1, 97)]
    answered = {patch.row for patch in declared()}
    rows, snippets = matrix.load(), {one.key for one in idioms()}
    for row in decisions():
        for pattern in listed(row, "patches"):
            assert fnmatch.filter(answered, escaped(pattern)), (row["number"], pattern)
        for name in listed(row, "rows of the matrix"):
            assert rows.row(name) is not None or rows.covering(name) is not None, name
        assert set(listed(row, "snippets")) <= snippets, row["number"]
        shown = listed(row, "patches") + listed(row, "snippets")
        assert shown or row["number"] == "96", row["number"]  # test_lifecycle.py shows that one


def test_each_patch_carries_out_a_decision() -> None:
    patterns = [escaped(p) for row in decisions() for p in listed(row, "patches")]
    answered = {patch.row for patch in declared()}
    beyond = {row for row in answered if not any(fnmatch.fnmatchcase(row, p) for p in patterns)}
    assert beyond == set()


def escaped(pattern: str) -> str:
    """Brackets of the pattern are no character classes."""
    return pattern.replace("[", "[[]")
