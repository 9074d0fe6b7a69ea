"""A journal that came with the project leads nowhere but to files of the project, and nothing in its folder is followed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runs
import things
from crossed import crossed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpushim.engine.files import journal
from hpushim.errors import HpushimError

pytestmark = [pytest.mark.hostile("journals"), pytest.mark.usefixtures("untouched")]
Run = Callable[..., runs.Done]
EVIL = b"planted\n"


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def plant(project: Path, now: bytes, /, run: str = "20990101-000000-000", **changes: Any) -> Path:
    """A journal whose one entry would put EVIL in place of ``now``."""
    folder = project / ".hpushim" / "runs" / run
    folder.mkdir(parents=True)
    entry = {
        "number": 0,
        "path": "train.py",
        "mode": 0o644,
        "mtime_ns": 1,
        "before": digest(EVIL),
        "after": digest(now),
        **changes,
    }
    (folder / "journal").write_text(json.dumps(entry) + "\n")
    (folder / "0").write_bytes(EVIL)
    return folder


PLACES = {
    "above": "../outside/secret",
    "above by way of a folder": "sub/../../outside/secret",
    "above, many": "../" * 40 + "etc/passwd",
    "this folder": "./train.py",
    "nothing": "",
    "the project": ".",
    "its parent": "..",
    "slash at the end": "train.py/",
    "two slashes": "sub//train.py",
    "a link": "link",
    "a link to nowhere": "nowhere",
    "through a link": "out/secret",
    "through a link of a link": "again/secret",
    "a pipe": "pipe",
    "a folder": "sub",
    "below a file": "train.py/x",
    "git's configuration": ".git/config",
    "git's in capitals": ".GIT/config",
    "a hook": "sub/.git/hooks/post-checkout",
    "the journal itself": ".hpushim/runs/20990101-000000-000/0",
    "NUL": "tra\0in.py",
    "home": "~/x",
    "a long name": "x" * 5000,
    "a long path": "x/" * 5000 + "y",
    "not Latin-1": "\u4e2d",
    "a newline": "new\nline.py",
    "control characters": "\x1b]0;x\x07.py",
}


@pytest.mark.parametrize(("place", "force"), crossed([*PLACES, "absolute"], [False, True], rounds=1))  # fmt: skip
def test_a_planted_path(
    project: Path, outside: Path, hpushim: Run, place: str, force: bool
) -> None:
    """an entry's path leads out, through a link, or into .git"""
    path = PLACES.get(place, str(outside / "secret"))
    (project / "sub" / ".git" / "hooks").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "config").write_bytes(b"[core]\n")
    (project / "out").symlink_to("../outside")
    (project / "again").symlink_to("out")
    (project / "link").symlink_to("../outside/secret")
    (project / "nowhere").symlink_to("../outside/made")
    os.mkfifo(project / "pipe")
    before = runs.state(project, leave_out=(".hpushim",))
    for now in (b"not part of the project\n", b"[core]\n", b""):
        for old in (project / ".hpushim" / "runs").glob("*/*"):
            old.unlink()
        for folder in (project / ".hpushim" / "runs").glob("*"):
            folder.rmdir()
        plant(project, now, path=path)
        done = hpushim("migrate", "--undo", *(["--force"] if force else []), ".")
        assert done.code in (0, 2, 3), done.said
        assert "\x1b" not in done.said
        after = runs.state(project, leave_out=(".hpushim",))
        new = {name: item for name, item in after.items() if before.get(name) != item}
        # With --force a deleted file comes back: below the project, and nowhere that other programs obey.
        assert force or not new
        assert not any(".git" in name.casefold().split("/") for name in new), new


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777, 0o1777, 0o7777, 0o10644, -1, 1 << 40, 0])
@pytest.mark.parametrize("there", [True, False], ids=["there", "deleted"])
def test_a_planted_mode(project: Path, hpushim: Run, mode: int, there: bool) -> None:
    """an entry's mode asks for set-id bits or is none"""
    now = (project / "train.py").read_bytes()
    plant(project, now, mode=mode)
    if not there:
        (project / "train.py").unlink()
    hpushim("migrate", "--undo", "--force", ".")
    path = project / "train.py"
    assert not path.exists() or path.stat().st_mode & 0o7000 == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", -1), ("number", 1 << 70), ("number", "0"), ("number", "../../../outside/secret"), ("number", None),
        ("number", 7), ("mtime_ns", 1 << 70), ("mtime_ns", -(1 << 63)), ("mtime_ns", (1 << 63) - 1), ("mtime_ns", 1.5),
        ("path", None), ("path", ["train.py"]), ("before", ""), ("before", 5), ("after", None), ("mode", "0644"),
        ("temporary", "../outside/secret"), ("temporary", "train.py"), ("temporary", ".hpushim-0.tmp"), ("temporary", 5),
        ("in_place", True), ("in_place", "yes"), ("unknown", {"a": [1]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [("migrate", "."), ("migrate", "--undo", ".")], ids=" ".join)
def test_a_planted_field(
    project: Path, hpushim: Run, field: str, value: object, words: tuple[str, ...]
) -> None:
    """an entry's field is not what it should be"""
    now = (project / "train.py").read_bytes()
    plant(project, now, **{field: value})
    done = hpushim(*words)
    assert done.code in (0, 2, 3) and "internal error" not in done.said
    # The file is what it was, what migrate makes of it, or, by an entry that is sound, what the journal says.
    assert (project / "train.py").read_bytes() in (now, EVIL, now.replace(b".cuda()", b'.to("hpu")'))  # fmt: skip


PARTS = (".hpushim", ".hpushim/runs", ".hpushim/runs/20990101-000000-000", ".hpushim/lock", ".hpushim/.gitignore",
         ".hpushim/runs/20990101-000000-000/journal", ".hpushim/runs/20990101-000000-000/0",
         ".hpushim/runs/20990101-000000-000/done", ".hpushim/runs/20990101-000000-000/journal.part")  # fmt: skip


@pytest.mark.parametrize(
    ("part", "thing", "words"),
    crossed(PARTS, [*things.LINKS, *things.NOT_FILES, things.sparse], [("migrate", "."), ("migrate", "--undo", ".")], rounds=6),
    ids=things.named,
)  # fmt: skip
def test_a_part_is_a_thing(
    project: Path, outside: Path, hpushim: Run, part: str, thing: things.Thing, words: tuple[str, ...]
) -> None:  # fmt: skip
    """a part of .hpushim is a link, pipe, device or folder"""
    now = (project / "train.py").read_bytes()
    plant(project, now)
    path = project / part
    if path.is_dir() and not path.is_symlink():
        path.rename(project / "moved away")
    things.put(thing, path, outside)
    done = hpushim(*words)
    assert done.code in (0, 2, 3) and "internal error" not in done.said, done.said
    assert (project / "train.py").read_bytes() in (now, EVIL, now.replace(b".cuda()", b'.to("hpu")'))  # fmt: skip


CONTENTS = {
    "empty": b"",
    "no JSON": b"\xff\xfe\0",
    "nested": b"[" * 100_000,
    "nested objects": b'{"number":' * 50_000,
    "a list": b"[]\n",
    "many lines": b"{}\n" * 100_000,
    "a long line": b'{"path": "' + b"x" * 10_000_000,
    "big numbers": b'{"number": ' + b"9" * 10_000 + b"}",
    "control characters": b'{"path": "\x1b[31m"}',
    "half of it": b'{"number":0,"path":"train.py","mo',
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("words", [("migrate", "."), ("migrate", "--undo", ".")], ids=" ".join)
def test_a_planted_content(
    project: Path, hpushim: Run, content: str, words: tuple[str, ...]
) -> None:
    """a journal that is none"""
    (plant(project, b"") / "journal").write_bytes(CONTENTS[content])
    done = hpushim(*words)
    assert done.code in (0, 2) and "internal error" not in done.said and "\x1b" not in done.said
    assert done.code == 0 or "not a journal of hpushim" in done.err


def test_a_journal_above_that_another_user_laid_out(
    tmp_path: Path, project: Path, hpushim: Run
) -> None:
    """a journal in a folder above, owned by somebody else"""
    things.need_root()
    now = (project / "train.py").read_bytes()
    plant(tmp_path, now, path="project/train.py")
    for path in [tmp_path / ".hpushim", *(tmp_path / ".hpushim").rglob("*")]:
        os.chown(path, 12345, 12345)
    done = hpushim("migrate", "--undo", ".")
    assert done.code == 3 and "not used" in done.err and "nothing to undo" in done.out
    assert (project / "train.py").read_bytes() == now


def test_a_journal_above_that_anyone_may_write(tmp_path: Path, project: Path, hpushim: Run) -> None:
    """a journal in a folder above, open to everybody"""
    now = (project / "train.py").read_bytes()
    plant(tmp_path, now, path="project/train.py")
    (tmp_path / ".hpushim").chmod(0o777)
    assert hpushim("migrate", "--undo", ".").code == 3
    assert (project / "train.py").read_bytes() == now


def test_originals_are_seen_by_nobody_who_may_not_see_the_file(project: Path, hpushim: Run) -> None:
    """a private file is kept in the journal"""
    (project / "train.py").chmod(0o600)
    assert hpushim("migrate", ".").code == 0
    (kept,) = (project / ".hpushim" / "runs").glob("*/0")
    assert kept.stat().st_mode & 0o077 == 0


def test_files_that_hpushim_did_not_make_stay(project: Path, hpushim: Run) -> None:
    """something else lies in a run's folder when it is taken away"""
    hpushim("migrate", ".")
    (run,) = (project / ".hpushim" / "runs").iterdir()
    (run / "mine").write_text("keep")
    assert hpushim("migrate", "--undo", ".").code == 0
    assert (run / "mine").read_text() == "keep"


_bytes = st.binary(max_size=20)
_entry = st.fixed_dictionaries(
    {
        "number": st.integers(-2, 3) | st.integers() | st.text(max_size=3),
        "path": st.lists(
            st.sampled_from(["a", "b.py", "..", ".", "", "out", ".git", "\0", "é", "link", "a" * 300]),
            min_size=1,
            max_size=4,
        ).map("/".join),
        "mode": st.integers(0, 0o7777) | st.integers(),
        "mtime_ns": st.integers(0, 1 << 62) | st.integers(),
        "before": st.sampled_from([digest(EVIL), digest(b""), ""]),
        "after": st.sampled_from([digest(b"old"), digest(b""), "x"]),
        "temporary": st.sampled_from(["", "../b.py", "b.py", ".hpushim-0123456789abcdef.tmp"]),
        "in_place": st.booleans(),
    }
)  # fmt: skip


@settings(
    max_examples=int(os.environ.get("HPUSHIM_HOSTILE_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=st.lists(_entry, min_size=1, max_size=3), force=st.booleans())
def test_any_journal(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, Any]], force: bool
) -> None:
    """generated journals"""
    top = tmp_path_factory.mktemp("any")
    project, outside = top / "project", top / "outside"
    for folder in (project / "a", project / ".git", outside):
        folder.mkdir(parents=True)
        (folder / "b.py").write_bytes(b"old")
    (project / "b.py").write_bytes(b"old")
    (project / "out").symlink_to("../outside")
    (project / "link").symlink_to("../outside/b.py")
    run = plant(project, b"")
    (run / "journal").write_bytes(b"".join(json.dumps(e).encode() + b"\n" for e in entries))
    (run / "1").write_bytes(b"")
    before = runs.state(outside), runs.state(project / ".git")
    try:
        journal.tidy(project)
        journal.undo(project, force=force)
    except HpushimError:
        pass
    assert (runs.state(outside), runs.state(project / ".git")) == before
    assert sorted(p.name for p in top.iterdir()) == ["outside", "project"]
    assert all(p.lstat().st_mode & 0o6000 == 0 for p in project.rglob("*")), sys.platform
