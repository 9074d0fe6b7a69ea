"""Open files: only regular ones, opened without waiting, read to the end but never without end."""

from __future__ import annotations

import errno
import os
import stat

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
#: Never wait for the other end of a pipe, never get a terminal, never leak into a child.
QUIET = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)
_CHUNK = 1 << 20
_KINDS = (
    (stat.S_IFLNK, "a symbolic link"),
    (stat.S_IFDIR, "a folder"),
    (stat.S_IFIFO, "a pipe"),
    (stat.S_IFSOCK, "a socket"),
    (stat.S_IFCHR, "a device"),
    (stat.S_IFBLK, "a device"),
    (stat.S_IFREG, "a file"),
)


class Refused(OSError):
    """Something that is not read or written on purpose; ``strerror`` says why."""

    def __init__(self, why: str, code: int = errno.EPERM) -> None:
        super().__init__(code, why)


class Torn(Refused):
    """A file that was being written itself and could not be taken back: it is neither old nor new."""


def what(info: os.stat_result) -> str:
    """``a symbolic link``, ``a pipe`` …"""
    kind = stat.S_IFMT(info.st_mode)
    return next((words for mark, words in _KINDS if mark == kind), "something else")


def regular(info: os.stat_result) -> os.stat_result:
    """``info``, which is of a regular file; anything else is refused."""
    if not stat.S_ISREG(info.st_mode):
        raise Refused(f"{what(info)}, not a regular file", errno.EINVAL)
    return info


def read(name: str, folder: int | None, limit: int, *, follow: bool) -> bytes:
    """The bytes of a regular file, ``limit`` at most; ``name`` is relative to the open ``folder``."""
    # Looked at first: to open some devices is to act on them.
    regular(os.stat(name, dir_fd=folder, follow_symlinks=follow))
    flags = os.O_RDONLY | QUIET | BINARY | (0 if follow else NO_LINK)
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        regular(os.fstat(descriptor))
        return whole(descriptor, limit)
    finally:
        os.close(descriptor)


def head(name: str, length: int) -> bytes:
    """The first bytes of a regular file that has some."""
    if not regular(os.stat(name)).st_size:
        return b""
    descriptor = os.open(name, os.O_RDONLY | QUIET | BINARY)
    try:
        regular(os.fstat(descriptor))
        return os.read(descriptor, length)
    finally:
        os.close(descriptor)


def whole(descriptor: int, limit: int) -> bytes:
    """Everything in an open file; a file of the kernel says that it is empty, so its end is what counts."""
    size = os.fstat(descriptor).st_size
    if size <= limit:
        parts: list[bytes] = []
        room = limit + 1
        ask = size + 1
        while room > 0 and (part := os.read(descriptor, min(ask, room))):
            parts.append(part)
            room -= len(part)
            ask = _CHUNK
        if room > 0:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise Refused(f"larger than {_amount(limit)}", errno.EFBIG)


def _amount(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def put(descriptor: int, data: bytes) -> None:
    """Writes all of ``data`` where the file is."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace(descriptor: int, data: bytes) -> None:
    """Makes ``data`` the whole content of an open file, on the disk."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    put(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def locked(descriptor: int) -> bool:
    """Takes the lock of an open file; False where another process has it. The kernel frees it when its owner dies."""
    try:
        import fcntl
    except ImportError:
        return True  # a system without such locks, and below, a file system
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def dress(
    descriptor: int, source: int | None, old: os.stat_result, permissions: int | None
) -> None:
    """Gives a new file what belonged to the ``old`` one besides its bytes: attributes, owner, mode.

    ``permissions`` are other nine bits than the old ones. Set-id bits stay only where the owner could be kept.
    """
    if source is not None and hasattr(os, "listxattr"):
        for key in _attributes(source):
            try:
                os.setxattr(descriptor, key, os.getxattr(source, key))
            except OSError:
                pass  # not ours to set
    bits = stat.S_IMODE(old.st_mode)
    if permissions is not None:
        bits = (bits & ~0o777) | (permissions & 0o777)
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            bits &= 0o777
    os.fchmod(descriptor, bits)  # after the owner, whose change clears the set-id bits


def _attributes(source: int) -> list[str]:
    try:
        names = os.listxattr(source)
    except OSError:
        return []
    # What a file may do when it is run is granted to its old bytes alone; the kernel sees it so too.
    return [name for name in names if name != "security.capability"]
