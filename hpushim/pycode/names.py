"""What names mean: dotted names through imports, aliases and assignments."""

from __future__ import annotations

import ast
import builtins
from functools import cached_property
from typing import TYPE_CHECKING

from hpushim.pycode.places import last_name
from hpushim.pycode.scope import Binding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpushim.pycode.index import Index

#: Functions that load a module by the name that they are given.
_LOADERS = frozenset(["importorskip", "import_module", "__import__", "try_import", "LazyLoader"])
#: What people call parts of a package. Unbound where something is star-imported, such a name comes from there.
_USUAL = {"nn": "torch.nn", "F": "torch.nn.functional", "optim": "torch.optim"}
_MISSING = ("ImportError", "ModuleNotFoundError")
_NOTHING: frozenset[str] = frozenset()
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
        self._open: set[int] = set()
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
        if isinstance(node, ast.Name):
            return self.of_name(self._index.scope(node), node.id)
        if isinstance(node, ast.Attribute):
            return self._chain(node, None)
        if isinstance(node, ast.Call):
            return self._called(node, None)
        return _NOTHING

    def may_mean(self, name: str) -> bool:
        """May a name of this spelling mean a dotted name somewhere?"""
        return (
            name in self._given_names
            or name in self._ambient
            or hasattr(builtins, name)
            or bool(self._star_imports)
        )

    @cached_property
    def _given_names(self) -> set[str]:
        """The names that are imported, or given what may be a dotted name."""
        return {
            name
            for scope in self._index.scopes.values()
            for name, bindings in scope.bindings.items()
            for each in bindings
            if each.kind == "import"
            or isinstance(each.value, (ast.Name, ast.Attribute, ast.Call))
            or (name in _USUAL and isinstance(each.node, ast.Assign))
        }

    def _called(self, call: ast.Call, scope: Scope | None) -> frozenset[str]:
        """``torch`` for ``__import__("torch")``, and for ``get_torch()``, a function of the file that ends with ``return torch``."""
        loaded = _loaded(call)
        if loaded or not isinstance(call.func, ast.Name):
            return loaded
        bindings = (scope or self._index.scope(call)).lookup(call.func.id)
        function = bindings[0].node if len(bindings) == 1 else None
        last = function.body[-1] if isinstance(function, ast.FunctionDef) else None
        value = last.value if isinstance(last, ast.Return) else None
        if function is None or not isinstance(value, ast.Name):
            return _NOTHING
        return frozenset(name for name in self.of_name(self._index.scopes[function], value.id) if not name.startswith("builtins."))  # fmt: skip

    def _chain(self, node: ast.Attribute, scope: Scope | None) -> frozenset[str]:
        known = self._known.get(node)
        if known is None:
            inner = node.value
            if scope is None:
                bases = self.possible(inner)
            else:
                bases = self._in_scope(inner, scope)
            known = frozenset([f"{base}.{node.attr}" for base in bases]) if bases else _NOTHING
            if not self._open:
                self._known[node] = known
        return known

    def of_name(self, scope: Scope, name: str) -> frozenset[str]:
        """What ``name`` may mean where ``scope`` is the innermost scope."""
        asked = (scope, name)
        known = self._means.get(asked)
        if known is not None:
            return known
        bindings = scope.lookup(name)
        if not bindings:
            meant = name if name in self._ambient else self._starred(name) or f"builtins.{name}"
            found = self._means[asked] = frozenset((meant,))
            return found
        key = id(bindings)  # the list lives as long as the index
        if key in self._open:
            return _CYCLE
        self._open.add(key)
        try:
            found = self._bindings(bindings)
        finally:
            self._open.discard(key)
        if not self._open:
            # Only now: in the midst of another name's search a circle may cut this one short.
            found = frozenset(name for name in found if not name.startswith(_ROUND))
            self._means[asked] = found
        return found

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

    def _bindings(self, bindings: list[Binding]) -> frozenset[str]:
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
            if binding.kind in ("def", "class") and self._stands_in(binding):
                continue  # `except ImportError: def name(): …`
            if binding.kind != "assign" or value is None:
                return _NOTHING
            if isinstance(value, ast.Constant) and value.value is None:
                continue  # the usual `except ImportError: name = None`
            through = self._in_scope(value, self._index.scope(binding.node))
            if not through:
                return _NOTHING
            names |= through
        return frozenset(names)

    def _stands_in(self, binding: Binding) -> bool:
        """Is it a function or class in place of one that cannot be imported?"""
        return any(
            binding.node in handler.body
            for tried in self._index.statements(ast.Try)
            for handler in tried.handlers
            if last_name(handler.type) in _MISSING or _only_imports(tried)
        )

    def _in_scope(self, node: ast.expr, scope: Scope) -> frozenset[str]:
        """The same as :meth:`possible` for an expression whose scope is known: no search for it."""
        if isinstance(node, ast.Name):
            return self.of_name(scope, node.id)
        if isinstance(node, ast.Attribute):
            return self._chain(node, scope)
        return self._called(node, scope) if isinstance(node, ast.Call) else _NOTHING


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
