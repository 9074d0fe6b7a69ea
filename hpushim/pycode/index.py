"""What is where in a module, looked up by word.

Statements are walked once, for what they bind. Their expressions are walked only when somebody requests a word
that is in them, which in most files is a small part::

    index.names("device")        every `device`
    index.attributes("cuda")     every `….cuda`
    index.calls("to")            every `to(…)` and `….to(…)`
    index.keywords("device")     every `device=…` in a call
    index.strings("nccl")        every string that holds the text

A *unit* is what is walked at once: a simple statement, the header of a compound one, of a handler or a case.
"""

from __future__ import annotations

import ast
import bisect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hpushim.pycode.binders import BINDERS
from hpushim.pycode.literals import place
from hpushim.pycode.scope import (
    COMPREHENSIONS,
    Binding,
    Scope,
    bind_parameters,
    bind_target,
)
from hpushim.pycode.steps import Steps
from hpushim.pycode.walk import starts_at, walk
from hpushim.pycode.words import Use, words_in

N = TypeVar("N", bound=ast.AST)
#: From so many words on they are looked up in a table, which costs as much to make as this many searches.
_MANY = 12


class Index:
    """The statements, scopes and words of one module."""

    def __init__(
        self, tree: ast.Module, data: bytes, line_starts: Sequence[int], steps: Steps
    ) -> None:
        self.tree = tree
        self._steps = steps
        self.data = data
        self.root = Scope(tree, None)
        #: The scope that a node opens.
        self.scopes: dict[ast.AST, Scope] = {tree: self.root}
        self.imports: list[ast.Import | ast.ImportFrom] = []
        #: What they bind, in any scope.
        self.import_bindings: list[Binding] = []
        self._lines = line_starts
        self._text = words_in(data)
        self._parents: dict[ast.AST, ast.AST] = {}
        #: The scope of each unit, and of the names in those that were walked.
        self._scope_of: dict[ast.AST, Scope] = {}
        #: Every statement, handler and case, in source order.
        self.units: list[ast.AST] = []
        self._starts: list[int] = []
        self._statements: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
        #: What is assigned to attributes, by their names.
        self.stores: defaultdict[str, list[ast.expr]] = defaultdict(list)
        self._definitions: dict[str, list[ast.AST]] = {}
        self._opened: set[ast.AST] = set()
        #: What has been requested, and as what.
        self._words: set[tuple[bytes, Use]] = set()
        self._units_by_word: defaultdict[bytes, list[int]] | None = None
        self._whole = False
        self._names: defaultdict[str, list[ast.Name]] = defaultdict(list)
        self._attributes: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
        self._keywords: defaultdict[str | None, list[ast.keyword]] = defaultdict(list)
        self._calls: defaultdict[str, list[ast.Call]] = defaultdict(list)
        self._strings: list[ast.Constant] = []
        #: Those that hold a text, with how many there were when it was requested last.
        self._holding: dict[str, tuple[int, list[ast.Constant]]] = {}
        #: How many nodes of one of the lists above are in order.
        self._in_order: dict[int, int] = {}
        self._numbers: list[ast.Constant] = []
        self._yields: list[ast.Yield | ast.YieldFrom] = []
        #: Nodes inside an f-string whose place is not known (before Python 3.12, and then rarely).
        self.lost: set[ast.AST] = set()
        self._skeleton()
        if not data:
            self._open_all()  # a tree alone: there are no words to look for
        elif b":=" in data:
            self._open(b":=", "name", whole=False)  # it binds names

    # -- by word ----------------------------------------------------------------------------

    def names(self, word: str) -> list[ast.Name]:
        """Every name of this spelling, in source order."""
        self._want(word)
        return self._ordered(self._names[word])

    def attributes(self, word: str) -> list[ast.Attribute]:
        """Every ``….word``."""
        self._want(word, use="attribute")
        return self._ordered(self._attributes[word])

    def keywords(self, word: str) -> list[ast.keyword]:
        """Every ``word=…`` in a call or in the header of a class."""
        self._want(word, use="keyword")
        return self._ordered(self._keywords[word])

    def calls(self, word: str) -> list[ast.Call]:
        """Every call of ``word`` and of ``….word``."""
        self._want(word, use="call")
        return self._ordered(self._calls[word])

    def strings(self, text: str) -> list[ast.Constant]:
        """Every string constant that holds ``text``, parts of f-strings among them."""
        self._want(text, use="string")
        strings = self._strings
        count, found = self._holding.get(text, (0, []))
        if count != len(strings):
            new = [node for node in strings[count:] if text in node.value]  # type: ignore[operator]
            found = sorted([*found, *new], key=starts_at) if new else found
            self._holding[text] = len(strings), found
        self._steps.spend(len(found))
        return found

    def numbers(self, spelling: str) -> list[ast.Constant]:
        """Every number written like this."""
        self._want(spelling)
        found = [node for node in self._numbers if node.value == float(spelling)]
        return sorted(found, key=starts_at)

    def yields(self) -> list[ast.Yield | ast.YieldFrom]:
        """Every ``yield`` and ``yield from``."""
        self._want("yield")
        return self._ordered(self._yields)

    def spellings(self, part: str) -> list[str]:
        """Every word that holds ``part``, in small letters or large ones; of a tree alone, every name and attribute."""
        words = self._text.words if self.data else {*self._names, *self._attributes}
        return sorted(word for word in words if part in word.lower())

    def statements(self, kind: type[N]) -> list[N]:
        """Every statement, handler or case of exactly this class."""
        return self._statements.get(kind, [])

    def definitions(self, name: str) -> list[Any]:
        """Every function and class of this name."""
        if not self._definitions:
            kinds: tuple[Any, ...] = _DEFINITIONS
            for kind in kinds:
                for node in self.statements(kind):
                    self._definitions.setdefault(node.name, []).append(node)
        return self._definitions.get(name, [])

    def stored(self, attribute: str) -> list[ast.expr]:
        """What the module assigns to attributes of this name, on whatever object."""
        return self.stores.get(attribute, [])

    def _ordered(self, nodes: list[Any]) -> list[Any]:
        """The nodes in source order; units are walked in the order in which they are requested."""
        self._steps.spend(len(nodes))
        if len(nodes) > 1 and self._in_order.get(id(nodes)) != len(nodes):
            nodes.sort(key=starts_at)
            self._in_order[id(nodes)] = len(nodes)
        return nodes

    def holding(self, pattern: re.Pattern[bytes]) -> list[ast.AST]:
        """The units in whose text a pattern is found, in source order."""
        starts, found, at = self._starts, [], 0
        while (match := pattern.search(self.data, at)) is not None:
            following = bisect.bisect_right(starts, match.start())
            if following:
                found.append(self.units[following - 1])
            if following == len(starts):
                break
            at = starts[following]
        return found

    def within(self, unit: ast.AST) -> list[ast.AST]:
        """A unit and the nodes of its expressions, those outside first; nothing is kept of the walk."""
        found = [unit]
        for name in _HEADER_OF[unit.__class__]:
            value = getattr(unit, name, None)
            for child in value if value.__class__ is list else (value,):
                if child is not None:
                    found += walk(child)
        return found

    # -- structure --------------------------------------------------------------------------

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds ``node``; None for the module."""
        found = self._parents.get(node)
        if found is None and node is not self.tree:
            self._reach(node)
            found = self._parents.get(node)
        return found

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated."""
        known = self._scope_of.get(node)
        if known is not None:
            return known
        child = node
        above = self.parent(node)
        while above is not None:
            inner = self.scopes.get(above)
            if inner is not None and _evaluated_inside(above, child):
                return inner
            child, above = above, self.parent(above)
        return self.root

    def around(self, offset: int) -> list[ast.AST]:
        """The statement, handler or case at a place, and those around it, outwards."""
        at = bisect.bisect_right(self._starts, offset)
        found: list[ast.AST] = []
        node = self.units[at - 1] if at else None
        while node is not None and node is not self.tree:
            found.append(node)
            node = self._parents.get(node)
        return found

    # -- the walk over statements -----------------------------------------------------------

    def _skeleton(self) -> None:
        parents, units, starts = self._parents, self.units, self._starts
        scope_of, statements, lines = self._scope_of, self._statements, self._lines
        scope = self.root
        stack: list[Any] = self.tree.body[::-1]
        parents.update(dict.fromkeys(self.tree.body, self.tree))
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is Scope:
                scope = node
                continue
            scope_of[node] = scope
            statements[kind].append(node)
            first = _first(node) if kind in _LATE else node
            units.append(node)
            starts.append(lines[first.lineno - 1] + first.col_offset)
            bind = BINDERS.get(kind)
            if bind is not None:
                bind(self, node, scope)
            fields = _BLOCKS_OF[kind]
            if fields:
                inner = self.scopes.get(node)
                if inner is not None:
                    stack.append(scope)
                for name in fields:  # the last first: a stack turns them round
                    for child in getattr(node, name)[::-1]:
                        parents[child] = node
                        stack.append(child)
                if inner is not None:
                    stack.append(inner)

    # -- the walk over expressions ----------------------------------------------------------

    def _want(self, word: str, *, use: Use = "name") -> None:
        """Walks every unit that the word is in, where it may be what it is wanted as."""
        if self._whole:
            return
        if not word.isascii():
            self._open_all()  # Python normalises such names
            return
        whole = use != "string" and word.isidentifier()
        if (whole and word not in self._text.words) or (not whole and use not in ("string", "name")):  # fmt: skip
            return
        written = word.encode()
        if (written, use) in self._words or (whole and (written, "name") in self._words):
            return
        self._words.add((written, use))
        if whole and len(self._words) > _MANY:
            self._open_by_table(written, use)
        else:
            self._open(written, use, whole=whole)

    def _open(self, word: bytes, use: Use, *, whole: bool) -> None:
        """Walks the units that hold these bytes, as a whole word or anywhere."""
        # Between spaces, where all else is blanked: what only ends or begins with the word is passed over as fast as memory is read.
        find = self._text.blanked.find if whole else self.data.find
        sought = b" %b " % word if whole else word
        starts, units, opened = self._starts, self.units, self._opened
        at = find(sought)
        while (
            at >= 0
        ):  # of the blanked text, which begins with a space more, this is the place of the word itself
            following = bisect.bisect_right(starts, at)
            unit = units[following - 1] if following else None
            if unit is not None and unit not in opened and (use == "name" or self._may_be(word, use, following - 1, at)):  # fmt: skip
                self._walk(unit)
            if following == len(starts):
                return
            at = find(sought, starts[following])  # the rest of the unit is walked now

    def _open_by_table(self, word: bytes, use: Use) -> None:
        """The same for a whole word, by a table of the words in each unit: a search for each goes through all of the text."""
        table, units, opened = self._units_by_word, self.units, self._opened
        if table is None:
            table = self._units_by_word = defaultdict(list)
            blanked = self._text.blanked
            ends = [*self._starts[1:], len(blanked)]
            for number, (start, end) in enumerate(zip(self._starts, ends, strict=True)):
                if units[number] not in opened:
                    for each in set(blanked[start + 1 : end + 1].split()):
                        table[each].append(number)
        for number in table.get(word, ()):
            if units[number] not in opened and (
                use == "name" or self._may_be(word, use, number, None)
            ):
                self._walk(units[number])

    def _may_be(self, word: bytes, use: Use, number: int, at: int | None) -> bool:
        """May a word be what it is wanted as, at a place in a unit or behind it?"""
        starts = self._starts
        end = starts[number + 1] if number + 1 < len(starts) else len(self.data)
        return self._text.may_be(word, use, starts[number], end, at)

    def _open_all(self) -> None:
        if not self._whole:
            for unit in self.units:
                self._walk(unit)
            self._whole = True

    def _reach(self, node: ast.AST) -> None:
        """Walks the unit that ``node`` is in."""
        placed = next((part for part in walk(node) if hasattr(part, "lineno")), None)
        if placed is not None:
            offset = self._lines[placed.lineno - 1] + placed.col_offset  # type: ignore[attr-defined]
            at = bisect.bisect_right(self._starts, offset) - 1
            if at >= 0:
                self._walk(self.units[at])
        if node not in self._parents:
            self._open_all()

    def _walk(self, unit: ast.AST) -> None:
        """Takes the expressions of one unit into the index."""
        if unit in self._opened:
            return
        self._opened.add(unit)
        parents, scope_of = self._parents, self._scope_of
        names, attributes, keywords = self._names, self._attributes, self._keywords
        calls, strings = self._calls, self._strings
        formatted: list[ast.JoinedStr] = []
        scope = scope_of[unit]
        stack: list[Any] = []
        push, pop = stack.append, stack.pop
        self._push(unit, _HEADER_OF[unit.__class__], stack)
        while stack:
            node = pop()
            kind = node.__class__
            if kind is ast.Name:
                scope_of[node] = scope
                names[node.id].append(node)
            elif kind is ast.Attribute:
                attributes[node.attr].append(node)
                parents[node.value] = node
                push(node.value)
            elif kind is ast.Constant:
                if node.value.__class__ is str:
                    strings.append(node)
                elif node.value.__class__ in _NUMBERS:
                    self._numbers.append(node)
            elif kind is ast.Call:
                func = node.func
                called = func.__class__
                if called is ast.Attribute:
                    calls[func.attr].append(node)
                elif called is ast.Name:
                    calls[func.id].append(node)
                for child in node.keywords[::-1]:
                    parents[child] = node
                    push(child)
                for child in node.args[::-1]:
                    parents[child] = node
                    push(child)
                parents[func] = node
                push(func)
            elif kind is ast.keyword:
                keywords[node.arg].append(node)
                parents[node.value] = node
                push(node.value)
            elif kind is Scope:
                scope = node
            elif kind in _OPENING:
                inner = self.scopes[node] = Scope(node, scope)
                push(scope)
                self._push(node, _INSIDE_OF[kind], stack)
                push(inner)
                if kind is ast.Lambda:
                    bind_parameters(node.args, inner)
                    self._push(node, ("args",), stack)
            elif kind not in _LEAVES:
                if kind is ast.NamedExpr:
                    bind_target(node.target, node.value, _outside(scope), node, "assign")
                elif kind is ast.comprehension:
                    bind_target(node.target, node.iter, scope, node, "for")
                elif kind is ast.JoinedStr:
                    formatted.append(node)
                elif kind is ast.Yield or kind is ast.YieldFrom:
                    self._yields.append(node)
                self._push(node, _HEADER_OF[kind], stack)
        if formatted and self.data and sys.version_info < (3, 12):
            self.lost |= place(self.data, self._lines, formatted)

    def _push(self, node: Any, fields: tuple[str, ...], stack: list[Any]) -> None:
        """Puts the children of a node in some fields on the stack, the last first."""
        parents = self._parents
        for name in fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                for child in value[::-1]:
                    if child is not None:
                        parents[child] = node
                        stack.append(child)
            elif value is not None:
                parents[value] = node
                stack.append(value)


def _outside(scope: Scope) -> Scope:
    """The scope that ``:=`` binds in: that of the function around comprehensions."""
    while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
        scope = scope.parent
    return scope


def _first(node: Any) -> Any:
    """The node that a unit starts with where its own place comes later, or is not given."""
    if isinstance(node, ast.match_case):
        return node.pattern
    return node.decorator_list[0] if node.decorator_list else node


def _evaluated_inside(owner: ast.AST, child: ast.AST) -> bool:
    """Is a child of a node that opens a scope evaluated in that scope?"""
    if isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return isinstance(child, ast.stmt)
    return not isinstance(owner, ast.Lambda) or child is owner.body


# -- what units are made of -----------------------------------------------------------------

_NUMBERS = (int, float)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Units that do not begin where the parser says.
_LATE = frozenset([*_DEFINITIONS, ast.match_case])
_OPENING = frozenset([ast.Lambda, *COMPREHENSIONS])
#: Without nodes below them that anybody requests.
_LEAVES = frozenset([ast.alias, ast.MatchSingleton])
_CONTEXTS = frozenset(["ctx", "op", "ops", "type_ignores"])
#: What holds statements, handlers or cases.
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_INSIDE_OF: dict[type, tuple[str, ...]] = {
    ast.Lambda: ("body",),
    ast.ListComp: ("generators", "elt"),
    ast.SetComp: ("generators", "elt"),
    ast.GeneratorExp: ("generators", "elt"),
    ast.DictComp: ("generators", "value", "key"),
}


class _PerClass(dict[type, tuple[str, ...]]):
    """Fields of the classes of nodes, found when first requested; the last first."""

    def __init__(self, of: Callable[[Any], tuple[str, ...]]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, kind: type) -> tuple[str, ...]:
        return self.setdefault(kind, tuple(reversed(self._of(kind))))


def _blocks_of(kind: Any) -> tuple[str, ...]:
    if not issubclass(kind, (ast.stmt, ast.ExceptHandler, ast.match_case, ast.Module)):
        return ()
    return tuple(name for name in _BLOCKS if name in kind._fields)


def _header_of(kind: Any) -> tuple[str, ...]:
    """The fields that hold expressions, patterns, arguments or items."""
    left_out = {*_blocks_of(kind), *_CONTEXTS, *_TEXTS}
    if kind is not getattr(ast, "TypeAlias", None):
        left_out.add("name")
    if kind in (ast.Global, ast.Nonlocal):
        left_out.add("names")
    return tuple(name for name in kind._fields if name not in left_out)


#: Fields that hold text or numbers.
_TEXTS = frozenset(
    [
        *("attr", "id", "arg", "module", "level", "type_comment", "simple", "is_async"),
        *("conversion", "kind", "rest", "kwd_attrs", "tag", "str"),
    ]
)
_BLOCKS_OF = _PerClass(_blocks_of)
_HEADER_OF = _PerClass(_header_of)
