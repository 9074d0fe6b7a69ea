"""Which files of a project import which, as far as their bytes show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import PurePath
from types import MappingProxyType

from hpushim.patterns import lazily

#: ``from .utils import a, b``, also over several lines in parentheses. A comment there is read up to its end, in one way
#: only: with several a list that is never closed takes for ever. Like all patterns over whole files it begins with the newline
#: before: other places are then passed over at the speed of memory.
_FROM = lazily(
    rb"\n[ \t]*from[ \t]+([\w.][\w. \t]*?)(?:[ \t]+|[ \t]*\\\n[ \t]*)import[ \t]*"
    rb"(\((?:[^()#]|#[^\n]*\n)*\)|(?:[^;\n\\]|\\\r?\n)*)"
)
_IMPORT = lazily(rb"\n(?<!\\\n)[ \t]*import[ \t]+([\w., \t]+)")
_COMMENT = lazily(rb"#[^\n]*")
_TAKEN = lazily(rb"(?:^|[(,])[\s\\]*(\w+|\*)")
#: A line that opens a block or ends the program, and an import.
_LINE = lazily(
    rb"\n([ \t]*)(?:(try|except|if|elif|else|finally|for|while|with|def|class|async|match|case)\b([^\n]*)"
    rb"|(raise\b|(?:sys\.)?exit\()|(return\b)|(?:from|import)[ \t])"
)
_INNER = lazily(rb"\n[ \t]+(?:from|import)[ \t]")
_MAIN = lazily(rb"[ \t]*\(?[ \t]*__name__")
_Parts = tuple[str, ...]


def imported(data: bytes) -> set[tuple[str, str]]:
    """The modules that a file imports, each with a name that it takes from there or ""; ``data`` begins with a newline."""
    return {one for _, one in _each(data)}


def optional(data: bytes) -> set[tuple[str, str]]:
    """Of these, what is imported under a condition alone, or where the file goes on without it: ``except ImportError: fast = None``."""
    if not _INNER.search(data):
        return set()
    guarded = _guarded(data)
    found = [(at in guarded, one) for at, one in _each(data)]
    return {one for inner, one in found if inner} - {one for inner, one in found if not inner}


def _each(data: bytes) -> Iterator[tuple[int, tuple[str, str]]]:
    """Each import, with where its line begins."""
    for found in _FROM.finditer(data):
        module = found[1].decode("utf-8", "replace").replace(" ", "").replace("\t", "")
        for name in _TAKEN.findall(_COMMENT.sub(b"", found[2])):
            yield found.start(), (module, name.decode("utf-8", "replace"))
    for found in _IMPORT.finditer(data):
        for part in found[1].split(b","):
            if part.split():
                yield found.start(), (part.split()[0].decode(), "")


class _Block:
    """An open block: how far its first line is indented, with what it begins, and the imports in it that may fail, or in the branches before it."""

    def __init__(self, indent: int, word: bytes, tried: set[int]) -> None:
        self.indent, self.word, self.tried = indent, word, tried
        #: Of a function: whether it may have been left.
        self.left = False
        #: Whether it is what else there is beside one condition, and whether there are several.
        self.other = self.several = False


def _guarded(data: bytes) -> set[int]:
    """Where the imports are that are under ``if``, behind a ``return``, or in a ``try`` whose handlers do not end the program."""
    found: set[int] = set()
    open_ones: list[_Block] = []
    for line in _LINE.finditer(data):
        indent, word, rest, ends = len(line[1]), line[2], line[3], line[4]
        closed = None
        while open_ones and open_ones[-1].indent >= indent:
            closed = open_ones.pop()
        before = closed if closed is not None and closed.indent == indent else None
        if line[5]:
            inner = (block for block in reversed(open_ones) if block.word in (b"def", b"async"))
            for block in islice(inner, 1):
                block.left = True
        elif ends:
            for at, block in enumerate(open_ones):
                if block.word == b"except" or (block is open_ones[-1] and block.other):
                    _need(found, block.tried, open_ones[:at])
        elif word in (b"except", b"else", b"elif", b"finally"):
            same = before or _Block(indent, b"", set())
            if word == b"finally" and same.word == b"try":
                _need(found, same.tried, open_ones)  # this catches nothing
            other = word == b"else" and same.word == b"if" and not same.several
            several = word == b"elif"
            word = same.word if word == b"else" else b"if" if word == b"elif" else word
            open_ones.append(_Block(indent, b"except" if word == b"try" else word, same.tried))
            open_ones[-1].other, open_ones[-1].several = other, several
        elif word:
            named = word == b"if" and _MAIN.match(rest)
            open_ones.append(_Block(indent, b"" if named else word, set()))
        elif any(block.word in (b"if", b"case") or block.left for block in open_ones):
            found.add(line.start())
            if open_ones[-1].word == b"if":
                open_ones[-1].tried.add(line.start())
        elif tried := [block for block in open_ones if block.word == b"try"]:
            found.add(line.start())
            tried[-1].tried.add(line.start())
    return found


def _need(found: set[int], imports: set[int], around: list[_Block]) -> None:
    """Takes imports out of ``found`` whose failure ends the blocks ``around``: where nothing there is a condition, and no ``try`` may catch it."""
    if any(block.word in (b"if", b"case") or block.left for block in around):
        return
    tries = [block for block in around if block.word == b"try"]
    if tries:
        tries[-1].tried |= imports
    else:
        found -= imports


class Links:
    """The imports between the Python files of a project: which files those are that each file imports.

    ``optional`` are those of them that a run may do without.
    """

    def __init__(
        self,
        imports: Mapping[str, Collection[tuple[str, str]]],
        optional: Mapping[str, Collection[tuple[str, str]]] = MappingProxyType({}),
    ) -> None:
        self._imported = imports
        self._optional = optional
        #: What was found before: the files of a folder import the same.
        self._known: dict[tuple[_Parts, str, str], frozenset[str]] = {}

    def around(self, starts: Collection[str], *, beside: bool = False) -> frozenset[str]:
        """The files that import one of ``starts``, however far, those that one of them imports, and themselves; ``beside``: all that such files import."""
        if not starts:
            return frozenset()
        if beside:
            return self.needs(self.needing(starts))
        return self.needs(starts) | self.needing(starts)

    def needs(self, starts: Collection[str], apart: Collection[str] = ()) -> frozenset[str]:
        """``starts`` and the files that one of them imports, however far, other than through ``apart``."""
        edges = self._resolved[0]
        return frozenset(_closure(starts, edges if not apart else {p: to for p, to in edges.items() if p not in apart}))  # fmt: skip

    def certain(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files without which one of them does not run: no import of these on the way there is optional."""
        return frozenset(_closure(starts, self._edges(self._optional)))

    def avoidable(self, apart: Collection[str]) -> frozenset[str]:
        """The files that all but ``apart`` import, if at all, under a condition or where it may fail; those that nothing imports are none."""
        if not any(self._optional.values()):
            return frozenset()
        back = self._resolved[1]
        own = self._imported.keys() - {*apart}
        roots = {path for path in own if not back.get(path, set()) - {path, *apart}}
        return frozenset(own) - self.certain(
            {each for path in roots for each in self._before[path]}
        )

    def only_through(self, gates: Collection[str], apart: Collection[str]) -> frozenset[str]:
        """``gates`` and the files that all but ``apart`` import through one of them alone."""
        inner = self.needs(gates)
        return inner - self.needs(self._imported.keys() - inner - {*apart}, gates)

    def needing(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files that import one of them, however far."""
        return frozenset(_closure(starts, self._resolved[1]))

    def found(self, path: str, module: str, name: str = "") -> frozenset[str]:
        """The files that a module may be, or a name that is taken from it, where the file at ``path`` imports it."""
        imports_of = (_folder(path), module, name)
        found = self._known.get(imports_of)
        if found is None:
            by_parts, by_last, packages = self._places
            every = _candidates(*imports_of, by_parts, by_last, packages)
            found = self._known[imports_of] = frozenset(by_parts[each] for each in every)
        return found

    def taking(self, starts: Collection[str]) -> frozenset[str]:
        """``starts`` and the files that take something from one of them, however far; through a package only what it takes from there itself."""
        return frozenset(_closure(starts, self._takers))

    @cached_property
    def _takers(self) -> dict[str, set[str]]:
        edges: defaultdict[str, set[str]] = defaultdict(set)
        for path, imports_of in self._imported.items():
            for module, name in imports_of:
                for origin in self._origins(path, module, name, set()):
                    edges[origin].add(path)
        return edges

    @cached_property
    def _taken(self) -> dict[tuple[str, str], list[str]]:
        """The modules that a file takes a name from."""
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for path, imports_of in self._imported.items():
            for module, name in imports_of:
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
        for path in self._imported:
            pure = PurePath(path)
            parts = pure.with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if pure.name == "__init__.py":
                packages.add(parts)
            if (
                pure.name == "__init__.py" or parts not in by_parts
            ):  # a package comes before a module
                by_parts[parts] = path
            if parts:
                by_last[parts[-1]].append(parts)
        return by_parts, by_last, packages

    @cached_property
    def _before(self) -> dict[str, tuple[str, ...]]:
        """What runs where a file is imported: itself, and the packages around it."""
        return {path: (path, *self._run_before(path)) for path in self._imported}

    @cached_property
    def _resolved(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        back: defaultdict[str, set[str]] = defaultdict(set)
        return self._edges({}, back), back

    def _edges(
        self,
        apart: Mapping[str, Collection[tuple[str, str]]],
        back: defaultdict[str, set[str]] | None = None,
    ) -> dict[str, set[str]]:
        """What each file imports, and what Python runs before that, without ``apart``; ``back``: by whom."""
        on: defaultdict[str, set[str]] = defaultdict(set)
        for path, imports_of in self._imported.items():
            for module, name in {*imports_of} - {*apart.get(path, ())} if apart else imports_of:
                for wanted in {name, ""}:
                    for found in self.found(path, module, wanted):
                        on[path].update(self._before[found])
                        if back is not None:
                            back[found].add(path)
        return on


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
    """The files that a module may be: beside a relative import that one, of an absolute one a neighbour before all others,
    then the one in the nearest folder around it, which scripts put on the path.

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
        found: dict[_Parts, _Parts] = {}
        for each in by_last.get(parts[-1], ()):
            root = each[: -len(parts)]
            if each[-len(parts) :] == parts and (
                root not in packages or root == folder[: len(root)]
            ):
                found[root] = each
        above = max((root for root in found if root == folder[: len(root)]), key=len, default=None)  # fmt: skip
        yield from found.values() if above is None else [found[above]]


def _closure(starts: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    found = set(starts)
    todo = list(found)
    for path in todo:  # grows
        for other in edges.get(path, ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found
