"""The Python rules over one module: each is called with the nodes that hold its words."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from hpushim.engine.diagnostics import diagnostic
from hpushim.engine.python.module import Module
from hpushim.engine.rules import references
from hpushim.engine.rules.rule import AnyRule, Found, Kept, Rule
from hpushim.engine.rules.wants import Wants
from hpushim.model import Finding

_WORDS = re.compile(r"[A-Za-z0-9_]+")
_BLANKED = bytes(c if c < 128 and (chr(c).isalnum() or c == 95) else 32 for c in range(256))


def words_of(data: bytes) -> frozenset[str]:
    """The words of a text: runs of ASCII letters, digits and underscores."""
    return frozenset(data.translate(_BLANKED).decode("ascii").split())


class _Reasons(msgspec.Struct, frozen=True):
    """The words for which a file is read at all: one of them, or two of which the first is the same for many."""

    single: frozenset[str]
    pairs: dict[str, frozenset[str]]
    others: tuple[frozenset[str], ...]
    #: What words are not enough to tell.
    asked: tuple[Wants, ...]


@cache
def _reasons(candidates: tuple[type[Rule], ...]) -> _Reasons:
    reading = [rule.wants.reasons() for rule in candidates]
    asked = tuple(wants for wants in reading if wants.beside or wants.strings or wants.texts)
    plain = [words for wants in reading if not wants.beside for words in wants.alternatives()]
    common = Counter(word for words in plain if len(words) == 2 for word in words)
    pairs: dict[str, set[str]] = {}
    for words in plain:
        if len(words) == 2:
            first, second = sorted(words, key=lambda word: -common[word])
            pairs.setdefault(first, set()).add(second)
    return _Reasons(
        frozenset(word for words in plain if len(words) == 1 for word in words),
        {word: frozenset(others) for word, others in pairs.items()},
        tuple(words for words in plain if len(words) > 2),
        asked,
    )


def interesting(data: bytes, words: frozenset[str], candidates: tuple[type[Rule], ...]) -> bool:
    """Does a file hold the words of a rule?"""
    reasons = _reasons(candidates)
    if not reasons.single.isdisjoint(words):
        return True
    for word, others in reasons.pairs.items():
        if word in words and not others.isdisjoint(words):
            return True
    return any(needed <= words for needed in reasons.others) or any(
        _fits(wants, data, words) for wants in reasons.asked
    )


def _fits(wants: Wants, data: bytes, words: frozenset[str]) -> bool:
    """Does a text hold what is wanted?"""
    if wants.beside and not _holds(data, words, wants.beside):
        return False
    if any(needed <= words for needed in wants.alternatives()):
        return True
    return _holds(data, words, (*wants.strings, *wants.texts))


def _holds(data: bytes, words: frozenset[str], texts: Iterable[str]) -> bool:
    return any(text in words or text.encode() in data for text in texts)


def run(module: Module, candidates: tuple[type[Rule], ...]) -> list[tuple[type[Rule], Found]]:
    """What the rules find, without what is covered by another rule's finding.

    A rule that raises loses what it found in this file, and that is said; the others go on.
    """
    words = words_of(module.data)
    working = _Working(module, words)
    active = tuple(rule for rule in candidates if _fits(rule.wants, module.data, words))
    instances = [rule() for rule in active]
    for reference in references.references(module, words, references.catalog(active)):
        for place in reference.rules:
            working.call(instances[place], "on_name", reference.node, reference.name)
    for rule in instances:
        working.serve(rule)
    for rule in instances:
        working.call(rule, "on_module")
    return working.result()


class _Working:
    """The rules at work on one file, and what they have found so far."""

    def __init__(self, module: Module, words: frozenset[str]) -> None:
        self._module = module
        self._words = words
        self._found: dict[type[Rule], list[Found]] = {}
        self._covers: list[tuple[type[Rule], ast.AST]] = []
        self._failed: dict[type[Rule], Found] = {}

    def call(self, rule: Rule, handler: str, *arguments: Any) -> None:
        kind = rule.__class__
        if kind in self._failed:
            return
        method: Callable[..., Iterable[Found | Kept]] = getattr(rule, handler)
        try:
            for item in method(self._module, *arguments):
                if isinstance(item, Kept):
                    self._covers.append((kind, item.node))
                else:
                    self._found.setdefault(kind, []).append(item)
                    self._covers += [(kind, node) for node in item.covers]
        except Exception as error:
            line = getattr(arguments[0], "lineno", 1) if arguments else 1
            self._failed[kind] = Found(raised(kind, error, line), None)

    def serve(self, rule: Rule) -> None:
        """Calls a rule with what holds its words."""
        wants, index, words = rule.wants, self._module.index, self._words
        for word in wants.attributes:
            if word in words:
                for node in index.attributes(word):
                    self.call(rule, "on_attribute", node)
        for word in wants.calls:
            if word in words:
                for call in index.calls(word):
                    self.call(rule, "on_call", call)
        for word in wants.keywords:
            if word in words:
                for keyword in index.keywords(word):
                    self.call(rule, "on_keyword", keyword)
        told: set[ast.Constant] = set()  # one string may hold several of the texts
        for text in wants.strings:
            if text.encode() in self._module.data:
                for string in index.strings(text):
                    if string not in told:
                        told.add(string)
                        self.call(rule, "on_string", string)
        for number in wants.numbers:
            if words.issuperset(_words_in(number)):
                for constant in index.numbers(number):
                    self.call(rule, "on_number", constant)
        for word in wants.definitions:
            for definition in index.definitions(word) if word in words else ():
                self.call(rule, "on_definition", definition)
        if wants.imports:
            for alias, name in self._imported():
                if any(name == wanted or name.startswith(f"{wanted}.") for wanted in wants.imports):
                    self.call(rule, "on_import", alias, name)

    def _imported(self) -> Iterator[tuple[ast.alias, str]]:
        for statement in self._module.imports:
            for alias in statement.names:
                if isinstance(statement, ast.Import):
                    yield alias, alias.name
                elif statement.module and not statement.level:
                    yield alias, f"{statement.module}.{alias.name}"

    def result(self) -> list[tuple[type[Rule], Found]]:
        covered: dict[ast.AST, set[type[Rule]]] = {}
        for kind, node in self._covers:
            if kind not in self._failed:
                covered.setdefault(node, set()).add(kind)
        kept = [
            (kind, item)
            for kind, items in self._found.items()
            if kind not in self._failed
            for item in items
            if not covered or not self._is_covered(kind, item.node, covered)
        ]
        return [*kept, *((kind, item) for kind, item in self._failed.items())]

    def _is_covered(
        self, kind: type[Rule], node: ast.AST | None, covered: dict[ast.AST, set[type[Rule]]]
    ) -> bool:
        if node is None or kind.uncovered:
            return False
        if covered.get(node, _NOBODY) - {kind}:
            return True
        return any(covered.get(above, _NOBODY) - {kind} for above in self._module.ancestors(node))


_NOBODY: set[type[Rule]] = set()


def _words_in(text: str) -> list[str]:
    return _WORDS.findall(text)


def raised(rule: AnyRule, error: Exception, line: int) -> Finding:
    """The finding that says that a rule failed on a file."""
    message = (
        f"rule {rule.code} ({rule.name}) failed here with {error.__class__.__name__}: {error}; "
        "what it would have found in this file is missing; please report it"
    )
    return diagnostic("HPU004", message, start=(line, 1))
