"""The file that a run's ledger goes to: taken before the run begins, written whole when a process of it ends.

The first process of a run takes ``PATH``; further ranks write ``PATH.rank1`` …, helpers ``PATH.pid123``. Nothing but a
regular file is ever replaced, and no ledger at all: those of an earlier run are kept beside, ``ledger.json`` as
``ledger.1.json`` and so on; where a run that has not ended holds the file, the later one's go to ``PATH.run123``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from hpushim.errors import EmulatorError

_OWNER = (
    "HPUSHIM_LEDGER_OWNER"  # the first process of a run, and its file; its children write beside it
)
_NOT_YET = '{"schema_version": 1, "emulated": true, "complete": false}\n'
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_REMEDY = "name a file that can be created or replaced (HPUSHIM_LEDGER, hpushim run --ledger)"


class _MustNot(OSError):
    """Something that a ledger must not replace."""


_taken: list[int] = []  # descriptors, kept open and so locked until the process ends


def take(path: Path) -> Path | None:
    """Take the file for this run; returns where the ledger goes. Called before anything of the run has happened.

    In a child of the run nothing is taken. Where a run that has not ended holds the file, this one's ledger goes beside it,
    which is reported. None: it cannot be written, which is reported too, and the run goes on without a ledger. Raises EmulatorError
    for what must not be replaced: what is no regular file, or no ledger.
    """
    path = path.absolute()
    if _owner_of(path):
        return path
    rank = os.environ.get(
        "RANK", ""
    )  # a launcher that is no part of the run starts several first processes
    part = f".rank{rank}" if rank.isdigit() and int(rank) else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _open_folder(path.parent) as folder:
            taken = _take(path, part, folder)
    except _MustNot as error:
        raise EmulatorError(
            f"the ledger is not written to {path}{part}: {error}; {_REMEDY}"
        ) from error
    except OSError as error:
        _say(
            f"the ledger (emulated) could not be written to {path}{part}: {error.strerror or error}; the run goes on without it; "
            f"{_REMEDY}"
        )
        return None
    os.environ[_OWNER] = f"{os.getpid()} {taken}"
    os.environ["HPUSHIM_LEDGER"] = str(taken)  # for this run's further processes
    return taken


def place(path: Path, rank: int | None, active: bool) -> Path | None:
    """Where the ledger of this process goes; None for a helper or a launcher that has nothing to report."""
    own = path.with_name(f"{path.name}.pid{os.getpid()}")
    if rank:
        target = path.with_name(f"{path.name}.rank{rank}")
    elif rank is None and _owner_of(path) != str(os.getpid()):
        target = own
    else:
        target = path
    if target == own or _is_complete(target):  # another process of this run was first
        return own if active else None
    return target


def write(path: Path, text: str) -> None:
    """Put ``text`` into the file, whole or not at all. Raises OSError, also where no regular file is to be replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = f"{path.name}.{os.getpid()}.tmp"
    with _open_folder(path.parent) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        made = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder
        )
        try:
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(text)
            _require_regular(path.name, folder)
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise


def _owner_of(path: Path) -> str:
    """The number of the process that has taken this file for its run; empty: none."""
    process, _, taken = os.environ.get(_OWNER, "").partition(" ")
    return process if taken == str(path) else ""


def _take(path: Path, part: str, folder: int) -> Path:
    held = _locked(path.name + part, folder)
    if held is None:
        beside = path.with_name(f"{path.name}.run{os.getpid()}")
        _say(f"another run is still writing {path}; the ledger of this run goes to {beside}")
        held = _locked(beside.name + part, folder)
        if held is None:
            raise OSError(errno.EAGAIN, f"another run is writing {beside} too")
        path = beside
    head = os.pread(held, 4096, 0).lstrip()
    if head and not head.startswith(b"{"):
        os.close(held)
        raise _MustNot("there is a file that is not a ledger")
    held = _keep_earlier(path, part, held, folder)
    _taken.append(held)
    if not part:
        _forget_parts(path, folder)
    os.ftruncate(held, 0)
    os.pwrite(held, _NOT_YET.encode(), 0)
    return path


def _holds_records(descriptor: int) -> bool:
    """Whether a file holds the ledger of a run that ended; a head without records loses nothing."""
    return os.fstat(descriptor).st_size > len(_NOT_YET)


def _keep_earlier(path: Path, part: str, held: int, folder: int) -> int:
    """Move an earlier run's ledger, with those of its further processes, to a name of their own; returns the file, a new
    one where records were in it, which this process has."""
    number = 1
    while _is_there(_numbered(path, number).name + part, folder):
        number += 1
    kept = _numbered(path, number)
    moved = not part and _move_parts(path, kept, folder)
    if _holds_records(held):
        moved = True
        os.rename(path.name + part, kept.name + part, src_dir_fd=folder, dst_dir_fd=folder)
        os.close(held)
        fresh = _locked(path.name + part, folder)
        if fresh is None:
            raise OSError(errno.EAGAIN, "another run created it at the same time")
        held = fresh
    if moved and not part and os.environ.get("HPUSHIM_LOG", "").strip().lower() != "quiet":
        _say(f"the ledger of an earlier run in {path} is kept as {kept.name}")
    return held


def _numbered(path: Path, number: int) -> Path:
    """``ledger.json`` as ``ledger.1.json``."""
    return path.with_name(f"{path.stem}.{number}{path.suffix}")


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _locked(name: str, folder: int) -> int | None:
    """A descriptor of the file, made if it is missing, that this process alone has; None: another one has it."""
    _require_regular(name, folder)  # looked at first: to open some devices is to act on them
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _MustNot("it is not a regular file")
        if not _lock(descriptor):
            os.close(descriptor)
            return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
    return True  # also on a file system without such locks


def _require_regular(name: str, folder: int) -> None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = next((words for test, words in _KINDS if test(mode)), "no regular file")
        raise _MustNot(f"there is {kind}, which hpushim never replaces")


def _move_parts(path: Path, kept: Path, folder: int) -> bool:
    """Have the ledger of an earlier run's further processes go with those of its first; returns whether there were any."""
    moved = False
    for name in _parts(path, folder):
        with contextlib.suppress(OSError):
            held = _locked(name, folder)
            if held is None:  # a rank of this run has it already
                continue
            if _holds_records(held):
                to = kept.name + name.removeprefix(path.name)
                os.rename(name, to, src_dir_fd=folder, dst_dir_fd=folder)
                moved = True
            os.close(held)
    return moved


def _forget_parts(path: Path, folder: int) -> None:
    """Remove what processes of a run without a ledger have left beside the file."""
    for name in _parts(path, folder):
        with contextlib.suppress(OSError):
            held = _locked(name, folder)
            if held is not None:  # a rank of this run may have it already
                os.unlink(name, dir_fd=folder)
                os.close(held)


def _parts(path: Path, folder: int) -> list[str]:
    part = re.compile(re.escape(path.name) + r"\.(rank\d+(\.pid\d+)?|pid\d+|\d+\.tmp)")
    return [name for name in os.listdir(folder) if part.fullmatch(name)]


def _is_complete(path: Path) -> bool:
    """Has a process of this run written its ledger there?"""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # a pipe would have this process wait
            return False
        quietly = os.O_NOFOLLOW | os.O_NONBLOCK
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | quietly)) as file:
            records = json.loads(file.read())
    except (OSError, ValueError):
        return False
    return isinstance(records, dict) and records.get("complete") is True


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _say(text: str) -> None:
    sys.stderr.write(f"hpushim: {text}\n")
    sys.stderr.flush()
