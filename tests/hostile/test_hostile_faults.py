"""A disk that is full or read-only, a fault at any call: every file is old or new, and comes back exactly."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import runs
import things

from hpushim import safe_files
from hpushim.engine.files import journal
from hpushim.errors import HpushimError
from hpushim.safe_files import descriptors, folder

pytestmark = [pytest.mark.hostile("faults")]
OLD = {"a.py": b"old a\n" * 40, "sub/b.py": b"", "c.py": b"old c\n", "sub/two.py": b"old two\n" * 9}
NEW = {name: b"new " + data + b"more\n" * (len(data) % 3) for name, data in OLD.items()}
#: What changes something on the disk, and the argument that says so for `open`.
CHANGING = ("open", "write", "fsync", "mkdir", "replace", "fchmod", "utime", "ftruncate", "unlink", "rmdir", "fchown", "setxattr")  # fmt: skip
#: What a full disk still lets one do.
SHRINKING = ("unlink", "rmdir", "fchmod", "utime", "fchown")


class Disk:
    """``os`` as the writing modules see it, with a fault at the ``at``-th call that changes something."""

    def __init__(self, at: int, code: int, *, lasting: bool) -> None:
        self.at, self.code, self.lasting = at, code, lasting
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def call(*words: Any, **options: Any) -> Any:
            if name == "open" and not words[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return real(*words, **options)
            if self.code == errno.ENOSPC and name in SHRINKING:
                return real(*words, **options)
            self.calls += 1
            if self.calls == self.at or (self.lasting and self.calls > self.at):
                if name == "write" and len(words[1]) > 1 and self.calls == self.at:
                    real(words[0], words[1][: len(words[1]) // 2])  # a part of it still went
                raise OSError(self.code, os.strerror(self.code))
            return real(*words, **options)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(at: int, code: int, *, lasting: bool) -> Disk:
        made = Disk(at, code, lasting=lasting)
        for module in (safe_files, descriptors, folder):
            monkeypatch.setattr(module, "os", made)
        return made

    def heal() -> None:
        for module in (safe_files, descriptors, folder):
            monkeypatch.setattr(module, "os", os)

    use.heal = heal  # type: ignore[attr-defined]
    return use


def lay(project: Path) -> dict[str, Any]:
    shutil.rmtree(project, ignore_errors=True)
    (project / "sub").mkdir(parents=True)
    for number, (name, data) in enumerate(OLD.items()):
        path = project / name
        path.write_bytes(data)
        path.chmod(0o640 if number % 2 else 0o755)
        os.utime(path, ns=(10**18 + number, 10**18 + number))
    os.link(project / "sub" / "two.py", project / "also two.py")
    return runs.state(project)


def changes(project: Path) -> list[journal.Change]:
    return [journal.Change(project / name, OLD[name], NEW[name]) for name in OLD]


def check_old_or_new(project: Path, *, torn: bool = False) -> set[str]:
    """The files that are new; each is whole.

    ``torn`` lets one be neither that has several names and must be written in place, on a disk that no longer lets what
    was begun be taken back; the next run heals it.
    """
    found = {name: (project / name).read_bytes() for name in OLD}
    assert (project / "also two.py").read_bytes() == found["sub/two.py"]
    if torn and found["sub/two.py"] not in (OLD["sub/two.py"], NEW["sub/two.py"]):
        del found["sub/two.py"]
    assert all(data in (OLD[name], NEW[name]) for name, data in found.items()), found
    return {name for name, data in found.items() if data == NEW[name] != OLD[name]}


def drafts(project: Path) -> list[str]:
    return [str(p) for p in project.rglob(".hpushim-*.tmp")]


def said(value: int | bool) -> str:
    return (
        {True: "lasting", False: "once"}[value]
        if isinstance(value, bool)
        else errno.errorcode[value]
    )


FAULTS = [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EROFS, True), (errno.EIO, False), (errno.EDQUOT, True)]  # fmt: skip


@pytest.mark.parametrize(("code", "lasting"), FAULTS, ids=said)
def test_a_fault_at_every_call_of_migrate(
    tmp_path: Path, disk: Any, code: int, lasting: bool
) -> None:
    """a fault, passing or lasting, at each call that migrate makes to change the disk"""
    project = tmp_path / "project"
    for at in range(1, 500):
        before = lay(project)
        now = disk(at, code, lasting=lasting)
        try:
            failed = journal.write(project, changes(project))
        except HpushimError as error:
            assert "nothing was changed" in str(error)
            failed = None
        disk.heal()
        new = check_old_or_new(project, torn=lasting)
        if failed is None:
            assert not new
        else:
            # What is told not to be written is old, or torn and then healed; everything else is new.
            told = {str(path.relative_to(project)) for path in failed}
            assert OLD.keys() - new <= told
            assert not (new & told) - ({"sub/two.py"} if lasting else set())
        journal.tidy(project)
        check_old_or_new(project)
        assert not drafts(project), at
        while journal.undo(project).run:
            pass
        assert runs.state(project, leave_out=(".hpushim",)) == before, at
        if now.calls < at:
            break
    assert 10 < at < 499


@pytest.mark.parametrize(("code", "lasting"), FAULTS, ids=said)
def test_a_fault_at_every_call_of_undo(tmp_path: Path, disk: Any, code: int, lasting: bool) -> None:
    """a fault, passing or lasting, at each call that --undo makes to change the disk"""
    project = tmp_path / "project"
    for at in range(1, 500):
        before = lay(project)
        assert journal.write(project, changes(project)) == {}
        now = disk(at, code, lasting=lasting)
        try:
            journal.undo(project)
        except (OSError, HpushimError):
            pass
        disk.heal()
        check_old_or_new(project, torn=lasting)
        journal.tidy(project)
        check_old_or_new(project)
        assert not drafts(project), at
        while journal.undo(project).run:
            pass
        assert runs.state(project, leave_out=(".hpushim",)) == before, at
        if now.calls < at:
            break
    assert 10 < at < 499


@pytest.mark.parametrize(("code", "lasting"), FAULTS, ids=said)
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_a_fault_at_every_call_of_a_report(
    tmp_path: Path, disk: Any, code: int, lasting: bool, there: bool
) -> None:
    """a fault, passing or lasting, at each call that -o makes to change the disk"""
    target = tmp_path / "report"
    for at in range(1, 100):
        if there:
            target.write_bytes(b"old")
        now = disk(at, code, lasting=lasting)
        raised = False
        try:
            safe_files.check(target)
            safe_files.write(target, b"new" * 100)
        except OSError:
            raised = True
        disk.heal()
        found = target.read_bytes() if target.exists() else None
        assert found in ((b"old" if there else None), b"new" * 100)
        assert raised or found == b"new" * 100
        safe_files.write(target, b"next")
        assert target.read_bytes() == b"next"
        target.unlink()
        if now.calls < at:
            break
    assert 4 < at < 99


# -- a real disk of our own -------------------------------------------------------------------

ON_A_DISK = """
import json, os, subprocess, sys
from pathlib import Path
top, size, fill, readonly = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "ro"
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(top)], check=True)
for number in range(12):
    (top / f"{number}.py").write_text("import torch\\nx = torch.zeros(2).cuda()\\n" + "# padding\\n" * 400)
before = {p.name: (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in top.iterdir()}
from hpushim.cli import main
full = top / "filler"
with full.open("wb") as file:
    free = os.statvfs(top)
    file.write(b"x" * max(free.f_bavail * free.f_frsize - fill * 4096, 0))
if readonly:
    subprocess.run(["mount", "-o", "remount,ro", str(top)], check=True)
first = main(["migrate", str(top)])
new = sum(b"hpu" in p.read_bytes() for p in top.glob("*.py"))
whole = all(p.read_bytes() in (before[p.name][0], before[p.name][0].replace(b".cuda()", b'.to("hpu")')) for p in top.glob("*.py"))
if readonly:
    subprocess.run(["mount", "-o", "remount,rw", str(top)], check=True)
full.unlink()
while main(["migrate", "--undo", str(top)]) == 0 and (top / ".hpushim").exists():
    pass
after = {p.name: (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in top.iterdir()}
print(json.dumps({"first": first, "new": new, "whole": whole, "back": before == after, "left": sorted(after.keys() - before.keys())}))
"""


def on_a_disk(top: Path, size: str, fill: int, how: str) -> dict[str, Any]:
    """What came of migrate and --undo on a file system of our own, in a mount namespace that goes with the process."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    command = ["unshare", "--mount", sys.executable, "-c", ON_A_DISK, str(top), size, str(fill), how]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr and "CalledProcessError" in done.stderr:
        pytest.skip("may not mount here")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("fill", [0, 1, 2, 5, 9, 14, 16, 20, 25, 30, 40])
def test_a_disk_that_is_full(tmp_path: Path, fill: int) -> None:
    """a real disk with room for so many pages"""
    things.need_root()
    found = on_a_disk(tmp_path, "320k", fill, "rw")
    assert found["whole"] and found["back"] and not found["left"]
    assert found["first"] in (0, 2, 3) and (found["first"] == 0) == (found["new"] == 12)


def test_a_disk_that_is_read_only(tmp_path: Path) -> None:
    """a real disk that is read-only"""
    things.need_root()
    found = on_a_disk(tmp_path, "1m", 200, "ro")
    assert found == {"first": 2, "new": 0, "whole": True, "back": True, "left": []}


@pytest.fixture(autouse=True)
def _whole_disk() -> Iterator[None]:
    yield
    assert folder.os is os
