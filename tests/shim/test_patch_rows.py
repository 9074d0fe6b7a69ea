"""Every patch answers a row of the matrix, every row that asks for a patch has one, and one file answers a row."""

from __future__ import annotations

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
