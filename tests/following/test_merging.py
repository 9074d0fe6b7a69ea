"""A port takes upstream's commits: migrated on both sides before they are merged, so that only what both changed is in conflict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from hpushim.errors import HpushimError
from hpushim.following import git_setup, merging
from hpushim.following.merging import How, Merged, merge, plain
from hpushim.model import Target

BASE = """\
import torch


def make():
    return torch.nn.Linear(2, 2).cuda()


def step(model, x):
    x = x.cuda()
    return model(x)


def report(x):
    print(x)
"""
OURS = BASE.replace("2, 2).cuda()", '2, 2).to("hpu")').replace("x.cuda()", 'x.to("hpu")')


def _merged(
    folder: Path, base: str | bytes, ours: str | bytes, theirs: str | bytes, name: str = "train.py"
) -> Merged:
    files = []
    (folder / name).write_text("# what lies in the work tree\n")
    for number, text in enumerate((base, ours, theirs)):
        files.append(folder / f"version{number}")
        files[-1].write_bytes(text.encode() if isinstance(text, str) else text)
    return merge((files[0], files[1], files[2]), name, folder, How(Target()))


def test_what_upstream_changes_on_a_migrated_line_is_taken(tmp_path: Path) -> None:
    theirs = BASE.replace("x.cuda()", "x.cuda(non_blocking=True)").replace(
        "Linear(2, 2)", "Linear(2, 3)"
    )
    made = _merged(tmp_path, BASE, OURS.replace("print(x)", "print('ours', x)"), theirs)
    assert (made.conflicts, made.notes) == (0, ())
    assert made.data is not None
    text = made.data.decode()
    assert 'x.to("hpu", non_blocking=True)' in text
    assert 'Linear(2, 3).to("hpu")' in text
    assert "print('ours', x)" in text
    assert "cuda" not in text
    # git alone cannot: both sides changed the same lines.
    files = [tmp_path / f"version{number}" for number in range(3)]
    assert plain((files[0], files[1], files[2]), 7, "asked").conflicts == 1


def test_new_cuda_code_of_upstream_is_migrated(tmp_path: Path) -> None:
    theirs = BASE + "\n\ndef more(x):\n    return x.cuda()\n"
    made = _merged(tmp_path, BASE, OURS, theirs)
    assert made.data == (OURS + '\n\ndef more(x):\n    return x.to("hpu")\n').encode()


def test_what_both_changed_is_a_conflict_in_migrated_code(tmp_path: Path) -> None:
    made = _merged(tmp_path, BASE, OURS.replace('x = x.to("hpu")', 'x = x.to("hpu").float()'),
                   BASE.replace("x.cuda()", "x.cuda(non_blocking=True)"))  # fmt: skip
    assert made.conflicts == 1
    assert made.data is not None
    assert (
        '<<<<<<< ours\n    x = x.to("hpu").float()\n=======\n    x = x.to("hpu'
        in made.data.decode()
    )


def test_a_version_that_does_not_parse_is_merged_as_it_is_and_said(tmp_path: Path) -> None:
    made = _merged(tmp_path, BASE, OURS, BASE.replace("print(x)", "print(x"))
    assert made.conflicts == 0
    assert made.data == OURS.replace("print(x)", "print(x").encode()
    (note,) = made.notes
    assert note.startswith("their version is merged without migration: not Python")
    broken = BASE.replace("print(x)", "print x")
    made = _merged(tmp_path, broken, broken, BASE)
    assert made.data == OURS.encode()
    assert made.notes[0].startswith("the common ancestor is merged without migration")


def test_a_binary_file_is_left_to_people(tmp_path: Path) -> None:
    made = _merged(tmp_path, b"a\0b", b"a\0c", b"a\0d", "data.bin")
    assert (made.data, made.conflicts) == (None, 1)
    assert "binary" in made.notes[0].lower()


def test_a_file_too_large_is_merged_without_migrating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpushim import safe_files

    def refuse(path: object, *rest: object) -> bytes:
        raise safe_files.Refused("too large")

    monkeypatch.setattr(safe_files, "read", refuse)
    made = _merged(tmp_path, "a\nb\nc\n", "a\nb\nC\n", "A\nb\nc\n", "data.json")
    assert made.data == b"A\nb\nC\n"
    assert made.notes == ("not migrated before merging: too large",)


def test_what_migrate_leaves_alone_the_driver_leaves_alone(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    made = _merged(tmp_path, BASE, BASE, BASE.replace("print(x)", "print(x, x)"), "vendor/train.py")
    assert made.data == BASE.replace("print(x)", "print(x, x)").encode()
    made = _merged(tmp_path, "cuda\n", "cuda\nmore\n", "cuda!\n", "notes.txt")
    assert made.conflicts == 1


def test_windows_newlines_stay(tmp_path: Path) -> None:
    def dos(text: str) -> bytes:
        return text.replace("\n", "\r\n").encode()

    made = _merged(tmp_path, dos(BASE), dos(OURS), dos(BASE.replace("print(x)", "print(x.cuda())")))
    assert made.data == dos(OURS.replace("print(x)", 'print(x.to("hpu"))'))


# -- git itself ---------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "a project"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "train it.py").write_text(BASE)
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "base")
    return folder


def _git(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder, capture_output=True, text=True, check=check,
    )  # fmt: skip


def _hpushim(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [sys.executable, "-m", "hpushim", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_git_asks_the_driver_once_it_is_told(repository: Path) -> None:
    _git(repository, "branch", "upstream")
    told = _hpushim(repository, "init", "--git", "--mode", "eager")
    assert told.returncode == 0, told.stderr
    assert "git config merge.hpushim.driver" in told.stdout
    assert 'mode = "eager"' in (repository / "hpushim.toml").read_text()
    assert _hpushim(repository, "migrate", ".").returncode == 0
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "migrated")
    _git(repository, "checkout", "-q", "upstream")
    (repository / "train it.py").write_text(BASE.replace("x.cuda()", "x.cuda(non_blocking=True)"))
    _git(repository, "commit", "-qam", "upstream's")
    _git(repository, "checkout", "-q", "main")
    merged = _git(repository, "merge", "upstream", "-m", "merged", check=False)
    assert merged.returncode == 0, merged.stdout + merged.stderr
    expected = OURS.replace('x.to("hpu")', 'x.to("hpu", non_blocking=True)')
    assert (repository / "train it.py").read_text() == expected

    undone = _hpushim(repository, "init", "--git", "--undo")
    assert undone.returncode == 0, undone.stderr
    assert not (repository / ".gitattributes").exists()
    assert _git(repository, "config", "--get", "merge.hpushim.driver", check=False).stdout == ""
    assert "nothing to remove" in _hpushim(repository, "init", "--git", "--undo").stdout


def test_a_rebase_ends_where_a_merge_does(repository: Path) -> None:
    """There, ours is upstream's code, and theirs a commit of the port."""
    assert _hpushim(repository, "init", "--git").returncode == 0
    _git(repository, "add", "-A")
    _git(repository, "commit", "-qm", "set up")
    _git(repository, "checkout", "-q", "-b", "upstream")
    newer = BASE.replace("x.cuda()", "x.cuda(non_blocking=True)")
    newer = newer.replace("import torch\n", "import torch\n\nfirst = torch.ones(1).cuda()\n")
    (repository / "train it.py").write_text(newer)
    _git(repository, "commit", "-qam", "upstream's")
    _git(repository, "checkout", "-q", "main")
    assert _hpushim(repository, "migrate", ".").returncode == 0
    _git(repository, "commit", "-qam", "migrated")
    (repository / "train it.py").write_text(OURS.replace("print(x)", "print('by hand', x)"))
    _git(repository, "commit", "-qam", "by hand")
    rebased = _git(repository, "rebase", "upstream", check=False)
    assert rebased.returncode == 0, rebased.stdout + rebased.stderr
    expected = OURS.replace('x.to("hpu")', 'x.to("hpu", non_blocking=True)')
    expected = expected.replace("print(x)", "print('by hand', x)")
    new = 'import torch\n\nfirst = torch.ones(1).to("hpu")\n'
    expected = expected.replace("import torch\n", new)
    assert (repository / "train it.py").read_text() == expected


def test_what_git_was_told_before_stays(repository: Path) -> None:
    (repository / ".gitattributes").write_bytes(b"*.bin binary\r\n")
    first = list(git_setup.set_up(repository))
    assert len(first) == 2
    text = (repository / ".gitattributes").read_bytes()
    assert text.startswith(b"*.bin binary\r\n# hpushim begin")
    assert b"*.py merge=hpushim\r\n" in text
    assert all("already" in line for line in git_setup.set_up(repository))
    assert (repository / ".gitattributes").read_bytes() == text
    assert len(list(git_setup.take_back(repository))) == 2
    assert (repository / ".gitattributes").read_bytes() == b"*.bin binary\r\n"
    _git(repository, "config", "merge.hpushim.driver", "mine %A")
    with pytest.raises(HpushimError, match=r"git already runs 'mine %A' as merge\.hpushim\.driver"):
        list(git_setup.set_up(repository))
    assert (repository / ".gitattributes").read_bytes() == b"*.bin binary\r\n"


def test_outside_of_git_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(HpushimError, match="is not in a git work tree"):
        list(git_setup.set_up(tmp_path))


# -- settings -----------------------------------------------------------------------------


def test_init_adds_to_pyproject_and_changes_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"')
    (tmp_path / "train.py").write_text(BASE)
    done = _hpushim(tmp_path, "init", "--target", "gaudi3")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "pyproject.toml").read_text()
    assert text.startswith('[project]\nname = "x"\n\n[tool.hpushim]\ntarget = "gaudi3"\n')
    assert "1 of 2 files" in done.stdout
    again = _hpushim(tmp_path, "init", "--target", "gaudi1")
    assert "hpushim keeps them" in again.stdout
    assert (tmp_path / "pyproject.toml").read_text() == text
    assert '"gaudi": "gaudi3"' in _hpushim(tmp_path, "report", "--format", "json").stdout


def test_init_refuses_a_file_that_it_could_only_break(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = {other = 1}\n")
    done = _hpushim(tmp_path, "init")
    assert done.returncode == 2
    assert "add them yourself" in done.stderr
    assert (tmp_path / "pyproject.toml").read_text() == "tool = {other = 1}\n"


def test_a_file_of_settings_alone_is_read(tmp_path: Path) -> None:
    (tmp_path / "hpushim.toml").write_text('mode = "lazy"\n')
    (tmp_path / "pyproject.toml").write_text('[tool.hpushim]\nmode = "eager"\n')
    (tmp_path / "train.py").write_text(BASE)
    assert '"mode": "lazy"' in _hpushim(tmp_path, "report", "--format", "json").stdout
    (tmp_path / "hpushim.toml").write_text("mood = 1\n")
    wrong = _hpushim(tmp_path, "check")
    assert wrong.returncode == 2
    assert "hpushim.toml: Object contains unknown field `mood`" in wrong.stderr


@pytest.mark.parametrize("kind", ["python", None])
@pytest.mark.parametrize("interests", [True, False])
@pytest.mark.parametrize("why", ["", "it does not parse"])
def test_each_version_is_migrated_once_if_it_has_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, interests: bool, why: str) -> None:  # fmt: skip
    asked: list[bytes] = []

    def one(data: bytes, *given: object) -> tuple[bytes, str]:
        asked.append(data)
        return data.upper(), why

    monkeypatch.setattr(merging, "_one", one)
    monkeypatch.setattr(merging, "interesting", lambda *given: interests)
    monkeypatch.setattr(merging.kinds, "by_name", lambda file: kind)
    monkeypatch.setattr(merging.kinds, "by_first_line", lambda data: None)
    monkeypatch.setattr(merging, "own_words", lambda matrix: 1 / 0)
    how = How(Target(), None)
    for contents, said in (((b"a", b"a", b"b"), ["the common ancestor", "their version"]), ((b"a", b"b", b"a"), ["the common ancestor"])):  # fmt: skip
        asked.clear()
        notes: list[str] = []
        after = merging._migrated(contents, "t.py", tmp_path, how, notes)
        moved = bool(kind and interests)
        stops = why and contents[2] == contents[0]
        assert asked == ([contents[0]] if stops else [*dict.fromkeys(contents)]) * moved
        assert after == (tuple(map(bytes.upper, contents)) if moved and not why else contents)
        assert notes == [f"{name} is merged without migration: {why}" for name in said] * bool(moved and why)  # fmt: skip
