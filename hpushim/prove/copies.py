"""Scratch copies of a project: small files copied, large ones linked, environments and histories left out.

The user's tree is only read. That it stayed so is looked at, not assumed: :class:`Tree` remembers size and time of every file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_LEFT_OUT = frozenset(
    (".git", ".hg", ".svn", ".hpushim", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox")
)  # fmt: skip
#: Larger files are links: data and checkpoints, which a copy would double.
_LARGE = 2 << 20
#: A folder with more files than this beneath it holds data; it is a link as a whole.
_MANY = 2000


class Tree:
    """The files below a folder as they are now. ``changed()`` names those that are no longer so."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = dict(_state(root))

    def changed(self) -> list[str]:
        """Files, relative to the root, that were changed, removed or made since."""
        now = dict(_state(self._root))
        return sorted(
            name for name in now.keys() | self._files.keys() if now.get(name) != self._files.get(name)
        )  # fmt: skip


def _state(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder, _, names in _walk(root):
        for name in names:
            path = folder / name
            with contextlib.suppress(OSError):
                found = path.lstat()
                yield os.path.relpath(path, root), (found.st_size, found.st_mtime_ns)


def _walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """``os.walk`` without what is never copied."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT_OUT and not (here / name / "pyvenv.cfg").is_file()
        )
        yield here, folders, sorted(names)


def copy(root: Path, to: Path, wide: Path) -> Path:
    """A copy of ``root`` under ``to``, which represents ``wide``, a folder above it; returns where it is. Raises OSError.

    What lies beside it in ``wide`` is there as links, so that ``../data`` is found.
    """
    above = to
    above.mkdir(parents=True)
    source = wide
    for part in root.relative_to(wide).parts:
        for entry in sorted(source.iterdir()):
            if entry.name != part and entry.name not in _LEFT_OUT:
                _link(entry, above / entry.name, wide)
        above, source = above / part, source / part
        above.mkdir()
    return _copied(root, above)


def _copied(root: Path, to: Path) -> Path:
    for folder, folders, names in _walk(root):
        here = to / folder.relative_to(root)
        for name in list(folders):
            inner = folder / name
            if inner.is_symlink() or _is_data(inner):
                _link(inner, here / name, root)
                folders.remove(name)
            else:
                (here / name).mkdir()
        for name in names:
            _file(folder / name, here / name, root)
    return to


def _is_data(folder: Path) -> bool:
    """Whether a folder directly holds very many files, none of them code."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    return len(names) > _MANY and not any(name.endswith(".py") for name in names)


def _file(source: Path, target: Path, root: Path) -> None:
    if source.is_symlink():
        _link(source, target, root)
    elif source.is_file():  # no pipe, no device
        if source.stat().st_size > _LARGE and source.suffix not in (".py", ".ipynb"):
            target.symlink_to(source)
        else:
            shutil.copy2(source, target)
            target.chmod(target.stat().st_mode | 0o200)


def _link(source: Path, target: Path, root: Path) -> None:
    """A link: one within the project stays as it is written, any other names the same place."""
    if source.is_symlink():
        written = Path(os.readlink(source))  # noqa: PTH115
        if not written.is_absolute() and Path(os.path.realpath(source)).is_relative_to(root):
            target.symlink_to(written)
            return
    target.symlink_to(os.path.realpath(source))
