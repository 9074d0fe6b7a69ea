"""The cache of built devices: where it is, one builder at a time, libraries in use kept, old ones dropped."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hpushim import safe_files
from hpushim.emulator.trust import require_own
from hpushim.errors import EmulatorError

KEPT = 8  # libraries, the last used ones: one for each torch, Python and source; a megabyte or two each
_MARK = "used"  # its time is that of the last use; who uses the library holds a shared lock on it
_held: list[IO[str]] = []  # kept open, and so locked, until the process ends


CACHE_REMEDY = (
    "remove write permission for others (chmod go-w), or set HPUSHIM_CACHE_DIR to a "
    "folder of your own"
)


def cache_dir() -> Path:
    """Where built devices and generated files live: HPUSHIM_CACHE_DIR, or the user's cache folder.

    Raises EmulatorError for a relative path: it would mean another folder, and another library, wherever one is.
    """
    folder, found = safe_files.cache_folder()
    if not os.path.isabs(folder):  # noqa: PTH117
        raise EmulatorError(
            f"{found}, a relative path; expected an absolute one: the emulated HPU is loaded from there; "
            "set HPUSHIM_CACHE_DIR to a folder of your own"
        )
    return Path(folder)


def make_own_folder(folder: Path) -> None:
    """Make a folder of the cache, and what is missing above it, for this user alone.

    Raises EmulatorError where others could put something into it, OSError where it cannot be made.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    require_own(folder, "the cache folder", CACHE_REMEDY)


def disk_error(error: OSError, root: Path) -> EmulatorError:
    """What a failed write to the cache means, as an error for the user."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EmulatorError(
            f"no space left in {root} for the emulated HPU (about 30 MB while compiling, 2 MB after); free some, "
            "or set HPUSHIM_CACHE_DIR to another folder"
        )
    return EmulatorError(
        f"cannot write the emulated HPU to {root} ({error.strerror or error}); expected a writable cache folder; "
        "set HPUSHIM_CACHE_DIR to one"
    )


@contextlib.contextmanager
def build_lock(root: Path, name: str, waiting: Callable[[], None] | None = None) -> Iterator[bool]:
    """One builder of ``name`` at a time; the kernel drops the lock of a process that dies.

    ``waiting`` is called before waiting; without it nothing waits, and False is yielded where another one builds.
    """
    import fcntl

    path = root / f"{name}.lock"
    while True:
        with path.open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is None:
                    yield False
                    return
                waiting()
                fcntl.flock(held, fcntl.LOCK_EX)
            if not _is_still(path, held):
                continue  # dropped with its library while this process waited
            yield True
            return


def _is_still(path: Path, held: IO[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(held.fileno()), path.stat())
    except OSError:
        return False


def mark(folder: Path) -> None:
    """Make the folder of a new library one that can be held."""
    (folder / _MARK).touch()


def hold(library: Path) -> bool:
    """Keep a cached library from being dropped while this process lives; False: it is gone already.

    A library from elsewhere, or one in a folder that cannot be written, needs no keeping.
    """
    import fcntl

    used = library.parent / _MARK
    try:
        held = used.open()
    except OSError:
        return library.is_file()
    with contextlib.suppress(OSError):
        os.utime(used)
    fcntl.flock(held, fcntl.LOCK_SH)
    _held.append(held)
    return library.is_file()


def drop_old(root: Path) -> None:
    """Remove libraries beyond the last used ones, unless in use, and what killed builds have left.

    The caller holds no build lock: one that it held would look like another builder's.
    """
    folders = [path for path in root.iterdir() if path.is_dir()]
    kept = sorted(
        (path for path in folders if not path.name.startswith(".")), key=_last_use, reverse=True
    )
    for folder in kept[KEPT:]:
        _drop(root, folder, folder.name)
    for folder in folders:
        if folder.name.startswith("."):
            _drop(root, folder, folder.name[1:].rpartition(".")[0])
    for lock in root.glob("*.lock"):
        name = lock.name.removesuffix(".lock")
        if not (root / name).is_dir() and not any(root.glob(f".{name}.*")):
            with contextlib.suppress(OSError), build_lock(root, name) as mine:
                if mine:
                    lock.unlink()


def _last_use(folder: Path) -> float:
    for path in (folder / _MARK, folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _drop(root: Path, folder: Path, name: str) -> None:
    """Remove one folder, if nobody builds or uses it."""
    import fcntl

    with contextlib.suppress(OSError), build_lock(root, name) as mine:
        if not mine:
            return
        used = folder / _MARK
        if not used.exists():
            shutil.rmtree(folder, ignore_errors=True)
            return
        with used.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an OSError when in use
            shutil.rmtree(folder, ignore_errors=True)


def forget(library: Path) -> None:
    """Remove a cached library that does not load, so that the next start builds it anew."""
    with contextlib.suppress(OSError):
        if cache_dir() in library.parents:
            shutil.rmtree(library.parent)
