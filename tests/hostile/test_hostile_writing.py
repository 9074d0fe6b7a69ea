"""Nothing outside of a project is written, and no file that is not a regular one, wherever the name comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
import things
from hypothesis import given
from hypothesis import strategies as st

from hpushim import safe_files

pytestmark = [pytest.mark.hostile("writing"), pytest.mark.usefixtures("untouched")]
Run = Callable[..., runs.Done]
WRITERS = (("check",), ("report", "--format", "json"), ("migrate",), ("migrate", "--diff"))
HARMLESS = ("made",)  # what a link to nowhere would make


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
@pytest.mark.parametrize("thing", [*things.LINKS, *things.NOT_FILES], ids=things.named)
def test_output_is_a_thing(
    project: Path, outside: Path, hpushim: Run, thing: things.Thing, words: tuple[str, ...]
) -> None:
    """-o names a link, device, pipe, socket or folder: refused before anything is done"""
    things.put(thing, project / "report.txt", outside)
    before = runs.state(project)
    done = hpushim(*words, ".", "-o", "report.txt")
    assert done.code == 2, done.said
    assert "no report can be written" in done.err and "nothing was done" in done.err
    assert runs.state(project) == before


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
@pytest.mark.parametrize(
    "name",
    ["out/r", "out/../out/r", "in/../out/r", "deep/out/r", "absolute/r", "../project/out/r"],
)
def test_output_lies_behind_a_link(
    project: Path, outside: Path, hpushim: Run, name: str, words: tuple[str, ...]
) -> None:
    """-o leads through a folder that is a link of the project"""
    (project / "out").symlink_to("../outside")
    (project / "in").mkdir()
    (project / "deep").mkdir()
    (project / "deep" / "out").symlink_to("../../outside")
    (project / "absolute").symlink_to(outside)
    done = hpushim(*words, ".", "-o", name)
    assert done.code == 2 and "symbolic link in the project" in done.err
    assert (project / "train.py").read_text().endswith(".cuda()\n")


@pytest.mark.parametrize("name", ["", ".", "..", "/", "sub", "no/such/folder", "train.py"])
def test_output_is_no_place_for_a_report(project: Path, hpushim: Run, name: str) -> None:
    """-o names a folder, code, or nothing that is there"""
    (project / "sub").mkdir()
    before = runs.state(project)
    done = hpushim("migrate", ".", "-o", name)
    assert done.code == 2 and "Traceback" not in done.err
    assert runs.state(project) == before


def test_output_is_a_second_name(project: Path, outside: Path, hpushim: Run) -> None:
    """-o names a hard link to a file elsewhere: only this name gets the report"""
    os.link(outside / "secret", project / "report.txt")
    (outside / "secret").stat()
    assert hpushim("check", ".", "-o", "report.txt").code == 1
    assert (outside / "secret").read_bytes() == b"not part of the project\n"
    assert "HPU102" in (project / "report.txt").read_text()


def test_links_outside_of_the_project_are_the_users(tmp_path: Path, project: Path, hpushim: Run) -> None:  # fmt: skip
    """-o goes through a link that is not the project's: followed"""
    (tmp_path / "reports").mkdir()
    (tmp_path / "mine").symlink_to("reports")
    assert hpushim("check", ".", "-o", tmp_path / "mine" / "r.txt").code == 1
    assert "HPU102" in (tmp_path / "reports" / "r.txt").read_text()


def test_a_report_keeps_the_mode_of_its_file(project: Path, hpushim: Run) -> None:
    """-o over a report that is there"""
    (project / "r.txt").write_text("old")
    (project / "r.txt").chmod(0o640)
    assert hpushim("check", ".", "-o", "r.txt").code == 1
    assert (project / "r.txt").stat().st_mode & 0o7777 == 0o640
    assert sorted(p.name for p in project.iterdir()) == ["r.txt", "train.py"]


def test_a_draft_that_was_left_is_replaced(project: Path, hpushim: Run) -> None:
    """-o after a run that was killed while it wrote the same report"""
    with safe_files.Folder.at(project) as folder:
        folder.new(safe_files._draft("r.txt"), b"half a rep")
    assert hpushim("check", ".", "-o", "r.txt").code == 1
    assert sorted(p.name for p in project.iterdir()) == ["r.txt", "train.py"]


@pytest.mark.parametrize("thing", [things.link_out, things.pipe, things.folder], ids=things.named)
def test_a_draft_that_was_planted(
    project: Path, outside: Path, hpushim: Run, thing: things.Thing
) -> None:
    """the name of -o's draft is taken by something that is no file"""
    things.put(thing, project / safe_files._draft("r.txt"), outside)
    done = hpushim("check", ".", "-o", "r.txt")
    assert done.code in (1, 3) and "HPU102" in done.out + (
        (project / "r.txt").read_text() if (project / "r.txt").exists() else ""
    )


@pytest.mark.parametrize("thing", [*things.LINKS, *things.NOT_FILES], ids=things.named)
@pytest.mark.parametrize("place", ["train.py", "sub"])
def test_a_file_turns_into_a_thing(
    project: Path, outside: Path, hpushim: Run, thing: things.Thing, place: str
) -> None:
    """a file or its folder is something else by the time --undo comes"""
    (project / "sub").mkdir()
    (project / "sub" / "train.py").write_bytes((project / "train.py").read_bytes())
    assert hpushim("migrate", ".").code == 0
    (project / "sub" / "train.py").unlink()
    if place == "sub":
        (project / "sub").rmdir()
    things.put(thing, project / place, outside)
    if place == "sub" and thing is things.folder:
        pytest.skip("a folder in place of a folder is no trial")
    done = hpushim("migrate", "--undo", "--force", ".")
    assert done.code == 3 and "not restored" in done.err and place in done.err


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6755, 0o1755, 0o7777])
def test_set_id_bits_are_neither_given_nor_lost(project: Path, hpushim: Run, bits: int) -> None:
    """a file with set-id bits is migrated and put back"""
    (project / "train.py").chmod(bits)
    before = runs.state(project)
    assert hpushim("migrate", ".").code == 0
    assert (project / "train.py").stat().st_mode & 0o7777 == bits
    assert hpushim("migrate", "--undo", ".").code == 0
    assert runs.state(project) == before


@given(st.text(st.sampled_from("ab/.\\ \n\0~-é\udcff"), max_size=12))
def test_any_name_stays_in_its_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """generated names given to the one place that writes"""
    top = tmp_path_factory.mktemp("names")
    inside = top / "inside"
    inside.mkdir()
    with safe_files.Folder.at(inside) as folder:
        try:
            folder.new(name, b"x", sync=False)
            folder.write(name, b"y", temporary=safe_files.temporary())
        except OSError:
            pass
    assert [p.name for p in top.iterdir()] == ["inside"]
    assert {p.read_bytes() for p in inside.iterdir()} <= {b"y"}
