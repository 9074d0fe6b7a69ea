"""What can stand in the place of a file: made by tests in folders of their own."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest


def need_root() -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root to make a device node of its own")


def link_out(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "secret")


def link_nowhere(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "made")


def link_to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_itself(path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def link_to_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path.with_name("a pipe"))
    path.symlink_to("a pipe")


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def listening(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket must be short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def endless(path: Path, outside: Path) -> None:
    need_root()
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # a /dev/zero of our own


def link_to_endless(path: Path, outside: Path) -> None:
    endless(path.with_name("zero"), outside)
    path.symlink_to("zero")


def null(path: Path, outside: Path) -> None:
    need_root()
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def block(path: Path, outside: Path) -> None:
    need_root()
    os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(240, 7))  # of no driver


def sparse(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


Thing = Callable[[Path, Path], None]
NOT_FILES: tuple[Thing, ...] = (folder, pipe, listening, endless, null, block)
LINKS: tuple[Thing, ...] = (link_out, link_nowhere, link_to_folder, link_to_itself, link_to_pipe, link_to_endless)  # fmt: skip
NEVER_ENDING: tuple[Thing, ...] = (pipe, listening, endless, link_to_pipe, link_to_endless, link_to_itself, sparse)  # fmt: skip


def named(thing: object) -> str:
    """For the names of parametrised tests."""
    return getattr(thing, "__name__", str(thing)).replace("_", " ")


def put(thing: Thing, path: Path, outside: Path) -> None:
    """Puts it there, in the place of what there is."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    try:
        thing(path, outside)
    except PermissionError as error:
        pytest.skip(f"cannot make one here: {error.strerror}")
