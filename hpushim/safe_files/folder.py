"""An open folder and the names in it."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from hpushim.safe_files import descriptors
from hpushim.safe_files.descriptors import BINARY, NO_LINK, QUIET, Refused, Torn

#: Bytes that are read at most where nothing else is said.
LIMIT = 64 << 20
CHANGED = "changed on disk during the check; run hpushim again"

_FOLDER = getattr(os, "O_DIRECTORY", 0)
#: Does the system take names relative to an open folder? Where not (Windows), paths are put together.
AT = os.open in os.supports_dir_fd


class Folder:
    """An open folder. Names in it are single names, and no link is followed from here on.

    A context manager; every method raises OSError.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Folder:
        """The folder at ``path``. Links in ``path`` are followed: it is the caller's own, or resolved."""
        path = os.fspath(path)
        if AT:
            return cls(path, os.open(path, os.O_RDONLY | _FOLDER | QUIET))
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return cls(path, -1)

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the folder; once more is no fault."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- folders --------------------------------------------------------------------------------

    def info(self) -> os.stat_result:
        """Owner, mode and the like of the folder itself."""
        return os.fstat(self._descriptor) if AT else os.stat(self.path)

    def writable(self) -> bool:
        """May files be made in it? A full disk says yes."""
        wanted = os.W_OK | os.X_OK
        return os.access(".", wanted, dir_fd=self._at) if AT else os.access(self.path, wanted)

    def inner(self, *names: str, make: bool = False) -> Folder:
        """The folder further in, made on the way with ``make``; the caller closes it."""
        here = Folder(self.path, os.dup(self._descriptor) if AT else -1)
        for name in names:
            with here:
                inner = here._step(name, make)
            here = inner
        return here

    def _step(self, name: str, make: bool) -> Folder:
        if make:
            with suppress(FileExistsError):
                # Not for everybody to write into, whatever the process grants by default.
                os.mkdir(self._named(name), 0o775, dir_fd=self._at)
        info = self._lstat(name)
        if not stat.S_ISDIR(info.st_mode):
            raise Refused(f"{name} is {descriptors.what(info)}, not a folder", errno.ENOTDIR)
        path = os.path.join(self.path, name)
        if not AT:
            return Folder(path, -1)
        flags = os.O_RDONLY | _FOLDER | NO_LINK | QUIET
        return Folder(path, os.open(name, flags, dir_fd=self._descriptor))

    def names(self) -> list[str]:
        """What lies in the folder, in no order."""
        return os.listdir(self._descriptor if AT else self.path)

    def remove_folder(self, name: str) -> None:
        """Takes an empty folder away."""
        os.rmdir(self._named(name), dir_fd=self._at)

    def sync(self) -> None:
        """Puts the names on the disk."""
        if AT:
            os.fsync(self._descriptor)

    # -- files ----------------------------------------------------------------------------------

    def look(self, name: str) -> os.stat_result | None:
        """The regular file of that name; None where there is nothing. Anything else is refused."""
        try:
            info = self._lstat(name)
        except FileNotFoundError:
            return None
        return descriptors.regular(info)

    def read(self, name: str, limit: int = LIMIT) -> bytes:
        """The bytes of a regular file, ``limit`` at most."""
        return descriptors.read(self._named(name), self._at, limit, follow=False)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a regular file."""
        flags |= NO_LINK | QUIET | BINARY
        descriptor = os.open(self._named(name), flags, mode, dir_fd=self._at)
        try:
            descriptors.regular(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def new(self, name: str, data: bytes, mode: int = 0o666, *, sync: bool = True) -> None:
        """A file that was not there; with ``sync`` its bytes are on the disk before this returns."""
        descriptor = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o777)
        try:
            descriptors.put(descriptor, data)
            if sync:
                os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                self.remove(name)
            raise
        finally:
            os.close(descriptor)

    def write(
        self,
        name: str,
        data: bytes,
        *,
        temporary: str,
        names_stay: bool = True,
        still: bytes | None = None,
        mode: int | None = None,
        time_ns: int | None = None,
    ) -> None:
        """Puts ``data`` in place of a file, by a ``temporary`` one beside it that takes its name.

        Owner, extended attributes and mode stay. ``mode`` sets the nine permission bits: a file is never given set-id
        bits, it keeps those that it has. With ``names_stay`` a file of several hard links is written in place, so that
        all its names show the new bytes. Refused when the file is not ``still`` what is given here.
        """
        old = self.look(name)
        if old is not None and old.st_nlink > 1 and names_stay:
            self.overwrite(name, data, still=still)
            self.mark(name, mode, time_ns)
            return
        descriptor = self._draft(temporary, 0o666 if old is None else 0o600)
        try:
            descriptors.put(descriptor, data)
            if old is not None:
                self._dress(descriptor, name, old, mode)
            elif mode is not None:
                os.fchmod(descriptor, mode & 0o777)
            if time_ns is not None:
                os.utime(descriptor, ns=(time_ns, time_ns))
            os.fsync(descriptor)
            if still is not None and self._now(name, len(still)) != still:
                raise Refused(CHANGED)
            self.rename(temporary, name)
        except BaseException:
            with suppress(OSError):
                self.remove(temporary)
            raise
        finally:
            os.close(descriptor)

    def _now(self, name: str, limit: int) -> bytes | None:
        try:
            return self.read(name, limit)
        except OSError:
            return None

    def _draft(self, temporary: str, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = self.open(temporary, flags, mode)
        except FileExistsError:
            if self._in_use(temporary):
                raise Refused("another run is writing it; try again later", errno.EAGAIN) from None
            self.remove(temporary)
            descriptor = self.open(temporary, flags, mode)
        descriptors.locked(descriptor)  # so that others know that its writer lives
        return descriptor

    def _in_use(self, temporary: str) -> bool:
        try:
            self.look(temporary)  # a link would not be opened
            descriptor = self.open(temporary, os.O_RDONLY)
        except Refused:
            return False
        try:
            return not descriptors.locked(descriptor)
        finally:
            os.close(descriptor)

    def _dress(self, descriptor: int, name: str, old: os.stat_result, mode: int | None) -> None:
        try:
            source = self.open(name, os.O_RDONLY)
        except OSError:
            descriptors.dress(descriptor, None, old, mode)
            return
        try:
            descriptors.dress(descriptor, source, old, mode)
        finally:
            os.close(source)

    def overwrite(self, name: str, data: bytes, *, still: bytes | None = None) -> None:
        """Writes into the file itself; a process that is killed here leaves it torn.

        Raises :class:`Torn` where neither the new bytes nor the old ones can be written to the end.
        """
        descriptor = self.open(name, os.O_RDWR)
        try:
            old = descriptors.whole(descriptor, os.fstat(descriptor).st_size)
            # Another name of the same file may have brought the new bytes already.
            if still is not None and old not in (still, data):
                raise Refused(CHANGED)
            try:
                descriptors.replace(descriptor, data)
            except BaseException as error:
                try:
                    descriptors.replace(descriptor, old)
                except OSError:
                    why = getattr(error, "strerror", None) or "stopped"
                    raise Torn(
                        f"{why}, and it could not be undone; the next run undoes it"
                    ) from None
                raise
        finally:
            os.close(descriptor)

    def mark(self, name: str, mode: int | None, time_ns: int | None) -> None:
        """Sets the nine permission bits and the time of a file."""
        descriptor = self.open(name, os.O_RDONLY)
        try:
            if mode is not None:
                bits = stat.S_IMODE(os.fstat(descriptor).st_mode)
                os.fchmod(descriptor, (bits & ~0o777) | (mode & 0o777))
            if time_ns is not None:
                os.utime(descriptor, ns=(time_ns, time_ns))
        finally:
            os.close(descriptor)

    def rename(self, old: str, new: str) -> None:
        """Gives a file another name, over what has it."""
        if AT:
            here = self._descriptor
            os.replace(self._named(old), self._named(new), src_dir_fd=here, dst_dir_fd=here)
        else:
            os.replace(self._named(old), self._named(new))

    def remove(self, name: str) -> None:
        """Takes a file away, or a link itself; what is not there is no fault."""
        with suppress(FileNotFoundError):
            os.unlink(self._named(name), dir_fd=self._at)

    @contextmanager
    def lock(self, name: str, seconds: float) -> Iterator[None]:
        """Alone among the processes that request the same; TimeoutError after so many seconds."""
        until = time.monotonic() + seconds
        while True:
            descriptor = self.open(name, os.O_RDWR | os.O_CREAT, 0o664)
            try:
                while not descriptors.locked(descriptor):
                    if time.monotonic() > until:
                        raise TimeoutError(errno.ETIMEDOUT, "another run is writing here")
                    time.sleep(0.02)
                now = self.look(name)
                if now is not None and os.path.samestat(now, os.fstat(descriptor)):
                    yield
                    return
                # It was taken away by the one who held it; whoever comes now makes a new one.
            finally:
                os.close(descriptor)

    @property
    def _at(self) -> int | None:
        return self._descriptor if AT else None

    def _named(self, name: str) -> str:
        if name in ("", ".", "..") or "\0" in name or {"/", os.sep} & set(name):
            raise Refused(f"{name!r} is not the name of a file", errno.EINVAL)
        return name if AT else os.path.join(self.path, name)

    def _lstat(self, name: str) -> os.stat_result:
        return os.stat(self._named(name), dir_fd=self._at, follow_symlinks=False)
