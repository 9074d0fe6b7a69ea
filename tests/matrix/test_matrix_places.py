"""Where an error of a TOML file is: the line of each row, field, table and key."""

from __future__ import annotations

from hpushim.matrix.locate import row_line, table_line

TEXT = """\
format = 1

[releases."1.19"]
python = "3.10"
"torch" = "2.5"

[[row]]
name = "a"
status = "native"

  [[row]]
  # status = "none"
  note = "status = 1"
  "status" = "unknown"
[[row]]
name = "c"
[policy]
status = "not of a row"
note="n"
[[policy.more]]
last = 1
"""
LINES = TEXT.splitlines()


def number(part: str, after: int = 0) -> int:
    """The first line, from one on, that begins with a part."""
    return next(n for n, line in enumerate(LINES, 1) if n > after and line.strip().startswith(part))


def test_a_row_and_its_fields() -> None:
    rows = [n for n, line in enumerate(LINES, 1) if line.strip() == "[[row]]"]
    assert [row_line(TEXT, index) for index in range(3)] == rows
    for field, places in {
        "name": [number("name"), rows[1], number("name", rows[2])],
        "status": [number("status"), number('"status"'), rows[2]],
        "note": [rows[0], number("note"), rows[2]],
        "tatus": rows,
    }.items():
        assert [row_line(TEXT, index, field) for index in range(3)] == places, field
    assert row_line("", 0) == row_line("format = 1\n", 0, "name") == 1


def test_a_table_and_its_keys() -> None:
    assert table_line(TEXT, "", "format") == 1
    assert table_line(TEXT, "releases") == number("[releases")
    assert table_line(TEXT, "releases", "python") == number("python")
    assert table_line(TEXT, "releases", "torch") == number('"torch"')
    assert table_line(TEXT, "policy") == number("[policy]")
    assert table_line(TEXT, "policy", "status") == number('status = "not')
    assert table_line(TEXT, "policy", "note") == number('note="n"')
    assert table_line(TEXT, "policy", "last") == number("last")
    assert table_line(TEXT, "policy", "python") == number("[policy]")
    assert table_line(TEXT, "nothing") == 1
