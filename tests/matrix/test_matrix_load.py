"""Reading the matrix: what a broken file says, and how a project's own rows join the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.errors import MatrixError
from hpushim.matrix import load

HEAD = 'format = 1\n\n[sources.docs]\ntitle = "A document"\n'
ROW = """
[[row]]
name = "torch.cuda.wink"
area = "device"
status = "native"
note = "It winks."
source = ["docs:page"]
confidence = "documented"
"""


def _write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "matrix.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _complaint(path: Path) -> str:
    with pytest.raises(MatrixError) as raised:
        load(path)
    text = str(raised.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def _line(path: Path, start: str) -> int:
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(start))


def test_a_good_file_is_read(tmp_path: Path) -> None:
    matrix = load(_write(tmp_path, HEAD + ROW))
    assert [row.name for row in matrix.rows] == ["torch.cuda.wink"]


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        ('status = "native"\nstatsu = "x"', "statsu", "remove `statsu`"),
        ('status = "nativ"', "status", "use one of: native, renamed, changed"),
        ('status = "native"\nkind = "snake"', "kind", "use one of: python, argument"),
        ('status = "native"\nruntime = "magic"', "runtime", "use one of: none, net, alias"),
        ("status = 3", "status", "Expected `str`, got `int`"),
        ('status = "native"\nrule = "HPU7"', "rule", "write HPU and three digits"),
        ('status = "native"\nruntime = "alias"', "runtime", "add `target = …`"),
        (
            'status = "native"\nruntime = "constant"\nvalue = "nix("',
            "value",
            "not a Python literal",
        ),
        ('status = "native"\ntorch = "2.9"', "torch", 'write it as ">=2.9"'),
        ('status = "native"\norigin = "elsewhere"', "origin", "remove it"),
    ],
)
def test_a_wrong_column_is_named_with_its_line(
    tmp_path: Path, changed: str, field: str, says: str
) -> None:
    path = _write(tmp_path, HEAD + ROW.replace('status = "native"', changed))
    text = _complaint(path)
    assert says in text
    assert "'torch.cuda.wink'" in text
    assert f"`{field}`" in text
    assert f"{path}:{_line(path, field)}:" in text


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + ROW.replace('note = "It winks."\n', ""))
    assert "add `note = …`" in _complaint(path)


@pytest.mark.parametrize("note", ['" "', '"One.\\nTwo."'])
def test_a_note_is_one_line(tmp_path: Path, note: str) -> None:
    text = _complaint(_write(tmp_path, HEAD + ROW.replace('"It winks."', note)))
    assert "field `note`: it is empty or has several lines" in text


def test_a_second_row_of_a_name_points_at_the_first(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + ROW + ROW)
    text = _complaint(path)
    first = _line(path, "[[row]]")
    assert f"is already in line {first}" in text
    assert f"{path}:{first + 9}:" in text


def test_an_alias_of_another_row_is_a_double(tmp_path: Path) -> None:
    second = ROW.replace('"torch.cuda.wink"', '"torch.cuda.nod"\nalso = ["torch.cuda.wink"]')
    assert "merge the two rows" in _complaint(_write(tmp_path, HEAD + ROW + second))


@pytest.mark.parametrize(
    ("since", "until", "says"),
    [("1.x", "", "bad version range"), ("1.22", "1.20", "is empty")],
)
def test_a_bad_version_range_is_named(tmp_path: Path, since: str, until: str, says: str) -> None:
    limit = f'limits = [{{ since = "{since}", until = "{until}" }}]\n'
    path = _write(tmp_path, HEAD + ROW + limit)
    text = _complaint(path)
    assert says in text
    assert f"{path}:{_line(path, 'limits')}:" in text


def test_a_limit_of_a_limit_is_checked_too(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + ROW + 'limits = [{ gaudi = ["gaudi9"] }]\n')
    text = _complaint(path)
    assert "gaudi9" in text
    assert f"{path}:{_line(path, 'limits')}:" in text


def test_a_source_without_entry_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + ROW.replace("docs:page", "dosc:page"))
    assert "names no entry of [sources]" in _complaint(path)


def test_text_that_is_no_toml_gives_the_line(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD + "\n[[row]]\nname = torch\n")
    text = _complaint(path)
    assert "not TOML" in text
    assert f"{path}:{_line(path, 'name')}:" in text


def test_bytes_that_are_no_utf8_give_the_line(tmp_path: Path) -> None:
    path = _write(tmp_path, HEAD.encode() + b"# caf\xe9\n")
    text = _complaint(path)
    assert "0xe9 is not UTF-8" in text
    assert f"{path}:5:" in text


def test_a_directory_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    assert "a folder, not a regular file" in _complaint(tmp_path)
    assert "does not exist" in _complaint(tmp_path / "nowhere.toml")


def test_an_unknown_table_and_a_newer_format_are_refused(tmp_path: Path) -> None:
    assert "remove `rows`" in _complaint(_write(tmp_path, "[[rows]]\nname = 'x'\n"))
    path = tmp_path / "newer.toml"
    path.write_text("format = 99\n")
    assert f"{path}:1: format is 99" in _complaint(path)


def test_own_rows_add_and_override_and_say_where_they_come_from(tmp_path: Path) -> None:
    own = tmp_path / "ours.toml"
    own.write_text(
        '[[row]]\nname = "ours.lib.to_gpu"\nstatus = "renamed"\ntarget = "ours.lib.to_hpu"\nnote = "Ours."\n'
        '[[row]]\nname = "torch.cuda.synchronize"\nstatus = "noop"\nnote = "We never wait."\n'
    )
    shipped = load()
    matrix = load(extra=[own])
    added = matrix.row("ours.lib.to_gpu")
    assert added is not None
    assert (added.target, added.origin) == ("ours.lib.to_hpu", str(own))
    overridden = matrix.row("torch.cuda.synchronize")
    assert overridden is not None
    assert (overridden.status, overridden.origin) == ("noop", str(own))
    assert len(matrix.rows) == len(shipped.rows) + 1
    before = shipped.row("torch.cuda.synchronize")
    assert before is not None
    assert before.origin == ""


def test_a_broken_own_file_is_named_by_itself(tmp_path: Path) -> None:
    own = tmp_path / "ours.toml"
    own.write_text('[[row]]\nname = "ours.x"\nstatus = "fine"\nnote = "N."\n')
    with pytest.raises(MatrixError, match=rf"{own}:3: row 'ours.x', field `status`"):
        load(extra=[own])


def test_a_load_is_kept() -> None:
    assert load() is load()
