"""What was found in a file before, kept in the user's cache folder.

An answer holds for the bytes of a file under its path, the options, this hpushim and its matrix, and for what the rules requested from the
project: each question is kept with its answer, so a changed helper drops only the files that read what changed in it.

A store is one file for each project and set of options, see :mod:`hpushim.engine.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from hpushim.engine.base.text import Project
from hpushim.engine.facts import Said
from hpushim.engine.store import Store
from hpushim.matrix import Matrix
from hpushim.model import FileResult

#: Answers to one file, for projects of which now more and now fewer files are named.
_VARIANTS = 3
#: Files that a run did not look at and that stay in a store.
_OTHERS = 5000
#: An empty store.
_NOTHING = b"\x80"

_Question = tuple[str, Any]
#: Questions to the project with their answers: which part of it, the question, the answer.
Questions = list[tuple[str, Any, Any]]


class _Variant(msgspec.Struct, array_like=True):
    """What was found, and the questions to the project on which that rests, each with its answer."""

    questions: Questions
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

    def __init__(self, root: Path, options: object, matrix: Matrix, head: bytes) -> None:
        self._store = Store(root, options, matrix, head, ".found")
        self._known = self._read()
        self._used: dict[bytes, Entry] = {}
        self._changed = False
        self._answered: dict[_Question, Any] = {}
        self._project: dict[str, Watched] = {}

    # -- files ------------------------------------------------------------------------------

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
            name: Watched(name, getattr(project, name), self._answered)
            for name in (
                "methods",
                "modules",
                "pins",
                "options",
                "imported",
                "files",
                "shadowing",
                "foreign",
            )
        }
        named = {
            field: tuple((name, Watched(f"{field} {name}", each, self._answered)) for name, each in getattr(project, field))
            for field in ("collected", "spread")
        }  # fmt: skip
        mentions = Watched("mentions", project.mentions or (), self._answered)
        every = (*sets.values(), *(each for pairs in named.values() for _, each in pairs), mentions)
        self._project = {each.name: each for each in every}
        fields: Any = {**sets, **named, "mentions": mentions}
        return Project(**fields)

    def find(self, key: bytes, data: bytes) -> FileResult | None:
        """What was found in a file, if the project would answer as it did then."""
        for variant in self._used[key].variants:
            if all(self._answers(*each) for each in variant.questions):
                before = data if variant.before else None
                return msgspec.structs.replace(variant.result, before=before)
        return None

    def _answers(self, name: str, question: Any, answer: Any) -> bool:
        watched = self._project.get(name)
        return watched is not None and watched.answer(question) == answer

    def begin(self) -> None:
        """Another file is at work."""
        self._answered.clear()

    def questions(self) -> Questions:
        """What the rules requested from the project since."""
        return [(*question, answer) for question, answer in self._answered.items()]

    def put(self, key: bytes, result: FileResult, questions: Questions) -> None:
        """Keeps what was found in a file. What failed is tried again: the next run may have more time."""
        if result.status != "failed":
            kept = msgspec.structs.replace(result, before=None)
            variant = _Variant(questions, kept, result.before is not None)
            entry = self._used[key]
            entry.variants = [variant, *entry.variants[: _VARIANTS - 1]]
            self._changed = True

    # -- the store --------------------------------------------------------------------------

    def _read(self) -> dict[bytes, Entry]:
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.msgpack.decode(self._store.read() or _NOTHING, type=dict[bytes, Entry])
        return {}

    def write(self) -> None:
        """Keeps what is known now."""
        if not self._changed:
            self._store.used()
            return
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            others = {key: e for key, e in self._read().items() if key not in self._used}
            entries = self._used | dict(list(others.items())[:_OTHERS])
            self._store.write(msgspec.msgpack.encode(entries))


class Watched(Set[Any]):
    """A set that notes what is read of it: by member, whether there is any, or all of it."""

    def __init__(self, name: str, items: Collection[Any], questions: dict[_Question, Any]) -> None:
        self.name = name
        self._items = items
        self._answered = questions
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
        answer = self._answered[self.name, question] = self.answer(question)
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
