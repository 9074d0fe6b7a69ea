"""What was found in a file before, kept in the user's cache folder.

An answer holds for the bytes of a file under its path, the options, this hpushim and its matrix, and for what the rules requested from the
project: each question is kept with its answer, so a changed helper drops only the files that asked about what changed in it.

A store is one file for each project and set of options, with a digest over all of it: one that is damaged, of another hpushim or
larger than the limit counts as none. It is replaced as a whole; of two processes that end together the answers of one may be lost,
never mixed. A folder that others can write to is not used. Nothing here can fail a run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

import hpushim
from hpushim import safe_files
from hpushim.engine.base.text import Project
from hpushim.engine.facts import Said
from hpushim.engine.files.discover import File
from hpushim.matrix import Matrix
from hpushim.model import FileResult

#: What findings do not come from.
_ELSEWHERE = frozenset({"__pycache__", "cli", "emulator", "ledgers", "plan", "prove", "report", "shim"})  # fmt: skip
#: Answers to one file, for projects of which now more and now fewer files are named.
_VARIANTS = 3
#: Files that a run did not look at and that stay in a store.
_OTHERS = 5000
_LARGEST = 64 << 20
#: Bytes of all stores together; those that nobody used for longest go.
_ALL = 256 << 20

_Question = tuple[str, Any]
#: Questions to the project with their answers: which part of it, what was asked, what it said.
Asked = list[tuple[str, Any, Any]]


class _Variant(msgspec.Struct, array_like=True):
    """What was found, and the questions to the project on which that rests, each with its answer."""

    asked: Asked
    result: FileResult
    #: Whether the result carries the file's bytes, which are not kept.
    before: bool


class Entry(msgspec.Struct, array_like=True):
    """What is known of one file: what it says of its project, whether a rule may want it, what was found."""

    said: Said
    wanted: bool
    variants: list[_Variant] = []


class Cache:
    """The answers for one project and set of options."""

    def __init__(self, root: Path, options: object, matrix: Matrix) -> None:
        rows = [row for row in matrix.rows if row.origin]
        text = repr((os.fspath(root), options)).encode() + msgspec.json.encode(rows)
        self._path = Path(_folder(), f"{blake2b(text, digest_size=16).hexdigest()}.found")
        self._head = state(matrix)
        self._known = self._read()
        self._used: dict[bytes, Entry] = {}
        self._changed = False
        self._asked: dict[_Question, Any] = {}
        self._project: dict[str, Watched] = {}

    # -- files ------------------------------------------------------------------------------

    def key(self, file: File, data: bytes) -> bytes:
        """Stands for a file with this content."""
        named = f"{file.shown}\0{file.kind}\0{file.explicit}\0".encode("utf-8", "surrogatepass")
        return blake2b(named + data, digest_size=16).digest()

    def entry(self, key: bytes) -> Entry | None:
        """What is known of a file."""
        found = self._known.get(key)
        if found is not None:
            self._used[key] = found
        return found

    def add(self, key: bytes, entry: Entry) -> None:
        self._used[key] = entry
        self._changed = True

    # -- what was found ---------------------------------------------------------------------

    def watch(self, project: Project) -> Project:
        """The same project, whose answers are noted for the file that is at work."""
        sets = {
            name: Watched(name, getattr(project, name), self._asked)
            for name in ("methods", "modules", "pins", "options", "imported", "files", "shadowing")
        }
        named = {
            field: tuple((name, Watched(f"{field} {name}", each, self._asked)) for name, each in getattr(project, field))
            for field in ("collected", "spread")
        }  # fmt: skip
        mentions = Watched("mentions", project.mentions or (), self._asked)
        every = (*sets.values(), *(each for pairs in named.values() for _, each in pairs), mentions)
        self._project = {each.name: each for each in every}
        fields: Any = {**sets, **named, "mentions": mentions}
        return Project(**fields)

    def find(self, key: bytes, data: bytes) -> FileResult | None:
        """What was found in a file, if the project would answer as it did then."""
        for variant in self._used[key].variants:
            if all(self._answers(*each) for each in variant.asked):
                before = data if variant.before else None
                return msgspec.structs.replace(variant.result, before=before)
        return None

    def _answers(self, name: str, question: Any, answer: Any) -> bool:
        watched = self._project.get(name)
        return watched is not None and watched.answer(question) == answer

    def begin(self) -> None:
        """Another file is at work."""
        self._asked.clear()

    def asked(self) -> Asked:
        """What the rules requested from the project since."""
        return [(*question, answer) for question, answer in self._asked.items()]

    def put(self, key: bytes, result: FileResult, asked: Asked) -> None:
        """Keeps what was found in a file. What failed is tried again: the next run may have more time."""
        if result.status != "failed":
            kept = msgspec.structs.replace(result, before=None)
            variant = _Variant(asked, kept, result.before is not None)
            entry = self._used[key]
            entry.variants = [variant, *entry.variants[: _VARIANTS - 1]]
            self._changed = True

    # -- the store --------------------------------------------------------------------------

    def _read(self) -> dict[bytes, Entry]:
        with suppress(OSError, msgspec.DecodeError, RecursionError):
            if _is_own(self._path.parent):
                data = safe_files.read(self._path, _LARGEST, follow=False)
                if data[:16] == blake2b(data[16:], digest_size=16, key=self._head).digest():
                    return msgspec.msgpack.decode(data[16:], type=dict[bytes, Entry])
        return {}

    def write(self) -> None:
        """Keeps what is known now, where the folder can be written to."""
        if not self._changed:
            with suppress(OSError):
                os.utime(self._path)  # it was of use
            return
        with suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(self._path.parent):
                return
            others = {key: e for key, e in self._read().items() if key not in self._used}
            entries = self._used | dict(list(others.items())[:_OTHERS])
            data = msgspec.msgpack.encode(entries)
            if len(data) > _LARGEST - 16:
                return
            digest = blake2b(data, digest_size=16, key=self._head).digest()
            with safe_files.Folder.at(self._path.parent) as folder:
                draft = safe_files.temporary()
                folder.write(self._path.name, digest + data, temporary=draft, names_stay=False)
            _tidy(self._path.parent)


class Watched(Set[Any]):
    """A set that notes what it is asked: by member, whether there is any, or all of it."""

    def __init__(self, name: str, items: Collection[Any], asked: dict[_Question, Any]) -> None:
        self.name = name
        self._items = items
        self._asked = asked
        self._whole = ""

    @classmethod
    def _from_iterable(cls, items: Iterable[Any]) -> Any:
        return frozenset(items)

    def answer(self, question: Any) -> Any:
        """0: is there any? 1: all, as a digest. Else: is it a member? Pairs come back from a store as lists."""
        if question == 0:
            return bool(self._items)
        if question == 1:
            if not self._whole:
                ordered = self._items if isinstance(self._items, tuple) else sorted(self._items)
                self._whole = blake2b(repr(ordered).encode("utf-8", "surrogatepass")).hexdigest()
            return self._whole
        return (tuple(question) if isinstance(question, list) else question) in self._items

    def _note(self, question: Any) -> Any:
        answer = self._asked[self.name, question] = self.answer(question)
        return answer

    def __contains__(self, item: object) -> bool:
        return bool(self._note(item))

    def __iter__(self) -> Iterator[Any]:
        self._note(1)
        return iter(self._items)

    def __len__(self) -> int:
        self._note(1)
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._note(0))


def _folder() -> str:
    """Where stores lie; raises OSError where the user has no folder for it."""
    folder, _ = safe_files.cache_folder()
    if not os.path.isabs(folder):  # noqa: PTH117
        raise safe_files.Refused("a relative path")
    return os.path.join(folder, "found")  # noqa: PTH118


def state(matrix: Matrix, without: Set[str] = _ELSEWHERE) -> bytes:
    """Stands for this hpushim, its matrix and this Python; ``without`` are rooms that nothing comes from."""
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
