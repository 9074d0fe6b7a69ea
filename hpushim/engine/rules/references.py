"""Where a module uses the dotted names that rules want, found from their words."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from hpushim.engine.python.module import Module
from hpushim.engine.rules.listed import Listed
from hpushim.engine.rules.wants import last
from hpushim.pycode.walk import starts_at


class Catalog(msgspec.Struct, frozen=True):
    """The dotted names that some rules want, arranged for looking up."""

    exact: dict[str, tuple[int, ...]]
    #: ``torch.cuda`` for ``torch.cuda.*``.
    below: dict[str, tuple[int, ...]]
    #: By the last word of each, which is wherever it is used.
    by_word: dict[str, tuple[int, ...]]
    roots: frozenset[str]


class Reference(msgspec.Struct, frozen=True):
    """One use of a wanted name: the node, the dotted name, and the places of the rules that want it."""

    node: ast.expr
    name: str
    rules: tuple[int, ...]


@cache
def catalog(candidates: tuple[Listed, ...]) -> Catalog:
    """The names that these rules want; a rule is given by its place among them."""
    return _arranged([rule.wants.names for rule in candidates])


@cache
def _catalog(names: tuple[str, ...]) -> Catalog:
    return _arranged([names])


def _arranged(wanted: Sequence[tuple[str, ...]]) -> Catalog:
    exact: dict[str, list[int]] = {}
    below: dict[str, list[int]] = {}
    by_word: dict[str, set[int]] = {}
    for place, names in enumerate(wanted):
        for name in names:
            table = below if name.endswith(".*") else exact
            table.setdefault(name.removesuffix(".*"), []).append(place)
            by_word.setdefault(last(name), set()).add(place)
    return Catalog(
        exact={name: tuple(places) for name, places in exact.items()},
        below={name: tuple(places) for name, places in below.items()},
        by_word={word: tuple(sorted(places)) for word, places in by_word.items()},
        roots=frozenset(name.partition(".")[0] for name in (*exact, *below)),
    )


@cache
def ambient(candidates: tuple[Listed, ...]) -> tuple[str, ...]:
    """The packages whose names rules want, the most wanted first: an unbound name of this spelling represents one."""
    roots = [name.partition(".")[0] for rule in candidates for name in rule.wants.names]
    return tuple(root for root, _ in Counter(roots).most_common() if root != "builtins")


def _fronts(name: str) -> Iterator[str]:
    while "." in name:
        yield name
        name = name.rpartition(".")[0]


def references(module: Module, words: Sequence[str], names: Catalog) -> list[Reference]:
    """Every use, outside import statements, of the wanted names that end in one of the words, and what else is found with them."""
    return _Search(module, names).run(words)


def find(module: Module, *names: str) -> list[tuple[ast.expr, str]]:
    """Every use of some dotted names, ``.*`` for whatever lies below one, with the name that is used."""
    catalog = _catalog(names)
    found = _Search(module, catalog).run(sorted(catalog.by_word))
    return sorted(((r.node, r.name) for r in found), key=lambda item: starts_at(item[0]))


class _Search:
    def __init__(self, module: Module, names: Catalog) -> None:
        self._module = module
        self._names = names
        self._seen: set[ast.expr] = set()
        self._found: list[Reference] = []

    def run(self, words: Sequence[str]) -> list[Reference]:
        index, may_mean = self._module.index, self._module.names.may_mean
        for word in words:
            for attribute in index.attributes(word):
                self._use(attribute)
            for name in index.names(word) if may_mean(word) else ():
                self._use(name)
        for binding in self._module.import_bindings:
            meant = binding.qualified or ""
            if binding.name not in words and self._wanted(meant):
                for name in self._module.uses(binding):
                    self._use(name)
        return self._found

    def _wanted(self, name: str) -> bool:
        """Is the name a wanted one, or below one? What begins with the front of one ends in a word that is looked up."""
        names = self._names
        if name in names.exact:
            return True
        root = name.partition(".")[0]
        return root in names.roots and any(f in names.below for f in (root, *_fronts(name)))

    def _use(self, node: ast.expr) -> None:
        """Takes the whole chain of attributes that ``node`` is a part of."""
        parent = self._module.parent
        above = parent(node)
        while isinstance(above, ast.Attribute):
            node, above = above, parent(above)
        if node in self._seen:
            return
        self._seen.add(node)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            return
        possible = self._module.possible_names(node)
        if not possible:
            return
        self._chain(node, sorted(possible))
        if any(self._wanted(name) for name in possible):
            self._through_alias(node, above)

    def _chain(self, node: ast.expr, whole: Sequence[str]) -> None:
        """Gives the rules the whole chain and each part of it that is wanted."""
        names = self._names
        below = _common([_below(names, name) for name in whole])
        if below:
            self._found.append(Reference(node, whole[0], below))
        part: ast.expr = node
        fronts = list(whole)
        while True:
            exact = _common([names.exact.get(front, ()) for front in fronts])
            if part is node:  # given already to those who want whatever lies below
                exact = tuple(place for place in exact if place not in below)
            if exact:
                self._found.append(Reference(part, fronts[0], exact))
            if not isinstance(part, ast.Attribute):
                return
            part = part.value
            fronts = [front.rpartition(".")[0] for front in fronts]

    def _through_alias(self, node: ast.expr, above: ast.AST | None) -> None:
        """``c = torch.cuda``: the uses of ``c`` are uses of it."""
        if not isinstance(above, ast.Assign) or above.value is not node:
            return
        for target in above.targets:
            if isinstance(target, ast.Name):
                for name in self._module.index.names(target.id):
                    self._use(name)


def _below(names: Catalog, name: str) -> tuple[int, ...]:
    found: tuple[int, ...] = ()
    front = name.rpartition(".")[0]
    while front:
        found += names.below.get(front, ())
        front = front.rpartition(".")[0]
    return tuple(dict.fromkeys(found))


def _common(places: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The rules that want all ways in which a name may be meant."""
    first, *others = places
    if not others or not first:
        return first
    return tuple(place for place in first if all(place in other for other in others))
