"""The libcst command writes what ``hpushim migrate`` writes, byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "tests/projects/char_gpt/before"


def libcst(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """libcst's own tool, run in a project."""
    command = ["codemod", "-x", "hpushim.codemods.command.CudaToHpu", "--no-format"]
    return subprocess.run(
        [sys.executable, "-m", "libcst.tool", *command, "--hide-progress", "-j2", *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def python_files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.py"))
        if path.is_file() and not path.is_symlink()
    }


def both(
    source: Path, tmp_path: Path, *options: str, **told: object
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The Python files of a project after ``migrate`` and after libcst's tool."""
    mine, theirs = tmp_path / "mine/project", tmp_path / "theirs/project"
    for copy in (mine, theirs):
        shutil.copytree(source, copy, symlinks=True)
    unsafe = bool(told.pop("unsafe", False))
    report = migrate([mine], Target(**told), unsafe=unsafe, jobs=1)  # type: ignore[arg-type]
    for result in report.files:
        if result.after is not None:
            (mine / result.path).write_bytes(result.after)
    done = libcst(theirs, *options)
    assert "hpushim" not in done.stderr.partition("Traceback")[2], done.stderr
    return python_files(mine), python_files(theirs)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), {}),
        (("--style", "dual"), {"style": "dual"}),
        (("--mode", "compile", "--unsafe"), {"mode": "compile", "unsafe": True}),
    ],
)
def test_the_demo_project(
    options: tuple[str, ...], told: dict[str, object], tmp_path: Path
) -> None:
    mine, theirs = both(DEMO, tmp_path, *options, **told)
    assert theirs == mine
    assert mine != python_files(DEMO)


def test_every_encoding_and_newline(tmp_path: Path) -> None:
    code = "import torch\nx = torch.zeros(2, device='cuda')  # é\n"
    project = tmp_path / "project"
    project.mkdir()
    (project / "mark.py").write_bytes(b"\xef\xbb\xbf" + code.encode())
    (project / "windows.py").write_bytes(code.replace("\n", "\r\n").encode())
    (project / "latin.py").write_bytes(f"# coding: latin-1\n{code}".encode("latin-1"))
    (project / "end.py").write_bytes(code.rstrip("\n").encode())
    (project / "broken.py").write_bytes(b"x = 'cuda\n")
    (project / "blank.py").write_bytes(b"x = 1\n    \n    ")
    mine, theirs = both(project, tmp_path)
    assert theirs == mine
    changed = {name for name, data in mine.items() if data != (project / name).read_bytes()}
    assert changed == {"mark.py", "windows.py", "latin.py", "end.py"}


def test_open_repositories(tmp_path: Path) -> None:
    """``HPUSHIM_CORPORA`` names a folder with a checkout in each subfolder."""
    folder = os.environ.get("HPUSHIM_CORPORA")
    if not folder:
        pytest.skip("set HPUSHIM_CORPORA to a folder of checked-out repositories")
    for repository in sorted(path for path in Path(folder).iterdir() if path.is_dir()):
        mine, theirs = both(repository, tmp_path / repository.name)
        differ = sorted(name for name in mine if mine[name] != theirs.get(name))
        assert not differ, repository.name
