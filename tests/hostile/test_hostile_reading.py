"""What a project can name is read only if it is a regular file, up to a limit, and never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
import things
from crossed import crossed

from hpushim import safe_files
from hpushim.engine.files import mounts
from hpushim.engine.files.discover import discover, project_root

pytestmark = [pytest.mark.hostile("reading"), pytest.mark.usefixtures("untouched")]
Run = Callable[..., runs.Done]
COMMANDS = (("check", "."), ("report", "."), ("migrate", "."), ("api", "torch.cuda.synchronize"))
THINGS = [*things.NEVER_ENDING, things.folder, things.link_nowhere, things.link_out]


READ = ("pyproject.toml", "ours.toml", ".gitignore", "other.py", "tool")


@pytest.mark.parametrize(("name", "thing", "words"), crossed(READ, THINGS, COMMANDS, rounds=6), ids=things.named)  # fmt: skip
def test_a_thing_where_a_file_is_read(
    project: Path, outside: Path, hpushim: Run, name: str, thing: things.Thing, words: tuple[str, ...]
) -> None:  # fmt: skip
    """configuration, matrix, ignore file, code: a link, pipe, device, folder or a file without end"""
    if name == "ours.toml":
        (project / "pyproject.toml").write_text('[tool.hpushim]\nmatrix = ["ours.toml"]\n')
    things.put(thing, project / name, outside)
    done = hpushim(*words)
    assert done.code in (0, 1, 2, 3) and "internal error" not in done.said, done.said
    if name == "ours.toml":
        assert done.code == 2 and "ours.toml" in done.err


@pytest.mark.parametrize("thing", [*THINGS, things.null, things.block], ids=things.named)
@pytest.mark.parametrize("name", ["named.py", "named.ipynb", "named"])
def test_a_thing_that_is_named(
    project: Path, outside: Path, hpushim: Run, name: str, thing: things.Thing
) -> None:
    """the command line names a link, pipe, device or a file without end"""
    things.put(thing, project / name, outside)
    if thing is things.folder:
        assert hpushim("check", name).code == 0
        return
    done = hpushim("migrate", name)
    assert done.code in (0, 2, 3) and "internal error" not in done.said
    if thing is not things.link_out:
        assert done.code in (2, 3) and "named" in done.said


REPOSITORY = (
    ".git",
    ".git/HEAD",
    ".git/config",
    ".git/index",
    ".git/info/exclude",
    ".gitattributes",
)


@pytest.mark.parametrize(("name", "thing"), crossed(REPOSITORY, THINGS, rounds=2), ids=things.named)
def test_a_thing_in_a_repository(
    project: Path, outside: Path, hpushim: Run, name: str, thing: things.Thing
) -> None:
    """a part of the repository is a link, pipe, device or a file without end"""
    if name != ".git":
        (project / ".git" / "info").mkdir(parents=True)
    things.put(thing, project / name, outside)
    done = hpushim("migrate", ".")
    assert done.code in (0, 2, 3) and "internal error" not in done.said, done.said
    assert hpushim("check", ".").code in (1, 3)


VALUES = ("../outside/secret", "../outside/ours.toml", "out/ours.toml", "/etc/passwd", "link.toml", "..", "", ".", "a\\u0000b")  # fmt: skip


@pytest.mark.parametrize(("words", "value"), crossed([*COMMANDS, ("matrix", "check")], VALUES, rounds=2), ids=str)  # fmt: skip
def test_settings_name_nothing_outside(
    project: Path, outside: Path, hpushim: Run, value: str, words: tuple[str, ...]
) -> None:
    """[tool.hpushim] matrix leads out of the project"""
    (project / "pyproject.toml").write_text(f'[tool.hpushim]\nmatrix = ["{value}"]\n')
    (project / "out").symlink_to("../outside")
    (project / "link.toml").symlink_to("../outside/secret")
    done = hpushim(*words)
    assert done.code == 2 and "internal error" not in done.said
    assert value in ("", ".") or "outside of the project" in done.err, done.err


def test_the_command_line_may_name_rows_anywhere(
    tmp_path: Path, project: Path, hpushim: Run
) -> None:
    """--matrix names a file outside of the project"""
    rows = tmp_path / "ours.toml"
    rows.write_text('[[row]]\nname = "ours.x"\nstatus = "unsupported"\nrule = "HPU021"\nnote = "No."\n')  # fmt: skip
    (project / "train.py").write_text("import ours\nours.x()\n")
    done = hpushim("check", ".", "--matrix", rows)
    assert done.code == 1 and "HPU021" in done.out
    assert "No." in hpushim("api", "ours.x", "--matrix", rows).out


def test_a_file_of_the_kernel_is_not_read_as_a_project(hpushim: Run) -> None:
    """file systems of the kernel are named or walked into"""
    if not mounts.of_the_kernel("/proc"):
        pytest.skip("no /proc here")
    done = hpushim("check", "/proc")
    assert done.code == 3 and "file system of the kernel" in done.out
    assert "/proc" in mounts.of_the_kernel_below("/")


def test_read_takes_files_that_say_they_are_empty() -> None:
    """a file of the kernel, whose size is not known before"""
    path = "/proc/self/status"
    if not os.path.exists(path):  # noqa: PTH110
        pytest.skip("no /proc here")
    assert b"Name:" in safe_files.read(path)
    assert safe_files.head(path, 10) == b""


def test_the_limit_is_kept(tmp_path: Path) -> None:
    """files at the limit and one byte above"""
    path = tmp_path / "x"
    path.write_bytes(b"a" * 100)
    assert len(safe_files.read(path, 100)) == 100
    with pytest.raises(safe_files.Refused, match="larger than"):
        safe_files.read(path, 99)


@pytest.mark.parametrize("depth", [1, 50, 900])
def test_links_in_circles_and_deep_folders(project: Path, hpushim: Run, depth: int) -> None:
    """links that lead round, folders in folders"""
    here = project
    for number in range(depth):
        here = here / "d"
        if len(str(here)) > 3900:
            break
        here.mkdir()
        if number % 50 == 0:
            (here / "up").symlink_to("..")
            (here / "top.py").symlink_to(project / "train.py")
    (here / "deep.py").write_text("x.cuda()\n")
    done = hpushim("check", ".", "--format", "concise")
    assert done.code == 1 and "deep.py" in done.out and done.out.count("train.py") == 1


def test_folders_deeper_than_a_path_is_long(project: Path, hpushim: Run) -> None:
    """folders in folders beyond the length of a path"""
    here = os.open(project, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 20, dir_fd=here)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    done = hpushim("check", ".")
    assert done.code == 3 and "too long" in done.out.lower()
    # What pytest itself could not take away.
    import subprocess

    subprocess.run(["rm", "-rf", str(project)], check=True)


def test_the_root_of_odd_paths(tmp_path: Path) -> None:
    """links to themselves among the paths given"""
    (tmp_path / "self").symlink_to("self")
    assert project_root([tmp_path / "self"]) == tmp_path
    found = discover([tmp_path / "self"], tmp_path, frozenset(["python"]))
    assert found.passed[0].failed


def test_a_folder_that_goes_away(tmp_path: Path, zygote: runs.Zygote) -> None:
    """the current folder is deleted while hpushim starts"""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone}"
    started = zygote.start("check", cwd=gone)
    os.system(script)
    done = started.end()
    # Gone before the process could even enter it, hpushim has not run: 1, and not a word.
    assert done.code in (0, 2) or (done.code == 1 and not done.said)
    assert "internal error" not in done.said
