"""What ``init --git`` says and writes, in each state in which a repository may be, and how the merge itself ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpushim import quiet_git
from hpushim.errors import HpushimError
from hpushim.following import git_setup, merging
from hpushim.following.merging import How, Merged, merge, plain
from hpushim.model import Target

DRIVER = "hp merge-driver --path=%P --marker-size=%L %O %A %B"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder := tmp_path / "of a user").mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    monkeypatch.setattr(git_setup, "driver", lambda: DRIVER)
    return folder


def _setting(top: Path, name: str) -> str:
    words = ["git", "-C", str(top), "config", "--local", "--get", f"merge.hpushim.{name}"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


BLOCK = (
    git_setup._FIRST,
    *(f"{pattern} merge=hpushim" for pattern in git_setup._PATTERNS),
    git_setup._LAST,
)


@pytest.mark.parametrize(
    ("before", "start", "newline"),
    [(None, "", "\n"), ("", "", "\n"), ("*.bin binary\n", "*.bin binary\n", "\n"), ("*.bin binary", "*.bin binary\n", "\n"), ("*.bin binary\r\na b", "*.bin binary\r\na b\r\n", "\r\n")],
)  # fmt: skip
def test_what_is_set_up_is_said_once_and_taken_back(top: Path, before: str | None, start: str, newline: str) -> None:  # fmt: skip
    file = top / ".gitattributes"
    if before is not None:
        file.write_bytes(before.encode())
    said = list(git_setup.set_up(top))
    assert said == [
        f"git was set up: git config merge.hpushim.driver '{DRIVER}'",
        f"wrote {len(git_setup._PATTERNS)} patterns to {file}; commit it",
    ]
    assert (_setting(top, "driver"), _setting(top, "name")) == (DRIVER, "hpushim: migrate both sides, then merge")  # fmt: skip
    assert file.read_bytes().decode() == start + "".join(line + newline for line in BLOCK)
    assert list(git_setup.set_up(top)) == [f"git runs `{DRIVER}` already", f"{file} already has the patterns"]  # fmt: skip
    more = "c merge=union\n" if start else ""
    with file.open("a", newline="") as out:
        out.write(more)
    back = list(git_setup.take_back(top))
    assert back[0] == "git was set up: git config --remove-section merge.hpushim"
    assert back[1:] == [f"removed the patterns from {file}" if start else f"removed {file}, which held nothing else"]  # fmt: skip
    assert (file.read_bytes().decode() if start else file.exists()) == (start + more or False)
    assert (_setting(top, "driver"), list(git_setup.take_back(top))) == ("", [])


@pytest.mark.parametrize("text", [f"{git_setup._FIRST}\n*.py merge=hpushim\n", f"{git_setup._LAST}\n{git_setup._FIRST}\n"])  # fmt: skip
def test_half_a_block_is_left_alone(top: Path, text: str) -> None:
    (top / ".gitattributes").write_text(text)
    assert list(git_setup.take_back(top)) == []
    assert (top / ".gitattributes").read_text() == text


def test_another_driver_and_what_cannot_be_read_are_said(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    subprocess.run(["git", "-C", top, "config", "merge.hpushim.driver", "other %O"], check=True)
    with pytest.raises(HpushimError, match=r"already runs 'other %O' as merge.hpushim.driver; expected none, or 'hp merge"):  # fmt: skip
        list(git_setup.set_up(top))
    assert not (top / ".gitattributes").exists()
    (top / ".gitattributes").mkdir()
    with pytest.raises(HpushimError, match=r"gitattributes: cannot be read: .+; fix it first"):
        list(git_setup.take_back(top))
    (top / ".gitattributes").rmdir()
    (top / ".gitattributes").symlink_to("elsewhere")
    (top / "elsewhere").write_text("")
    with pytest.raises(HpushimError, match="cannot be read"):
        list(git_setup.take_back(top))
    (top / ".git" / "config").write_text("[broken\n")
    with pytest.raises(HpushimError, match=r"^git config .+: .*config.*; nothing else was done"):
        git_setup._config(quiet_git.program() or "", top, "merge.hpushim.driver", "x")
    monkeypatch.setenv("PATH", str(top))
    for asked in (git_setup.set_up, git_setup.take_back):
        with pytest.raises(HpushimError, match="git is not on PATH; install it, or leave --git out"):  # fmt: skip
            list(asked(top))


@pytest.mark.parametrize("where", ["argument", "another's argument", "path", "nowhere", "gone"])
def test_the_command_is_one_that_git_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:  # fmt: skip
    (tool := tmp_path / "50% o'f" / "hpushim").parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tool.parent)
    monkeypatch.setenv("PATH", str(tool.parent) if where in ("path", "another's argument") else "")
    first = {"argument": "hpushim", "another's argument": str(tmp_path / "pytest"), "gone": str(tmp_path / "hpushim")}  # fmt: skip
    monkeypatch.setattr(sys, "argv", [first.get(where, "-c")])
    found = git_setup.driver()
    assert found.endswith(" merge-driver --path=%P --marker-size=%L %O %A %B")
    quoted = "'" + str(tool).replace("%", "%%").replace("'", "'\"'\"'") + "'"
    apart = " -P" if sys.version_info >= (3, 11) else ""
    wanted = f"{sys.executable}{apart} -m hpushim" if where in ("nowhere", "gone") else quoted
    assert found.partition(" merge-driver")[0] == wanted


def _three(folder: Path, *texts: bytes) -> tuple[Path, Path, Path]:
    files = [folder / name for name in ("b", "o", "t")]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text)
    return files[0], files[1], files[2]


@pytest.mark.parametrize("marker", [7, 9])
@pytest.mark.parametrize("conflicts", [0, 1, 2])
def test_conflicts_are_counted_and_marked_as_long_as_asked(tmp_path: Path, marker: int, conflicts: int) -> None:  # fmt: skip
    lines = [b"%d\n" % n for n in range(12)]
    ours, theirs = list(lines), list(lines)
    for n in range(conflicts):
        ours[6 * n], theirs[6 * n] = b"ours\n", b"theirs\n"
    made = plain(_three(tmp_path, b"".join(lines), b"".join(ours), b"".join(theirs)), marker, "asked")  # fmt: skip
    assert (made.conflicts, made.notes) == (conflicts, ("not migrated before merging: asked",))
    assert made.data is not None
    heads = re.findall(r"^(<+ ours|=+|>+ theirs)$", made.data.decode(), re.MULTILINE)
    assert heads == ["<" * marker + " ours", "=" * marker, ">" * marker + " theirs"] * conflicts
    assert merge(_three(tmp_path, *[b"a\n"] * 3), "notes.bin", tmp_path, How(Target())).data == b"a\n"  # fmt: skip


@pytest.mark.parametrize(
    ("code", "stderr", "note"),
    [(255, b"error: Cannot merge binary files: x\n", "not merged: Cannot merge binary files: x"), (128, b"", "not merged: git merge-file failed"),
     (127, b"error: many\n", "")],
)  # fmt: skip
def test_what_git_cannot_merge_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, stderr: bytes, note: str) -> None:  # fmt: skip
    done = subprocess.CompletedProcess([], code, b"merged", stderr)
    monkeypatch.setattr(quiet_git, "ask", lambda *words: done)
    made = plain(_three(tmp_path, b"", b"", b""), 7, "x")
    first = "not migrated before merging: x"
    assert made == (Merged(None, 1, (first, note)) if note else Merged(b"merged", code, (first,)))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HpushimError, match="git is not on PATH, and hpushim needs it to merge"):
        plain(_three(tmp_path, b"", b"", b""), 7, "x")


CUDA, BROKEN = b"x = y.cuda()\n", b"x = (y.cuda()\n"


@pytest.mark.parametrize(
    ("versions", "broken"),
    [((CUDA, CUDA, BROKEN), ["their version"]), ((BROKEN, CUDA, CUDA), ["the common ancestor"]), ((CUDA, BROKEN, CUDA), ["our version"]),
     ((CUDA, CUDA, CUDA), []), ((BROKEN, b"1\n", b"2\n"), ["the common ancestor"])],
)  # fmt: skip
def test_each_version_is_migrated_or_the_reason_is_said(tmp_path: Path, versions: tuple[bytes, bytes, bytes], broken: list[str]) -> None:  # fmt: skip
    notes: list[str] = []
    (tmp_path / "a.py").write_bytes(b"")
    after = merging._migrated(versions, "a.py", tmp_path, How(Target()), notes)
    assert [note.partition(" is merged without migration: ")[0] for note in notes] == broken
    assert all(note.partition("migration: ")[2] for note in notes)
    as_theirs = broken == ["their version"]
    assert list(after) == [b'x = y.to("hpu")\n' if one == CUDA and not as_theirs else one for one in versions]  # fmt: skip
    assert merging._migrated(versions, "a.bin", tmp_path, How(Target()), notes) == versions


def test_a_file_that_git_knows_by_its_first_line(tmp_path: Path) -> None:
    first = b"#!/usr/bin/env python\n"
    notes: list[str] = []
    (tmp_path / "tool").write_bytes(first)
    after = merging._migrated((first + CUDA,) * 3, "tool", tmp_path, How(Target()), notes)
    assert after == (first + b'x = y.to("hpu")\n',) * 3
