"""The one place where files are read and written that somebody else may have laid out.

::

    data = read(path)                       # a regular file, never a wait, never more than the limit
    write(path, data)                       # the old bytes or the new ones, at every moment
    with Folder.at(path) as folder: …       # names in one folder, no link followed

Whoever can put a file into a project can put a link, a pipe or a device there too. So a file is looked at before it is
opened, opened without waiting, and replaced by renaming. Every refusal is an OSError whose ``strerror`` says in half a
sentence what was found. Only the standard library is imported.
"""

from __future__ import annotations

import errno
import os
import sys

from hpushim.safe_files import descriptors
from hpushim.safe_files.descriptors import Refused, Torn
from hpushim.safe_files.folder import AT, CHANGED, LIMIT, Folder

__all__ = [
    "CHANGED",
    "LIMIT",
    "Folder",
    "Refused",
    "Torn",
    "cache_folder",
    "check",
    "head",
    "is_temporary",
    "read",
    "temporary",
    "write",
]

Path = str | os.PathLike[str]
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_LINKS = 40  # followed in one path, as Linux has it


def read(path: Path, limit: int = LIMIT, *, follow: bool = True) -> bytes:
    """The bytes of the regular file at ``path``, ``limit`` bytes at most.

    Raises OSError: :class:`Refused` for a device, pipe, socket or folder, for a file that is larger, and without
    ``follow`` for a link in its place. Nothing is opened that could make the process wait.
    """
    return descriptors.read(os.fspath(path), None, limit, follow=follow)


def head(path: Path, length: int) -> bytes:
    """The first bytes of a regular file, links followed; none of a file that says it is empty, as those of the kernel do."""
    return descriptors.head(os.fspath(path), length)


def write(path: Path, data: bytes, *, project: Path | None = None) -> None:
    """Puts ``data`` into the file at ``path``: at every moment the old content is there or the new one.

    The file is made if there is none; an existing one keeps mode and owner. Links on the way to its folder are followed
    only where they lie outside ``project`` (default: the current folder), for those inside are the project's.
    Raises OSError: :class:`Refused` for a link, device, pipe, socket or folder in that place.
    """
    name = _name(path)
    with _folder(path, project) as folder:
        old = folder.look(name)
        try:
            folder.write(name, data, temporary=_draft(name), names_stay=False)
        except OSError as error:
            # A file that is a mount of its own, or that may be written in a folder that may not.
            if old is None or error.errno not in (*_CLOSED, errno.EBUSY):
                raise
            folder.overwrite(name, data)


def check(path: Path, *, project: Path | None = None) -> None:
    """Raises the OSError that :func:`write` would raise now, as far as that can be known without writing."""
    name = _name(path)
    with _folder(path, project) as folder:
        old = folder.look(name)
        if not folder.writable():
            if old is None:
                raise Refused("its folder cannot be written to", errno.EACCES)
            os.close(folder.open(name, os.O_WRONLY))


def temporary(token: bytes = b"") -> str:
    """A name for a temporary file: ``.hpushim-<16 hexadecimal digits>.tmp``."""
    return f".hpushim-{(token or os.urandom(8)).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Is it a name that :func:`temporary` gives?"""
    digits = name[9:-4]
    known = name.startswith(".hpushim-") and name.endswith(".tmp")
    return known and len(digits) == 16 and set(digits) <= set("0123456789abcdef")


def cache_folder() -> tuple[str, str]:
    """The folder for what can be made again, HPUSHIM_CACHE_DIR or the user's own for such things, and which setting says so.

    It may be relative, and would then be another one in each working directory: nothing is to be loaded from there.
    """
    chosen = os.environ.get("HPUSHIM_CACHE_DIR")
    if chosen:
        return os.path.expanduser(chosen), f"HPUSHIM_CACHE_DIR is {chosen!r}"
    home, said = os.path.expanduser("~"), f"HOME is {os.environ.get('HOME')!r}"
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "hpushim"), said
    base = os.environ.get("XDG_CACHE_HOME", "")  # an absolute one, as its standard has it
    base = base if os.path.isabs(base) else os.path.join(home, ".cache")
    return os.path.join(base, "hpushim"), said


def _draft(name: str) -> str:
    """The draft of a file has the same name each time, so that what a killed run left is found and replaced."""
    from hashlib import blake2b

    return temporary(blake2b(os.fsencode(name), digest_size=8).digest())


def _name(path: Path) -> str:
    name = os.path.basename(os.fspath(path))
    if name in ("", ".", ".."):
        raise Refused("a folder, not a file", errno.EISDIR)
    return name


def _folder(path: Path, project: Path | None) -> Folder:
    """The folder that a path of the user's lies in, opened without following links of the project."""
    whole = os.path.join(os.getcwd(), os.fspath(path))
    suspect = os.path.realpath(os.getcwd() if project is None else project)
    if suspect == os.path.dirname(suspect):
        suspect = ""  # the whole file system is nobody's project
    real = _followed(os.path.dirname(whole), suspect)
    if not AT:
        return Folder.at(real)
    with Folder.at(os.sep) as top:
        return top.inner(*(part for part in real.split(os.sep) if part))


def _followed(path: str, project: str) -> str:
    """``path`` without links, which must not lie in ``project``."""
    here = os.sep if AT else os.path.splitdrive(path)[0] + os.sep
    left = _parts(path[len(here) :])
    links = 0
    while left:
        part = left.pop()
        if part == os.pardir:
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, part)
        if not os.path.islink(there):
            here = there
            continue
        target = os.readlink(there)
        if project and (here == project or here.startswith(project + os.sep)):
            raise Refused(
                f"{part} is a symbolic link in the project, to {target}; name the folder itself",
                errno.ELOOP,
            )
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if os.path.isabs(target):
            here = os.sep
        left += _parts(target)
    return here


def _parts(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return [part for part in reversed(path.split(os.sep)) if part not in ("", ".")]
