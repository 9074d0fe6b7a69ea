"""What names mean: dotted names through imports, aliases and assignments."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Generator
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

from hpushim.pycode.places import TRIES, last_name
from hpushim.pycode.scope import Binding, Scope
from hpushim.pycode.tries import NO_MODULE, kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpushim.pycode.index import Index

#: Functions that load a module by the name that they are given.
_LOADERS = frozenset(["importorskip", "import_module", "__import__", "try_import", "LazyLoader"])
#: What people call parts of a package. Unbound where something is star-imported, such a name comes from there.
_USUAL = {"nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"}
#: What says something of a package, or takes one thing from it; with a default, ``getattr`` may give that one.
_LOOKS = ("getattr", "hasattr")
_NOTHING: frozenset[str] = frozenset()
#: A name and the innermost scope around it.
Question: TypeAlias = tuple[Scope, str]
_Search: TypeAlias = Generator[Question, frozenset[str], frozenset[str]]
_MOST = sys.maxsize
_ROUND = "\0"
#: What a name means that is being looked up already: it adds nothing, and stops nothing.
_CYCLE = frozenset((_ROUND,))


class Names:
    """The meanings of the names of one module; each is found once.

    ``ambient`` are packages that an unbound name of the same spelling represents: it came from a star import, or from an
    earlier cell. The first is the one that the rules ask about most.
    """

    def __init__(self, index: Index, ambient: tuple[str, ...]) -> None:
        self._index = index
        self._ambient = frozenset(ambient)
        self.main = ambient[0] if ambient else ""
        self._known: dict[ast.AST, frozenset[str]] = {}
        self._means: dict[tuple[Scope, str], frozenset[str]] = {}
        #: The values that an expression comes from in the end.
        self.origins: Callable[[ast.AST], list[ast.AST]] = lambda _: []
        #: Whether a dotted name that is imported from the package around is a module of its own, as far as the project shows.
        self.is_own: Callable[[str], bool] = lambda _: False

    def qualified(self, node: ast.AST | None) -> str | None:
        """The dotted name that an expression certainly means, or None.

        Follows import aliases and single assignments (``t = torch``; ``ok = torch.cuda.is_available``), and functions that
        load modules by name. A builtin is given as ``builtins.NAME``; names bound in several ways give None
        unless all ways agree.
        """
        names = self.possible(node)
        return next(iter(names)) if len(names) == 1 else None

    def possible(self, node: ast.AST | None) -> frozenset[str]:
        """Every dotted name that an expression may mean (``try: import … except: import …`` gives two).

        Empty when one of the ways is not a dotted name.
        """
        known = self._known.get(node) if node is not None else _NOTHING
        if known is not None:
            return known
        assert node is not None
        self._known[node] = found = _NOTHING  # what comes from itself adds nothing
        kind = node.__class__
        if kind is ast.Name:
            found = self.of_name(self._index.scope(node), node.id)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            bases = self.possible(node.value)  # type: ignore[attr-defined]
            if bases:
                found = frozenset([f"{base}.{node.attr}" for base in bases])  # type: ignore[attr-defined]
        elif kind is ast.Call:
            found = self._made(node)  # type: ignore[arg-type]
        elif kind is not ast.Subscript:
            return found
        if not found and self._hands_on:
            found = self._carried(node)
        self._known[node] = found
        return found

    def _carried(self, node: ast.AST) -> frozenset[str]:
        """What it means by its values, in a file that hands a package on: ``th, nn = load()``, ``self.torch``, ``f(torch)``."""
        names: set[str] = set()
        for origin in self.origins(node):
            if isinstance(origin, ast.Constant) and origin.value is None:
                continue  # `except ImportError: return None`
            meant = self._imported.get(origin) if isinstance(origin, ast.alias) else None
            found = frozenset((meant,)) if meant else self.possible(origin)
            if not found or origin is node:
                return _NOTHING
            names |= found
        return _packages(frozenset(names))

    def _made(self, call: ast.Call) -> frozenset[str]:
        """``torch`` for ``__import__("torch")``, and for ``Lazy()`` of a class whose ``__getattr__`` looks every name up in torch."""
        looked = self._lookups.get(getattr(call.func, "id", ""), ())
        return _loaded(call) or frozenset(name for each in looked for name in self.possible(each))

    @cached_property
    def _lookups(self) -> dict[str, list[ast.expr]]:
        """What the ``__getattr__`` of a class looks names up in, by the class; of those that give nothing else."""
        found: dict[str, list[ast.expr]] = {}
        for owner in self._index.statements(ast.ClassDef):
            for method in owner.body:
                if getattr(method, "name", "") != "__getattr__":
                    continue
                given = [each.value for each in ast.walk(method) if isinstance(each, ast.Return)]
                looked = [each.args[0] for each in given if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "getattr" and len(each.args) == 2]  # fmt: skip
                if len(looked) == len(given):
                    found[owner.name] = looked
        return found

    @cached_property
    def _imported(self) -> dict[ast.AST, str | None]:
        return {each.node: each.qualified for each in self._index.import_bindings}

    @cached_property
    def _hands_on(self) -> bool:
        """Is a package used as a value somewhere, not only for what is in it?"""
        index = self._index
        if any(_loaded(call) & self._ambient for word in _LOADERS for call in index.calls(word)):
            return True
        names = {b.name for b in index.import_bindings if b.qualified in self._ambient}
        return any(
            isinstance(node, ast.Name) and node.id == name and self._is_handed(node)
            for name in names
            for unit in index.holding(_alone(name))
            for node in index.within(unit)
        )

    def _is_handed(self, node: ast.Name) -> bool:
        """Is the name of a package more than the front of another, or what is looked at: ``hasattr(torch, "compile")``?"""
        above = self._index.parent(node)
        if isinstance(above, ast.Call) and above.args[:1] == [node]:
            return last_name(above.func) not in _LOOKS or len(above.args) > 2
        return not isinstance(above, ast.Attribute)

    def may_mean(self, name: str) -> bool:
        """May a name of this spelling mean a dotted name somewhere: is it imported, or given what may be one?"""
        return (
            name in self._ambient
            or hasattr(builtins, name)
            or bool(self._star_imports)
            or any(
                each.kind == "import"
                or isinstance(each.value, (ast.Name, ast.Attribute, ast.Call))
                or (name in _USUAL and isinstance(each.node, ast.Assign))
                for scope in self._index.scopes.values()
                for each in scope.bindings.get(name, ())
            )
        )

    def of_name(self, scope: Scope, name: str) -> frozenset[str]:
        """What ``name`` may mean where ``scope`` is the innermost scope."""
        found = self._means.get((scope, name))
        return self._find((scope, name)) if found is None else found

    def _find(self, first: Question) -> frozenset[str]:
        """Looks up a name and those that it is given by, one after the other: there may be many."""
        waiting: list[tuple[Question, int, _Search]] = []
        #: How many names wait for each that is being looked up, and for the first that was met again.
        opened: dict[int, int] = {}
        cut = _MOST
        question: Question | None = first
        answer: frozenset[str] | None = None
        while True:
            if question is not None:
                answer = self._means.get(question)
                bindings = question[0].lookup(question[1]) if answer is None else []
                key = id(bindings)  # the list lives as long as the index
                if key in opened:
                    cut, answer = min(cut, opened[key]), _CYCLE
                elif bindings:
                    opened[key] = len(waiting)
                    waiting.append((question, key, self._bindings(bindings)))
                elif answer is None:
                    answer = self._means[question] = frozenset((self._unbound(question[1]),))
            if not waiting:
                return self._means[first]
            name, key, search = waiting[-1]
            try:
                question = search.send(answer)  # type: ignore[arg-type]  # None at first
            except StopIteration as found:
                question, answer = None, found.value
                waiting.pop()
                del opened[key]
                if cut >= len(waiting):  # it depends on none of those that wait
                    self._means[name] = frozenset(n for n in answer if not n.startswith(_ROUND))
                    cut = _MOST if cut == len(waiting) else cut

    def _unbound(self, name: str) -> str:
        return name if name in self._ambient else self._starred(name) or f"builtins.{name}"

    def _starred(self, name: str) -> str | None:
        """``torch.cuda`` for ``cuda`` after ``from torch import *``, ``torch.nn`` for ``nn`` after ``from .layers import *``.

        Where nothing else gives the name; of a package of its own only where nothing else is star-imported.
        """
        stars = self._star_imports
        if len(stars) == 1 and stars <= self._ambient and not hasattr(builtins, name):
            return f"{next(iter(stars))}.{name}"
        meant = _USUAL.get(name, "")
        return meant if stars and meant.partition(".")[0] in self._ambient else None

    @cached_property
    def _star_imports(self) -> set[str]:
        return {
            "." * getattr(line, "level", 0) + (getattr(line, "module", "") or "")
            for line in self._index.imports
            if any(alias.name == "*" for alias in line.names)
        }

    def _lent(self, name: str) -> str:
        """``torch`` for ``from .backend import torch``: what a module of the package around has under such a name is it."""
        module, _, last = name.rpartition(".")
        lent = name[0] == "." and module.strip(".") and last in self._ambient
        return last if lent and not self.is_own(name) else name

    def _helped(self, binding: Binding) -> str | None:
        """``torch`` and ``nn`` of ``torch, nn = try_import_torch()``: a package that a function of such a name returns."""
        value = (
            getattr(binding.node, "value", None) if isinstance(binding.node, ast.Assign) else None
        )
        if not isinstance(value, ast.Call) or "import" not in last_name(value.func):
            return None
        if binding.name in self._ambient:
            return binding.name
        meant = _USUAL.get(binding.name, "")
        return meant if meant.partition(".")[0] in self._ambient else None

    def _bindings(self, bindings: list[Binding]) -> _Search:
        """What bindings give a name; yields other names, whose meanings it is sent."""
        names: set[str] = set()
        for binding in bindings:
            if binding.qualified is not None:
                names.add(self._lent(binding.qualified))
                continue
            helped = self._helped(binding)
            if helped is not None:
                names.add(helped)
                continue
            value = binding.value
            if binding.kind in ("def", "class") and self._replaces(binding):
                continue  # `except ImportError: def name(): …`
            if binding.kind != "assign" or value is None:
                return _NOTHING
            if isinstance(value, ast.Constant) and value.value is None:
                continue  # the usual `except ImportError: name = None`
            if isinstance(value, ast.Attribute) and self._is_replaced(value):
                return _NOTHING  # it keeps what the name meant before
            through = yield from self._in_scope(value, self._index.scope(binding.node))
            if not through:
                return _NOTHING
            names |= through
        return frozenset(names)

    def _is_replaced(self, node: ast.Attribute) -> bool:
        """Does the file give an attribute of this name another value: ``torch.cuda.seed = mine``, ``setattr(torch.cuda, "seed", mine)``?"""
        index = self._index
        if any(not isinstance(each.ctx, ast.Load) and ast.unparse(each.value) == ast.unparse(node.value) for each in index.attributes(node.attr)):  # fmt: skip
            return True
        return any(
            isinstance(call.args[1], ast.Constant)
            and call.args[1].value == node.attr
            and ast.unparse(call.args[0]) == ast.unparse(node.value)
            for call in index.calls("setattr")
            if len(call.args) > 2
        )

    def _replaces(self, binding: Binding) -> bool:
        """Is it a function or class in place of one that cannot be imported?"""
        return any(
            binding.node in handler.body
            for kind in TRIES
            for tried in self._index.statements(kind)
            for handler in tried.handlers
            if not NO_MODULE.isdisjoint(kinds(handler)) or _only_imports(tried)
        )

    def _in_scope(self, node: ast.expr, scope: Scope) -> _Search:
        """The same as :meth:`possible` for an expression whose scope is known: no search for it."""
        tail = ""
        while isinstance(node, ast.Attribute):
            tail = f".{node.attr}{tail}"
            node = node.value
        found = _NOTHING
        if isinstance(node, ast.Name):
            found = yield scope, node.id
        elif isinstance(node, ast.Call):
            found = self._made(node)
        return frozenset([f"{name}{tail}" for name in found])


@cache
def _alone(name: str) -> re.Pattern[bytes]:
    """A name with no dot behind it. It comes first in the pattern: other places are then passed over at the speed of memory."""
    word = name.encode()
    return re.compile(rb"%s(?<!\w%s)(?<!import %s)\b(?!\s*\.)" % (word, word, word))


def _packages(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if not name.startswith("builtins."))


def _only_imports(tried: ast.Try) -> bool:
    return all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in tried.body)


def _loaded(call: ast.Call) -> frozenset[str]:
    """``torch`` for ``__import__("torch")`` and ``pytest.importorskip("torch")``."""
    func = call.func
    called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if called not in _LOADERS or not call.args:
        return _NOTHING
    text = call.args[0]
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return frozenset((text.value,))
    return _NOTHING
