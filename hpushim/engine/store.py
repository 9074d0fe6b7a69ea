"""Files in the user's cache folder: what is worth keeping of a run for the next one.

Each has a digest over all of it: one that is damaged, of another hpushim or larger than the limit counts as none. It is replaced as a
whole; of two processes that end together the answers of one may be lost, never mixed. A folder that others can write to is not used.
Nothing here can fail a run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

import hpushim
from hpushim import safe_files
from hpushim.matrix import Matrix

#: What findings do not come from.
_ELSEWHERE = frozenset({"__pycache__", "cli", "emulator", "ledgers", "plan", "prove", "report", "shim"})  # fmt: skip
_LARGEST = 64 << 20
#: Bytes of all stores together; those that nobody used for longest go.
_ALL = 256 << 20


class Store:
    """One such file, for a project, what was requested, and the rows of its own; raises OSError where the user has no folder for it.

    ``head`` is the :func:`state` of hpushim in which it holds.
    """

    def __init__(
        self, root: Path, options: object, matrix: Matrix, head: bytes, ending: str
    ) -> None:
        rows = [row for row in matrix.rows if row.origin]
        text = repr((os.fspath(root), options)).encode("utf-8", "surrogatepass")
        name = blake2b(text + msgspec.json.encode(rows), digest_size=16).hexdigest()
        self._path = Path(_folder(), name + ending)
        self._head = head

    def read(self) -> bytes | None:
        """What was kept; None where nothing was, or it does not hold."""
        with suppress(OSError):
            if _is_own(self._path.parent):
                data = safe_files.read(self._path, _LARGEST, follow=False)
                if data[:16] == self._digest(data[16:]):
                    return data[16:]
        return None

    def used(self) -> None:
        """It was of use, so that others go first."""
        with suppress(OSError):
            os.utime(self._path)

    def write(self, data: bytes) -> None:
        """Keeps this, where the folder can be written to."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(data) > _LARGEST - 16 or not _is_own(self._path.parent):
                return
            with safe_files.Folder.at(self._path.parent) as folder:
                draft = safe_files.temporary()
                folder.write(
                    self._path.name, self._digest(data) + data, temporary=draft, names_stay=False
                )
            _tidy(self._path.parent)

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=16, key=self._head).digest()


def _folder() -> str:
    """Where stores lie; raises OSError where the user has no folder for it."""
    folder, _ = safe_files.cache_folder()
    if not os.path.isabs(folder):  # noqa: PTH117
        raise safe_files.Refused("a relative path")
    return os.path.join(folder, "found")  # noqa: PTH118


def state(matrix: Matrix, without: Set[str] = _ELSEWHERE) -> bytes:
    """Identifies this hpushim, its matrix and this Python; ``without`` are rooms that nothing comes from."""
    import sys

    package = os.path.dirname(os.path.abspath(hpushim.__file__))  # noqa: PTH100, PTH120
    rules = [*map(str, _rules())]
    parts = [
        sys.version,
        hpushim.__version__,
        matrix.edition,
        *_stated([package, *rules, matrix.path], without),
    ]
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _rules() -> Iterable[str]:
    from importlib.util import find_spec

    found = find_spec("hpushim.codemods")
    return found.submodule_search_locations or () if found else ()


def _stated(places: list[str], without: Set[str]) -> Iterator[str]:
    """Name, size and time of each source file below."""
    for place in places:
        if os.path.isfile(place):  # noqa: PTH113
            stat = os.stat(place)  # noqa: PTH116
            yield f"{place} {stat.st_size} {stat.st_mtime_ns}"
            continue
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".txt", ".so")):
                    stat = entry.stat()
                    yield f"{entry.name} {stat.st_size} {stat.st_mtime_ns}"
                elif entry.name not in without and entry.is_dir():
                    yield from _stated([entry.path], without)


def _is_own(folder: Path) -> bool:
    """Can only this user put something there?"""
    stat = folder.stat()
    return not hasattr(os, "getuid") or (stat.st_uid == os.getuid() and not stat.st_mode & 0o022)


def _tidy(folder: Path) -> None:
    """Lets the stores go that nobody used for longest, until what is left is small enough."""
    stores = [(path.stat(), path) for path in folder.iterdir()]
    left = sum(stat.st_size for stat, _ in stores)
    for stat, path in sorted(stores, key=lambda each: each[0].st_mtime):
        if left <= _ALL:
            return
        path.unlink(missing_ok=True)
        left -= stat.st_size
