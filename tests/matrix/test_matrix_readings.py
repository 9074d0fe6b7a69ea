"""What rows rest on: the readings belong to the rows, and are held beside the repositories that they name."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpushim.cli import cli
from hpushim.errors import MatrixError
from hpushim.matrix import load, readings, sources
from hpushim.matrix.readings import Reading, fingerprint, span
from hpushim.matrix.schema import Source

pytestmark = pytest.mark.usefixtures("served")

FILE = ["import torch", "", "def first():", "    return 1", "", "def second():", "    return 2"]
WORKS = {"ours": Source(title="Ours", url="https://github.com/us/our-lib/blob/1.0/{}")}


def reading(at: str, lines: list[str] | None = None) -> Reading:
    text = fingerprint(lines, span(at)) if lines else ""
    return Reading(at=at, says="Something.", read=datetime.date(2026, 11, 22), print=text)


def found(folder: Path, item: Reading, as_cited: bool = False) -> tuple[str, str]:
    (one,) = sources.compare({("python", "a.b"): (item,)}, WORKS, folder, as_cited)
    return one.state, one.now


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "a.py").write_text("\n".join(FILE) + "\n")
    return tmp_path


# ---- the shipped file


def test_every_row_has_readings_of_exactly_its_sources() -> None:
    assert list(readings.flaws(load(), readings.load_readings())) == []


def test_every_cited_line_of_a_repository_has_a_fingerprint() -> None:
    lacking = [
        (name, item.at)
        for (_, name), items in readings.load_readings().items()
        for item in items
        if span(item.at) and not item.print
    ]
    assert lacking == []


def test_what_is_said_is_a_paraphrase_and_short() -> None:
    wrong = [
        (name, item.says)
        for (_, name), items in readings.load_readings().items()
        for item in items
        if not item.says[0].isupper() and not item.says[0].isdigit() and item.says[0] not in "-\"'`"
        and not item.says.split()[0].replace("_", "").replace(".", "").replace("(", "").isidentifier()
    ]  # fmt: skip
    assert wrong == []
    long = [
        item.says
        for items in readings.load_readings().values()
        for item in items
        if len(item.says) > 330
    ]
    assert long == []


def test_code_is_cited_to_the_line() -> None:
    """A row that was read in code names the lines, but for lists as a whole and folders."""
    whole = [
        (row.name, row.source)
        for row in load().rows
        if row.confidence == "source"
        and not any(span(place) for place in row.source)
        and not all("blob" in place and place.count("/") < 7 for place in row.source)
    ]
    assert whole == []


def test_loading_the_matrix_reads_no_readings() -> None:
    code = "from hpushim.matrix import load; load(); import sys; assert 'hpushim.matrix.readings' not in sys.modules"
    import sys

    subprocess.run([sys.executable, "-c", code], check=True)


# ---- rows and readings that do not belong together


def test_a_row_without_readings_is_named(tmp_path: Path) -> None:
    matrix = load()
    kept = dict(readings.load_readings())
    del kept["python", "torch.cuda.synchronize"]
    (flaw,) = readings.flaws(matrix, kept)
    assert flaw[0] == "torch.cuda.synchronize"
    assert "readings of nothing" in flaw[1]


def test_readings_without_a_row_are_named() -> None:
    kept = dict(readings.load_readings()) | {("python", "torch.cuda.wink"): (reading("ours:a.py"),)}
    assert ("torch.cuda.wink", "has readings and no row: rename or remove them") in list(
        readings.flaws(load(), kept)
    )


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "readings.toml"
    path.write_text('format = 1\n[[row]]\nname = "x"\nreadings = [{ at = "a" }]\n')
    with pytest.raises(MatrixError, match=rf"{path}: .*says"):
        readings.load_readings(path)
    path.write_text("format = 9\nrow = []\n")
    with pytest.raises(MatrixError, match="format is 9"):
        readings.load_readings(path)


# ---- places beside their repositories


def test_a_place_that_is_as_it_was(tree: Path) -> None:
    assert found(tree, reading("ours:a.py#L3-L4", FILE)) == ("same", "")
    assert found(tree, reading("ours:a.py", FILE)) == ("same", "")


def test_indentation_and_blank_lines_do_not_count(tree: Path) -> None:
    item = reading("ours:a.py#L3-L5", FILE)
    (tree / "ours" / "a.py").write_text("\n".join(f"  {line}" for line in FILE))
    assert found(tree, item) == ("same", "")


def test_lines_that_moved_are_found_again(tree: Path) -> None:
    item = reading("ours:a.py#L3-L4", FILE)
    (tree / "ours" / "a.py").write_text("\n".join(["# one", "# two", *FILE]))
    assert found(tree, item) == ("moved", "L5-L6")


def test_lines_that_changed_are_told(tree: Path) -> None:
    item = reading("ours:a.py#L3-L4", FILE)
    (tree / "ours" / "a.py").write_text("\n".join(FILE).replace("return 1", "return 3"))
    assert found(tree, item) == ("changed", "")
    (tree / "ours" / "a.py").write_text("import torch\n")
    assert found(tree, item) == ("changed", "")


def test_a_file_that_went_is_told(tree: Path) -> None:
    assert found(tree, reading("ours:b.py#L1", FILE)) == ("gone", "")


def test_a_repository_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert found(tmp_path, reading("ours:a.py#L1", FILE)) == ("absent", "")


@pytest.mark.parametrize(
    "place",
    [
        "https://example.org/page.html",
        "https://github.com/us/our-lib/issues/4",
        "ours:",
        "theirs:a.py",
    ],
)
def test_documents_are_not_compared(tree: Path, place: str) -> None:
    assert found(tree, reading(place)) == ("document", "")


@pytest.mark.parametrize(
    "folder", ["ours", "our-lib", "us+our-lib", "us/our-lib", "us+our-lib/repo"]
)
def test_where_a_repository_may_lie(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "a.py").write_text("\n".join(FILE))
    assert found(tmp_path, reading("ours:a.py#L3-L4", FILE)) == ("same", "")


def test_a_git_directory_is_read_at_its_newest_or_as_cited(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=work, check=True, capture_output=True
        )  # fmt: skip

    git("init", "-q")
    (work / "a.py").write_text("\n".join(FILE))
    git("add", ".")
    git("commit", "-qm", "one")
    git("tag", "v1.0")
    (work / "a.py").write_text("\n".join(["# new", *FILE]))
    git("commit", "-qam", "two")
    folder = tmp_path / "shelf"
    folder.mkdir()
    git("clone", "-q", "--bare", str(work), str(folder / "us+our-lib"))
    item = reading("ours:a.py#L3-L4", FILE)
    assert found(folder, item) == ("moved", "L4-L5")
    assert found(folder, item, as_cited=True) == ("same", "")
    other = reading("https://github.com/us/our-lib/blob/9.9/a.py#L3-L4", FILE)
    assert found(folder, other, as_cited=True) == ("absent", "")


def test_fingerprints_that_lack_are_written(tree: Path) -> None:
    path = tree / "readings.toml"
    path.write_text('  { at = "ours:a.py#L3-L4", says = "S.", read = 2026-11-22 },\n')
    one = sources.compare({("python", "a"): (reading("ours:a.py#L3-L4"),)}, WORKS, tree)
    assert sources.fill(path, one) == 1
    assert f'print = "{fingerprint(FILE, (3, 4))}" }},' in path.read_text()
    again = sources.compare({("python", "a"): (reading("ours:a.py#L3-L4"),)}, WORKS, tree)
    assert sources.fill(path, again) == 0


# ---- the command


def check(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["matrix", "check", *arguments], standalone_mode=False)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return int(result.return_value or 0), result.output


def test_the_command_counts_and_names(tmp_path: Path) -> None:
    (tmp_path / "bridge").mkdir()
    code, out = check("--sources", str(tmp_path))
    assert code == 1
    assert "hpu/__init__.py#L151-L154: gone" in out
    assert "0 as they were read" in out
    assert "huggingface/accelerate" in out


def test_fill_writes_the_fingerprint_of_the_cited_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is checked out."""
    work = tmp_path / "HabanaAI+Model-References"
    work.mkdir()
    later = ["# new", *FILE]
    for lines, words in ((FILE, ["tag", "1.23.0"]), (later, ["tag", "1.24.0"])):
        (work / "a.py").write_text("\n".join(lines) + "\n")
        for asked in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], words):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@b", *asked], cwd=work, check=True
            )
    path = tmp_path / "readings.toml"
    path.write_text(
        'format = 1\n\n[[row]]\nname = "a"\nreadings = [\n'
        '  { at = "models:a.py#L3-L4", says = "S.", read = 2026-11-22 },\n]\n'
    )
    monkeypatch.setattr(readings, "readings_path", lambda: path)
    _, out = check("--sources", str(tmp_path), "--fill")
    assert out.startswith("1 fingerprints written")
    assert f'print = "{fingerprint(FILE, (3, 4))}"' in path.read_text()
    assert fingerprint(FILE, (3, 4)) != fingerprint(later, (3, 4))


def test_an_empty_folder_is_no_fault(tmp_path: Path) -> None:
    code, out = check("--sources", str(tmp_path))
    assert code == 0
    assert out.startswith("0 places in 0 repositories")


def test_options_that_need_a_folder_say_so() -> None:
    from click import UsageError

    with pytest.raises(UsageError, match="--sources FOLDER"):
        check("--as-cited")


def test_a_name_is_answered_with_what_was_read() -> None:
    out = CliRunner().invoke(cli, ["api", "torch.cuda.synchronize"], standalone_mode=False).output
    assert "says: Opens the card if needed and waits for it" in out
    assert "(read 2026-11-22)" in out


# ---- the repositories themselves, where a machine has them


def test_the_shipped_places_stand_in_the_repositories() -> None:
    import os

    folder = os.environ.get("HPUSHIM_SOURCES")
    if not folder:
        pytest.skip("set HPUSHIM_SOURCES to a folder of the cited repositories")
    wrong = [
        (item.row, item.reading.at, item.state)
        for item in sources.compare(readings.load_readings(), load().sources, Path(folder), True)
        if item.state in ("moved", "changed", "gone")
    ]
    assert wrong == []


# ---- readings that are none


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [
        ({"says": "TORCH.HPU.synchronize() waits for the device, and takes no device"}, "repeats its note"),
        ({"seen": "collected"}, "which nobody opened"),
        ({"says": " "}, "says nothing"),
        ({"at": "elsewhere:README.md#L1"}, "make them one list"),
    ],
)  # fmt: skip
def test_a_reading_that_nobody_made_is_an_error(kept: dict[str, str], complaint: str) -> None:
    import msgspec

    key = ("python", "torch.cuda.synchronize")
    items = readings.load_readings()
    first, *rest = items[key]
    changed = {**items, key: (msgspec.structs.replace(first, **kept), *rest)}
    ((name, text),) = readings.flaws(load(), changed)
    assert (name, complaint in text) == (key[1], True)


def test_readings_and_rows_without_each_other_are_errors() -> None:
    key = ("python", "torch.cuda.synchronize")
    items = readings.load_readings()
    without = {one: read for one, read in items.items() if one != key}
    ((name, text),) = readings.flaws(load(), without)
    assert (name, "has readings of nothing" in text) == (key[1], True)
    ((name, text),) = readings.flaws(load(), {**items, ("python", "torch.no_such"): items[key]})
    assert (name, text) == ("torch.no_such", "has readings and no row: rename or remove them")


def test_an_address_that_names_a_tag_is_read_there(tree: Path) -> None:
    work = tree / "our-lib"
    work.mkdir()
    for words in (
        ["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "1.0"],
    ):  # fmt: skip
        (work / "a.py").write_text("\n".join(FILE) + "\n")
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=work, check=True
        )
    (work / "a.py").write_text("new\n")
    at = "https://github.com/us/our-lib/blob/1.0/a.py#L3-L4"
    assert found(tree, reading(at, FILE)) == ("same", "")
