"""Which files of a project import which, as far as their bytes show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import PurePath

from hpushim.patterns import lazily

#: ``from .utils import a, b``, also over several lines in parentheses. A comment there is read up to its end, in one way
#: only: with several a list that is never closed takes for ever. Like all patterns over whole files it begins with the newline
#: before: other places are then passed over at the speed of memory.
_FROM = lazily(
    rb"\n[ \t]*from[ \t]+([\w.][\w. \t]*?)[ \t]+import[ \t]*"
    rb"(\((?:[^()#]|#[^\n]*\n)*\)|(?:[^;\n\\]|\\\r?\n)*)"
)
_IMPORT = lazily(rb"\n[ \t]*import[ \t]+([\w., \t]+)")
_COMMENT = lazily(rb"#[^\n]*")
_TAKEN = lazily(rb"(?:^|[(,])[\s\\]*(\w+|\*)")
_Parts = tuple[str, ...]


def imported(data: bytes) -> set[tuple[str, str]]:
    """The modules that a file imports, each with a name that it takes from there or ""; ``data`` begins with a newline."""
    found: set[tuple[str, str]] = set()
    for written, statement in _FROM.findall(data):
        module = written.decode("utf-8", "replace").replace(" ", "").replace("\t", "")
        taken = _TAKEN.findall(_COMMENT.sub(b"", statement))
        found.update((module, name.decode("utf-8", "replace")) for name in taken)
    for several in _IMPORT.findall(data):
        found.update((part.split()[0].decode(), "") for part in several.split(b",") if part.split())
    return found


class Links:
    """The imports between the Python files of a project: which files those are that each file imports."""

    def __init__(self, imports: Mapping[str, Collection[tuple[str, str]]]) -> None:
        self._asked = imports
        #: What was found before: the files of a folder import the same.
        self._known: dict[tuple[_Parts, str, str], frozenset[str]] = {}

    def around(self, starts: Collection[str]) -> frozenset[str]:
        """The files that import one of ``starts``, however far, those that one of them imports, and themselves."""
        if not starts:
            return frozenset()
        return self.needs(starts) | self.needing(starts)

    def needs(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files that one of them imports, however far."""
        return frozenset(_closure(starts, self._resolved[0]))

    def needing(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files that import one of them, however far."""
        return frozenset(_closure(starts, self._resolved[1]))

    def found(self, path: str, module: str, name: str = "") -> frozenset[str]:
        """The files that a module may be, or a name that is taken from it, where the file at ``path`` imports it."""
        asked = (_folder(path), module, name)
        found = self._known.get(asked)
        if found is None:
            by_parts, by_last, packages = self._places
            every = _candidates(*asked, by_parts, by_last, packages)
            found = self._known[asked] = frozenset(by_parts[each] for each in every)
        return found

    def taking(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files that take something from one of them, however far; through a package only what it takes from there itself."""
        return frozenset(_closure(starts, self._takers))

    @cached_property
    def _takers(self) -> dict[str, set[str]]:
        edges: defaultdict[str, set[str]] = defaultdict(set)
        for path, asked in self._asked.items():
            for module, name in asked:
                for origin in self._origins(path, module, name, set()):
                    edges[origin].add(path)
        return edges

    @cached_property
    def _taken(self) -> dict[tuple[str, str], list[str]]:
        """The modules that a file takes a name from."""
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for path, asked in self._asked.items():
            for module, name in asked:
                if name:
                    found[path, name].append(module)
        return found

    def _origins(self, path: str, module: str, name: str, seen: set[str]) -> Iterator[str]:
        """Where a name comes from that a file imports: a module, or what a package takes it from."""
        if name and (modules := self.found(path, module, name)):
            yield from modules
            return
        for found in self.found(path, module) - seen:
            seen.add(found)
            inner = self._taken.get((found, name), ())
            if not inner or found.rpartition("/")[2] != "__init__.py":
                yield found
            for each in inner:
                yield from self._origins(found, each, name, seen)

    def _run_before(self, path: str) -> list[str]:
        """The packages around a module, which Python runs first."""
        folders = PurePath(path).parents
        return [str(above / "__init__.py") for above in folders if self.is_package(above.parts)]

    def is_package(self, folder: _Parts) -> bool:
        """Is it a folder with ``__init__.py``?"""
        return folder in self._places[2]

    @cached_property
    def _places(self) -> tuple[dict[_Parts, str], dict[str, list[_Parts]], set[_Parts]]:
        """The files by the parts of their paths, these parts by their last one, and the packages."""
        by_parts: dict[_Parts, str] = {}
        by_last: defaultdict[str, list[_Parts]] = defaultdict(list)
        packages: set[_Parts] = set()
        for path in self._asked:
            pure = PurePath(path)
            parts = pure.with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if pure.name == "__init__.py":
                packages.add(parts)
            by_parts[parts] = path
            if parts:
                by_last[parts[-1]].append(parts)
        return by_parts, by_last, packages

    @cached_property
    def _resolved(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        on: defaultdict[str, set[str]] = defaultdict(set)
        back: defaultdict[str, set[str]] = defaultdict(set)
        before = {path: (path, *self._run_before(path)) for path in self._asked}
        for path, asked in self._asked.items():
            for module, name in asked:
                for wanted in {name, ""}:
                    for found in self.found(path, module, wanted):
                        on[path].update(before[found])
                        back[found].add(path)
        return on, back


@lru_cache(maxsize=1 << 14)
def _folder(path: str) -> _Parts:
    return PurePath(path).parent.parts


def _candidates(
    folder: _Parts,
    module: str,
    name: str,
    by_parts: dict[_Parts, str],
    by_last: dict[str, list[_Parts]],
    packages: Collection[_Parts],
) -> Iterator[_Parts]:
    """The files that a module may be: beside a relative import that one, of an absolute one a neighbour before all others.

    No path of modules leads into a package, unless a script in it is started, which finds what is around it.
    """
    dots = len(module) - len(module.lstrip("."))
    parts = tuple(part for part in (*module.split("."), name) if part)
    if dots:
        parts = (*folder[: len(folder) + 1 - dots], *parts)
        if parts in by_parts:
            yield parts
    elif (*folder, *parts) in by_parts:
        yield (*folder, *parts)
    elif parts:
        for each in by_last.get(parts[-1], ()):
            root = each[: -len(parts)]
            if each[-len(parts) :] == parts and (
                root not in packages or root == folder[: len(root)]
            ):
                yield each


def _closure(starts: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    found = set(starts)
    todo = list(found)
    for path in todo:  # grows
        for other in edges.get(path, ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found
