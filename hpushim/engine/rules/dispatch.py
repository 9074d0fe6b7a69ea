"""The Python rules over one module: each is called with the nodes that hold its words."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.python.module import Module
from hpushim.engine.rules import references
from hpushim.engine.rules.claims import Claims, Said
from hpushim.engine.rules.listed import Listed
from hpushim.engine.rules.registry import kept_for, rules
from hpushim.engine.rules.rule import AnyRule, Claim, Found, Rule
from hpushim.engine.rules.wants import Wants
from hpushim.model import Finding
from hpushim.pycode.words import Texts, Words, words_in


class _Choice(msgspec.Struct, frozen=True):
    """Which rules have something to look at in a text, by the words and texts that are there."""

    #: Every word and text that makes a difference.
    words: frozenset[str]
    texts: tuple[str, ...]
    #: The places of the rules that one word, or one text, is enough for.
    by_word: dict[str, tuple[int, ...]]
    by_text: dict[str, tuple[int, ...]]
    #: What needs several words, or one in code, by the rarest of them; with the word that has to be in code.
    by_rarest: dict[str, tuple[tuple[frozenset[str], str, int], ...]]
    #: The texts of which one has to be beside.
    beside: dict[int, frozenset[str]]
    #: What has to match beside some texts.
    shapes: dict[str, str]

    @classmethod
    def of(cls, wanted: Sequence[Wants]) -> _Choice:
        needed = [(*one, at) for at, wants in enumerate(wanted) for one in wants.alternatives()]
        count = Counter(word for words, _, _ in needed for word in words)
        rarest: dict[str, list[tuple[frozenset[str], str, int]]] = {}
        for words, used, at in needed:
            if len(words) > 1 or used:
                word = min(words, key=lambda word: (count[word], word))
                rarest.setdefault(word, []).append((words, used, at))
        return cls(
            frozenset(count),
            tuple(sorted({t for w in wanted for t in (*w.strings, *w.texts, *w.required)})),
            _by_key((min(words), at) for words, used, at in needed if len(words) == 1 and not used),
            _by_key((t, at) for at, w in enumerate(wanted) for t in (*w.strings, *w.texts)),
            {word: tuple(found) for word, found in rarest.items()},
            {at: frozenset(wants.required) for at, wants in enumerate(wanted) if wants.required},
            dict(shape.split(" ", 1) for wants in wanted for shape in wants.shapes),
        )

    def fitting(
        self, words: frozenset[str], texts: frozenset[str], uses: Callable[[str], bool] | None
    ) -> Iterator[int]:
        """The places of the rules, for the words and texts of ours that a file holds; some of them come again.

        ``uses`` answers whether a word is written as code uses it; without it any place will do.
        """
        for key, table in (*((word, self.by_word) for word in words), *((text, self.by_text) for text in texts)):  # fmt: skip
            yield from (at for at in table.get(key, ()) if self._is_beside(at, texts))
        for word in words:
            for needed, used, at in self.by_rarest.get(word, ()):
                if needed <= words and self._is_beside(at, texts) and (uses is None or not used or uses(used)):  # fmt: skip
                    yield at

    def _is_beside(self, at: int, texts: frozenset[str]) -> bool:
        return at not in self.beside or not self.beside[at].isdisjoint(texts)


def _by_key(pairs: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {}
    for key, at in pairs:
        found.setdefault(key, {})[at] = None
    return {key: tuple(rules) for key, rules in found.items()}


class _Table(msgspec.Struct, frozen=True):
    """What some rules want, by word: for each kind of handler the places of the rules that want a word."""

    #: The rules that have something to look at, and those for which a file is read at all.
    looking: _Choice
    reading: _Choice
    names: references.Catalog
    by_word: dict[str, dict[str, tuple[int, ...]]]
    #: The words of all of these, and the last ones of the names.
    words: frozenset[str]
    strings: dict[str, tuple[int, ...]]
    numbers: dict[str, tuple[int, ...]]
    imports: dict[str, tuple[int, ...]]
    #: The rules that look at every module.
    whole: tuple[int, ...]


#: The handlers for nodes that are looked up by a word: the field of a rule's wants that names it, and the question to the index.
_BY_WORD = {
    "on_attribute": "attributes",
    "on_call": "calls",
    "on_keyword": "keywords",
    "on_definition": "definitions",
}


@cache
def _table(candidates: tuple[Listed, ...]) -> _Table:
    """Worked out once for the rules that there are, and kept."""
    if candidates is not rules():
        return _made(candidates)
    kept = kept_for("words")
    with suppress(msgspec.DecodeError):
        if data := kept.read():
            return msgspec.msgpack.decode(data, type=_Table)
    table = _made(candidates)
    kept.write(msgspec.msgpack.encode(table))
    return table


@cache
def texts(candidates: tuple[Listed, ...]) -> Texts:
    """All pieces of text that some rules look for, in a file or in a project: found together."""
    wanted = {text for rule in candidates for text in rule.wants.project}
    return Texts(wanted.union(_table(candidates).looking.texts))


def _made(candidates: tuple[Listed, ...]) -> _Table:
    wanted = [rule.wants for rule in candidates]

    def places(field: str) -> dict[str, tuple[int, ...]]:
        return _by_key((word, at) for at, w in enumerate(wanted) for word in getattr(w, field))

    by_word = {handler: places(field) for handler, field in _BY_WORD.items()}
    names = references.catalog(candidates)
    return _Table(
        _Choice.of(wanted),
        _Choice.of([rule.reasons for rule in candidates]),
        names,
        by_word,
        frozenset(names.by_word).union(*by_word.values()),
        places("strings"),
        places("numbers"),
        places("imports"),
        tuple(p for p, rule in enumerate(candidates) if rule.whole),
    )


def interesting(text: Words, candidates: tuple[Listed, ...]) -> bool:
    """Does a file hold the words of a rule?"""
    reading = _table(candidates).reading
    words = reading.words & text.words
    held = texts(candidates).held(text)
    held -= {
        each for each in held & reading.shapes.keys() if not text.matches(reading.shapes[each])
    }
    return any(True for _ in reading.fitting(words, held, text.uses))


def run(module: Module, candidates: tuple[Listed, ...]) -> list[tuple[type[Rule], Found]]:
    """What the rules find, without what lies in another rule's claim.

    A rule that raises loses what it found in this file, and that is said; the others go on.
    """
    return _Working(module, _table(candidates), candidates).run()


class _Working:
    """The rules at work on one file, and what they have found so far."""

    def __init__(self, module: Module, table: _Table, candidates: tuple[Listed, ...]) -> None:
        self._module = module
        self._table = table
        self._text = words_in(module.data)
        looking = table.looking
        self._held = texts(candidates).held(self._text)
        fitting = sorted({*looking.fitting(looking.words & self._text.words, self._held, None)})
        self._rules: dict[int, Rule] = {place: candidates[place].load()() for place in fitting}
        for rule in self._rules.values():
            rule.module = module
        self._found: dict[type[Rule], list[Found]] = {}
        self._claims: list[tuple[type[Rule], Claim]] = []
        self._failed: dict[type[Rule], Found] = {}

    def run(self) -> list[tuple[type[Rule], Found]]:
        module, table = self._module, self._table
        index = module.index
        ours = sorted(table.words & self._text.words)
        words = self._wanted(ours, table.names.by_word)
        for reference in references.references(module, words, table.names):
            self._call(reference.rules, "on_name", reference.node, reference.name)
        for handler, field in _BY_WORD.items():
            wanted, look_up = table.by_word[handler], getattr(index, field)
            for word in self._wanted(ours, wanted):
                for node in look_up(word):
                    self._call(wanted[word], handler, node)
        self._constants()
        for alias, name in self._imported() if table.imports else ():
            self._call(_imported_by(table.imports, name), "on_import", alias, name)
        self._call(table.whole, "on_module")
        return self._result()

    def _wanted(self, words: Iterable[str], wanted: dict[str, tuple[int, ...]]) -> list[str]:
        """The words that a rule at work wants: those of the others are not looked up."""
        return [word for word in words if self._works(wanted.get(word, ()))]

    def _works(self, places: tuple[int, ...]) -> bool:
        """Does one of these rules have something to look at in the file?"""
        return not self._rules.keys().isdisjoint(places)

    def _constants(self) -> None:
        index = self._module.index
        reported: set[tuple[int, ast.AST]] = set()  # one string may hold several of a rule's texts
        for text, places in self._table.strings.items():
            for string in index.strings(text) if text in self._held and self._works(places) else ():
                for place in places:
                    if (place, string) not in reported:
                        reported.add((place, string))
                        self._call((place,), "on_string", string)
        for number, places in self._table.numbers.items():
            for constant in index.numbers(number) if self._works(places) else ():
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
                    if isinstance(item, Claim):
                        self._claims.append((kind, item))
                    else:
                        self._found.setdefault(kind, []).append(item)
                        self._claims += [(kind, Claim(node)) for node in item.claims]
            except Exception as error:
                line = getattr(arguments[0], "lineno", 1) if arguments else 1
                self._failed[kind] = Found(raised(kind, error, line), None)

    def _result(self) -> list[tuple[type[Rule], Found]]:
        """What is left of the findings when the claims are settled, and what the rules finish with."""
        made = [claim for claim in self._claims if claim[0] not in self._failed]
        claims = Claims.of(self._module, made)
        kept = [
            (kind, settled)
            for kind, items in self._found.items()
            if kind not in self._failed
            for item in items
            if (settled := _settled(item, kind, claims)) is not None
        ]
        for kind, rule in self._finishing():
            found = [item for _, item in kept]
            said = Said(self._module, [item.finding for item in found], claims)
            try:
                finished = list(rule.finish(self._module, said, found))
            except Exception as error:
                self._failed[kind] = Found(raised(kind, error, 1), None)
                continue
            changed = dict(item for item in finished if isinstance(item, tuple))
            kept = [(one, changed.get(item, item)) for one, item in kept]
            kept += [(kind, _weakened(item, kind, claims)) for item in finished if isinstance(item, Found)]  # fmt: skip
        return [*kept, *((kind, item) for kind, item in self._failed.items())]

    def _finishing(self) -> list[tuple[type[Rule], Rule]]:
        """Those that finish, the ones that report what the others leave last."""
        rules = ((type(rule), rule) for rule in self._rules.values())
        finishing = [
            (kind, rule)
            for kind, rule in rules
            if kind.finish is not Rule.finish and kind not in self._failed
        ]
        return sorted(finishing, key=lambda each: -each[0].strength)


def _weakened(item: Found, kind: type[Rule], claims: Claims) -> Found:
    """What the claims leave of the fix of what a rule finishes with."""
    return (_settled(item, kind, claims) or item.with_fix(None)) if item.finding.fix else item


def _settled(item: Found, kind: type[Rule], claims: Claims) -> Found | None:
    """What the claims of the other rules leave of a finding."""
    verdict = claims.assess(item.finding.span, kind, item.strength)
    if verdict == "drop":
        return None
    if verdict == "unsafe":
        return item.unsafe()
    return item.with_fix(None) if verdict == "manual" and item.finding.fix else item


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
        f"rule {rule.code} ({rule.codes[rule.code].name}) failed with "
        f"{error.__class__.__name__}: {error}; its findings in this file are missing; please "
        "report it"
    )
    return diagnostic("HPU004", message, start=(line, 1))
