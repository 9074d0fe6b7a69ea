"""The line of each table and key of a TOML text, above the first table too."""

from __future__ import annotations

import pytest

from hpushim.matrix.locate import row_line, table_line

#: Each line with what it is: a table's first line, or a key of the table around it.
LINES = [
    ("# of all", None),
    ("format = 1", ("", "format")),
    ('"quoted"=2', ("", "quoted")),
    ("  formats = 3", ("", "formats")),
    ("", None),
    ("[sources]", ("sources", "")),
    ("name = 4", ("sources", "name")),
    ('[sources."a/b"]', None),
    ("inner = 5", ("sources", "inner")),
    ("[[row]]", ("row", "")),
    ("name = 6", ("row", "name")),
    ("format = 7", ("row", "format")),
    ("[other]", ("other", "")),
    ("name = 8", ("other", "name")),
    ("late = 9", ("other", "late")),
    ("[[row]]", None),
    (' "name" = 10', None),
    ("second = 11", ("row", "second")),
]
TEXT = "\n".join(line for line, _ in LINES)


@pytest.mark.parametrize("place", [place for _, place in LINES if place])
def test_a_key_is_found_in_its_table(place: tuple[str, str]) -> None:
    assert table_line(TEXT, *place) == [what for _, what in LINES].index(place) + 1


@pytest.mark.parametrize("table", ["", "sources", "row", "other", "missing"])
@pytest.mark.parametrize("key", ["absent", "for", "ormat", "name = 4"])
def test_a_key_that_is_not_there_has_the_line_of_its_table(table: str, key: str) -> None:
    first = {what: at for at, (_, what) in enumerate(LINES, 1)}
    assert table_line(TEXT, table, key) == first.get((table, ""), 1)


@pytest.mark.parametrize(
    ("index", "field", "line"),
    [(0, "", 10), (0, "name", 11), (0, "format", 12), (0, "late", 10), (1, "", 16), (1, "name", 17), (1, "second", 18), (1, "format", 16), (2, "", 16), (2, "name", 16)],
)  # fmt: skip
def test_a_field_is_found_in_its_row(index: int, field: str, line: int) -> None:
    assert row_line(TEXT, index, field) == line


@pytest.mark.parametrize("text", ["", "format = 1", "[sources]\nname = 4", TEXT.replace("[[row]]", "[[line]]")])  # fmt: skip
def test_without_a_row_it_is_the_first_line(text: str) -> None:
    assert [row_line(text, index, field) for index in (0, 1) for field in ("", "name")] == [1] * 4
