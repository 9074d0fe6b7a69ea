"""The Python rules over one module: each is called with the nodes that hold its words."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.words import Words, words_in
from hpushim.engine.python.module import Module
from hpushim.engine.rules import references
from hpushim.engine.rules.rule import AnyRule, Found, Kept, Rule
from hpushim.engine.rules.told import Told
from hpushim.engine.rules.wants import Wants
from hpushim.model import Finding, Span

_WORDS = re.compile(r"[A-Za-z0-9_]+")


class _Needed(msgspec.Struct, frozen=True):
    """Sets of words of which a text has to hold one: single words, and larger sets by their rarest word."""

    single: frozenset[str]
    rarest: frozenset[str]
    others: dict[str, tuple[frozenset[str], ...]]

    @classmethod
    def of(cls, sets: Iterable[frozenset[str]]) -> _Needed:
        every = list(sets)
        count = Counter(word for words in every for word in words)
        others: dict[str, list[frozenset[str]]] = {}
        for words in every:
            if len(words) > 1:
                rarest = min(words, key=lambda word: (count[word], word))
                others.setdefault(rarest, []).append(words)
        return cls(
            frozenset(word for words in every if len(words) == 1 for word in words),
            frozenset(others),
            {word: tuple(dict.fromkeys(found)) for word, found in others.items()},
        )

    def fit(self, words: frozenset[str]) -> bool:
        if not self.single.isdisjoint(words):
            return True
        return any(needed <= words for word in self.rarest & words for needed in self.others[word])


class _Reader(msgspec.Struct, frozen=True):
    """When a rule has something to look at in a text."""

    words: _Needed
    texts: frozenset[str]
    beside: frozenset[str]

    @classmethod
    def of(cls, wants: Wants) -> _Reader:
        words = _Needed.of(wants.alternatives())
        return cls(words, frozenset((*wants.strings, *wants.texts)), frozenset(wants.beside))

    def fits(self, words: frozenset[str], texts: frozenset[str]) -> bool:
        """Are enough of the words and texts there that rules ask for?"""
        if self.beside and self.beside.isdisjoint(texts):
            return False
        return not self.texts.isdisjoint(texts) or self.words.fit(words)


class _Table(msgspec.Struct, frozen=True):
    """What some rules want, by word: for each kind of handler the places of the rules that want a word."""

    readers: tuple[_Reader, ...]
    #: All that any of them looks for: what of it a file holds is found once.
    words: frozenset[str]
    texts: frozenset[str]
    #: Why a file is read at all: words, and what words are not enough to tell.
    reasons: _Needed
    asked: tuple[_Reader, ...]
    asked_texts: frozenset[str]
    names: references.Catalog
    by_word: dict[str, dict[str, tuple[int, ...]]]
    strings: dict[str, tuple[int, ...]]
    numbers: dict[str, tuple[int, ...]]
    imports: dict[str, tuple[int, ...]]


#: The handlers for nodes that are looked up by a word, with the field that names it.
_BY_WORD = {
    "on_attribute": "attributes",
    "on_call": "calls",
    "on_keyword": "keywords",
    "on_definition": "definitions",
}


@cache
def _table(candidates: tuple[type[Rule], ...]) -> _Table:
    wanted = [rule.wants for rule in candidates]
    reading = [rule.wants.reasons() for rule in candidates]
    asked = [wants for wants in reading if wants.beside or wants.strings or wants.texts]
    plain = [words for wants in reading if not wants.beside for words in wants.alternatives()]

    def places(field: str) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for place, wants in enumerate(wanted):
            for word in dict.fromkeys(getattr(wants, field)):
                found.setdefault(word, []).append(place)
        return {word: tuple(rules) for word, rules in found.items()}

    return _Table(
        tuple(map(_Reader.of, wanted)),
        frozenset(word for wants in wanted for words in wants.alternatives() for word in words),
        _texts(wanted),
        _Needed.of(plain),
        tuple(map(_Reader.of, asked)),
        _texts(asked),
        references.catalog(candidates),
        {handler: places(field) for handler, field in _BY_WORD.items()},
        places("strings"),
        places("numbers"),
        places("imports"),
    )


def _texts(wanted: Iterable[Wants]) -> frozenset[str]:
    return frozenset(t for w in wanted for t in (*w.strings, *w.texts, *w.beside))


def interesting(text: Words, candidates: tuple[type[Rule], ...]) -> bool:
    """Does a file hold the words of a rule?"""
    table = _table(candidates)
    words = table.words & text.words
    if table.reasons.fit(words):
        return True
    texts = text.held(table.asked_texts)
    return any(reader.fits(words, texts) for reader in table.asked)


def run(module: Module, candidates: tuple[type[Rule], ...]) -> list[tuple[type[Rule], Found]]:
    """What the rules find, without what is covered by another rule's finding.

    A rule that raises loses what it found in this file, and that is said; the others go on.
    """
    return _Working(module, _table(candidates), candidates).run()


class _Working:
    """The rules at work on one file, and what they have found so far."""

    def __init__(self, module: Module, table: _Table, candidates: tuple[type[Rule], ...]) -> None:
        self._module = module
        self._table = table
        self._text = words_in(module.data)
        words, texts = table.words & self._text.words, self._text.held(table.texts)
        self._rules: dict[int, Rule] = {
            place: candidates[place]()
            for place, reader in enumerate(table.readers)
            if reader.fits(words, texts)
        }
        self._found: dict[type[Rule], list[Found]] = {}
        self._covers: list[tuple[type[Rule], ast.AST]] = []
        #: Nodes inside kept ones where findings are told after all.
        self._open: set[ast.AST] = set()
        self._failed: dict[type[Rule], Found] = {}

    def run(self) -> list[tuple[type[Rule], Found]]:
        module, table, words = self._module, self._table, self._text.words
        index = module.index
        for reference in references.references(module, words, table.names):
            self._call(reference.rules, "on_name", reference.node, reference.name)
        lookups: dict[str, Callable[[str], Iterable[ast.AST]]] = {
            "on_attribute": index.attributes,
            "on_call": index.calls,
            "on_keyword": index.keywords,
            "on_definition": index.definitions,
        }
        for handler, look_up in lookups.items():
            wanted = table.by_word[handler]
            for word in sorted(wanted.keys() & words):
                for node in look_up(word):
                    self._call(wanted[word], handler, node)
        self._constants()
        for alias, name in self._imported() if table.imports else ():
            self._call(_imported_by(table.imports, name), "on_import", alias, name)
        for place in self._rules:
            self._call((place,), "on_module")
        return self._result()

    def _constants(self) -> None:
        index = self._module.index
        told: set[tuple[int, ast.AST]] = set()  # one string may hold several of a rule's texts
        for text, places in self._table.strings.items():
            for string in index.strings(text) if self._text.holds(text) else ():
                for place in places:
                    if (place, string) not in told:
                        told.add((place, string))
                        self._call((place,), "on_string", string)
        for number, places in self._table.numbers.items():
            if self._text.words.issuperset(_WORDS.findall(number)):
                for constant in index.numbers(number):
                    self._call(places, "on_number", constant)

    def _imported(self) -> Iterator[tuple[ast.alias, str]]:
        for statement in self._module.imports:
            for alias in statement.names:
                if isinstance(statement, ast.Import):
                    yield alias, alias.name
                elif statement.module and not statement.level:
                    yield alias, f"{statement.module}.{alias.name}"

    def _call(self, places: Iterable[int], handler: str, *arguments: Any) -> None:
        for place in places:
            rule = self._rules.get(place)
            if rule is None or rule.__class__ in self._failed:
                continue
            kind = rule.__class__
            try:
                for item in getattr(rule, handler)(self._module, *arguments):
                    if isinstance(item, Kept):
                        self._covers.append((kind, item.node))
                        self._open |= item.but
                    else:
                        self._found.setdefault(kind, []).append(item)
                        self._covers += [(kind, node) for node in item.covers]
            except Exception as error:
                line = getattr(arguments[0], "lineno", 1) if arguments else 1
                self._failed[kind] = Found(raised(kind, error, line), None)

    def _result(self) -> list[tuple[type[Rule], Found]]:
        covered: dict[ast.AST, set[type[Rule]]] = {}
        for kind, node in self._covers:
            if kind not in self._failed:
                covered.setdefault(node, set()).add(kind)
        whole = covered.get(self._module.tree, _NOBODY)
        kept: list[tuple[type[Rule], Found]] = []
        for kind, items in self._found.items():
            for item in items if kind not in self._failed else ():
                around, opened = self._around(item.node, covered)
                if opened:
                    kept.append((kind, _unsafe(item)))
                elif kind.uncovered or not around - {kind}:
                    kept.append((kind, item if whole <= {kind} else _unchanged(item)))
        kept = self._reviewed(kept)
        kept += self._rest(kept, covered)
        return [*kept, *((kind, item) for kind, item in self._failed.items())]

    def _reviewed(self, kept: list[tuple[type[Rule], Found]]) -> list[tuple[type[Rule], Found]]:
        """The findings as the rules leave them that look at those of all."""
        for rule in self._rules.values():
            kind = rule.__class__
            if kind.review is Rule.review or kind in self._failed:
                continue
            try:
                changed = rule.review(self._module, [item for _, item in kept])
            except Exception as error:
                self._failed[kind] = Found(raised(kind, error, 1), None)
                continue
            kept = [(one, changed.get(item, item)) for one, item in kept]
        return kept

    def _spans(self, nodes: Iterable[ast.AST]) -> Iterator[Span]:
        module = self._module
        for node in nodes:
            if node is module.tree:
                yield Span(0, len(module.data))
            elif hasattr(node, "lineno") and node not in module.index.lost:
                yield module.span(node)

    def _around(
        self, node: ast.AST | None, covered: dict[ast.AST, set[type[Rule]]]
    ) -> tuple[set[type[Rule]], bool]:
        """The rules that cover a node, and whether what they cover as a whole is open there."""
        if node is None or not covered:
            return _NOBODY, False
        around: set[type[Rule]] = set()
        for above in (node, *self._module.ancestors(node)):
            if above in self._open and not around:
                return around, True
            around |= covered.get(above, _NOBODY)
        return around, False

    def _rest(
        self, found: list[tuple[type[Rule], Found]], covered: Iterable[ast.AST]
    ) -> Iterator[tuple[type[Rule], Found]]:
        """What some rules say of places that nobody has spoken of."""
        asking = [p for p, rule in self._rules.items() if type(rule).on_rest is not Rule.on_rest]
        if not asking:
            return
        told = Told(
            (item.finding for _, item in found), self._spans(covered), self._spans(self._open)
        )
        for place in asking:
            kind = type(self._rules[place])
            before = len(self._found.get(kind, ()))
            self._call((place,), "on_rest", told)
            yield from ((kind, item) for item in self._found.get(kind, ())[before:])


_NOBODY: set[type[Rule]] = set()


def _unchanged(item: Found) -> Found:
    """The finding without its fix: what is said of a file that another rule keeps as it is."""
    if item.finding.fix is None:
        return item
    finding = msgspec.structs.replace(item.finding, fix=None, safety="manual")
    return Found(finding, item.node)


def _unsafe(item: Found) -> Found:
    """The finding with its fix left to a person: what is said where code of the author's own is near."""
    fix = item.finding.fix
    if fix is None or fix.safety != "safe":
        return item
    fix = msgspec.structs.replace(fix, safety="unsafe")
    finding = msgspec.structs.replace(item.finding, fix=fix, safety="unsafe")
    return Found(finding, item.node, item.changes, item.covers)


def _imported_by(wanted: dict[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    """The rules that want a name, or what it lies in."""
    found: dict[int, None] = {}
    while name:
        found.update(dict.fromkeys(wanted.get(name, ())))
        name = name.rpartition(".")[0]
    return tuple(found)


def raised(rule: AnyRule, error: Exception, line: int) -> Finding:
    """The finding that says that a rule failed on a file."""
    message = (
        f"rule {rule.code} ({rule.name}) failed here with {error.__class__.__name__}: {error}; "
        "what it would have found in this file is missing; please report it"
    )
    return diagnostic("HPU004", message, start=(line, 1))
