"""Which files have changes that git does not hold yet."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from hpushim.errors import HpushimError


def uncommitted(files: Iterable[Path]) -> list[Path]:
    """Those of ``files`` that lie in a git work tree with changes that are not committed.

    New files that git does not ignore count; files outside of any work tree, and every file where git is
    not installed, do not. Raises :class:`HpushimError` when git is there and cannot answer.
    """
    trees: dict[Path, list[Path]] = {}
    for file in files:
        tree = _tree(file)
        if tree is not None:
            trees.setdefault(tree, []).append(file)
    found: list[Path] = []
    for tree, members in sorted(trees.items()):
        found += _dirty(tree, members)
    return found


def _tree(file: Path) -> Path | None:
    return next((folder for folder in file.parents if (folder / ".git").exists()), None)


def _dirty(tree: Path, files: list[Path]) -> list[Path]:
    names = {file.relative_to(tree).as_posix(): file for file in files}
    dirty: list[Path] = []
    listed = sorted(names)
    for first in range(0, len(listed), 200):
        output = _status(tree, listed[first : first + 200])
        if output is None:
            return []
        # `XY path`, and for a rename the old path as a field of its own, which names no file of ours.
        for field in output.split(b"\0"):
            name = field[3:].decode("utf-8", "surrogateescape")
            if len(field) > 3 and name in names:
                dirty.append(names[name])
    return dirty


def _status(tree: Path, names: list[str]) -> bytes | None:
    """What ``git status`` says about these files; None where there is no git."""
    command = ["git", "--literal-pathspecs", "-C", str(tree), "status", "--porcelain=v1", "-z"]
    try:
        done = subprocess.run(
            [*command, "--untracked-files=all", "--", *names],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().split("\n")[0]
        raise HpushimError(
            f"git cannot say what is committed in {tree} ({why}); mend that or use --allow-dirty"
        )
    return done.stdout
