"""The folder that keeps what migrate changed, and the one process at a time that may work in it.

    .hpushim/.gitignore             ignores everything below
    .hpushim/lock                   held by the process that writes files of the project
    .hpushim/runs/<id>/journal      one JSON line per file, written and synced before any file is touched
    .hpushim/runs/<id>/<n>          the bytes of the n-th file as they were
    .hpushim/runs/<id>/<n>.new      its new bytes, where the file is written in place
    .hpushim/runs/<id>/done         the run was not cut short

All of it may come with a project that somebody else made, so no link in it is followed, nothing but regular files is
opened, and a journal leads to no place outside of the project.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from hpushim import safe_files
from hpushim.errors import HpushimError
from hpushim.safe_files import Folder, Refused

FOLDER = ".hpushim"
#: Seconds to wait for another run that is writing.
PATIENCE = 60.0
_JOURNAL = 256 << 20
_LONGEST = 4096
#: Of other programs, which obey what is in them.
_OTHERS = frozenset([FOLDER, ".git", ".hg", ".svn", ".bzr", ".jj"])
_OURS = re.compile(r"\d+(?:\.new)?|journal(?:\.part)?|done")


class Entry(msgspec.Struct, frozen=True):
    """One line of a journal; ``path`` is relative to the project, as bytes in Latin-1."""

    number: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    path: str
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
    mtime_ns: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    before: str
    after: str
    #: The name of the temporary file that the new bytes go to first, in the file's folder.
    temporary: str = ""
    #: Has the file several names, so that it is written itself?
    in_place: bool = False

    def place(self) -> tuple[str, ...]:
        """The parts of the path; refused when it leads anywhere but to a file of the project."""
        try:
            name = os.fsdecode(self.path.encode("latin-1"))
        except UnicodeEncodeError:
            name = ""
        return place(name)

    def draft(self) -> str:
        """The name of the temporary file; another one where the journal names what hpushim never makes."""
        known = safe_files.is_temporary(self.temporary)
        return self.temporary if known else safe_files.temporary()


def place(name: str) -> tuple[str, ...]:
    """The parts of a path relative to the project; refused for one that leads out, or to other programs' own files."""
    if len(name) > _LONGEST:
        raise Refused("its path in the journal is longer than a path can be")
    parts = tuple(name.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Refused("its path in the journal leads out of the project")
    for part in parts:
        if part.casefold() in _OTHERS:
            raise Refused(f"it lies in {part}, where hpushim writes nothing")
    return parts


def digest(data: bytes) -> str:
    """What a journal says of a content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Home:
    """``.hpushim`` of one project, locked."""

    def __init__(self, project: Folder, folder: Folder) -> None:
        self.project = project
        self.folder = folder

    def newest_first(self) -> Iterator[tuple[str, Folder]]:
        """The runs that are kept, each with its folder, which is closed when the next one is requested."""
        try:
            runs = self.folder.inner("runs")
        except OSError:
            return
        with runs:
            for name in sorted(runs.names(), reverse=True):
                try:
                    run = runs.inner(name)
                except OSError:
                    continue  # nothing that hpushim made
                with run:
                    yield name, run

    def record(self, entries: Sequence[tuple[Entry, bytes, bytes | None]]) -> tuple[str, Folder]:
        """A new run: entries, each with the file's bytes and, if it will be written in place, the new ones."""
        with suppress(FileExistsError):
            self.folder.new(".gitignore", b"*\n", 0o644, sync=False)
        with self.folder.inner("runs", make=True) as runs:
            name = _fresh(runs)
            run = runs.inner(name)
        try:
            for entry, before, after in entries:
                mode = (entry.mode & 0o666) | 0o600  # seen by nobody who may not see the file
                run.new(str(entry.number), before, mode)
                if after is not None:
                    run.new(f"{entry.number}.new", after, mode)
            keep(run, [entry for entry, _, _ in entries])
        except BaseException:
            run.close()
            with suppress(OSError):
                self.drop(name)
            raise
        return name, run

    def drop(self, name: str) -> None:
        """Takes a run away, as far as it is one: files that hpushim did not make stay, and their folder."""
        with self.folder.inner("runs") as runs:
            with runs.inner(name) as run:
                # The journal first: what is cut short here is no run any more.
                for item in sorted(run.names(), key=lambda item: item != "journal"):
                    if _OURS.fullmatch(item):
                        run.remove(item)
            runs.remove_folder(name)

    def drop_all(self) -> None:
        """Takes the folder away when nothing is left in it but what it came with."""
        names = set(self.folder.names())
        if names <= {".gitignore", "runs", "lock"}:
            with suppress(OSError):
                if "runs" in names:
                    self.folder.remove_folder("runs")  # fails while there are other runs
                self.folder.remove(".gitignore")
                self.folder.remove("lock")
                self.project.remove_folder(FOLDER)

    def tidy(self) -> None:
        """Clears up after runs that were cut short: their temporary files, and files that they left torn."""
        for name, run in self.newest_first():
            with suppress(OSError):
                if run.look("done") is not None:
                    continue
            try:
                found = entries(run)
            except HpushimError:
                continue  # reported when it is to be undone
            if found is None:
                with suppress(OSError):
                    self.drop(name)
                continue
            for entry in found:
                with suppress(OSError):
                    self._clear(run, entry)
            with suppress(OSError):
                finish(run)

    def _clear(self, run: Folder, entry: Entry) -> None:
        *folders, name = entry.place()
        with self.project.inner(*folders) as folder:
            folder.remove(entry.draft())
            if not entry.in_place:
                return
            # Written in place. Torn is what begins as one content and goes on as the other.
            before, after = run.read(str(entry.number)), run.read(f"{entry.number}.new")
            sound = digest(before) == entry.before and digest(after) == entry.after
            now = folder.read(name, len(before) + len(after))
            if sound and now not in (before, after) and _torn(now, before, after):
                folder.overwrite(name, before, still=now)


def _torn(now: bytes, before: bytes, after: bytes) -> bool:
    """Is this what a process leaves that is killed while it writes one content over the other?"""
    for old, new in ((before, after), (after, before)):
        pairs = enumerate(zip(now, new, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(now), len(new)))
        if now[same:] == old[same:]:
            return True
    return False


@contextmanager
def opened(root: Path, *, make: bool) -> Iterator[Home | None]:
    """The home of the project at ``root``, with nobody else working in it; None where there is none.

    Raises OSError for one that cannot be used, TimeoutError when another run does not end.
    """
    until = time.monotonic() + PATIENCE
    with ExitStack() as held:
        project = held.enter_context(Folder.at(root))
        while True:
            try:
                folder = held.enter_context(project.inner(FOLDER, make=make))
            except FileNotFoundError:
                if make:
                    continue  # another run took it away between two steps
                yield None
                return
            try:
                held.enter_context(folder.lock("lock", until - time.monotonic()))
            except FileNotFoundError:
                continue  # the same
            yield Home(project, folder)
            return


def entries(run: Folder) -> list[Entry] | None:
    """The journal of a run; None where there is none, because the run was cut short before any file was touched.

    Raises :class:`HpushimError` for a journal that cannot be used.
    """
    try:
        lines = run.read("journal", _JOURNAL).splitlines()
        return [msgspec.json.decode(line, type=Entry) for line in lines]
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or "cannot be read"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = str(error)
    raise HpushimError(
        f"{run.path}/journal: not a journal of hpushim ({why}); the originals are beside it, by number"
    ) from None


def keep(run: Folder, left: Sequence[Entry]) -> None:
    """Writes the journal of a run; it appears under its name only when it is whole."""
    run.remove("journal.part")
    run.new("journal.part", b"".join(msgspec.json.encode(entry) + b"\n" for entry in left))
    run.rename("journal.part", "journal")
    run.sync()


def finish(run: Folder) -> None:
    """Notes that a run was not cut short."""
    with suppress(FileExistsError):
        run.new("done", b"", sync=False)


def reopen(run: Folder) -> None:
    """Takes the note back, before files are written again."""
    run.remove("done")


def whose(root: Path) -> str | None:
    """Why the home above somebody's folder must not be used: another user may have laid it out. None when it may."""
    try:
        with Folder.at(root) as project, project.inner(FOLDER) as folder:
            info, owner = folder.info(), project.info().st_uid
    except OSError as error:
        return error.strerror
    if not hasattr(os, "geteuid"):
        return None
    if info.st_uid not in (os.geteuid(), owner) or info.st_mode & stat.S_IWOTH:
        return "it belongs to another user, or anyone may write to it"
    return None


def _fresh(runs: Folder) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    taken = set(runs.names())
    for number in range(10_000):
        name = f"{stamp}-{number:04d}"
        if name not in taken:
            with runs.inner(name, make=True):
                return name
    raise OSError(errno.EEXIST, "too many runs in this second")
