"""The classes of a file: which are torch modules, and which methods the project defines."""

from __future__ import annotations

import abc
import ast
import builtins
import collections
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar, cast

from hpushim.engine.python.module import Module
from hpushim.engine.rules.wants import ProjectFact
from hpushim.pycode.places import FUNCTIONS
from hpushim.pycode.values import Values

from .names import word
from .placement import is_of_torch
from .project_facts import CLASSES, IMMOVABLE, MOVERS, TAKES

T = TypeVar("T")
#: Where the bases are that have no methods of torch's.
_PLAIN = (builtins, collections, collections.abc, typing, abc)
_MODULE_BASES = re.compile(
    r"^(Module|LightningModule|ModuleList|Sequential|PreTrainedModel|\w*Loss)$"
)


def is_module_class(module: Module, node: ast.ClassDef) -> bool:
    """Is the class a torch module, as far as its bases and theirs say? Another framework has a ``Module`` as well."""
    return is_of_torch(module) and names_module(module, node.name)


def names_module(module: Module, name: str) -> bool:
    """Does the project have a class of that name which is a module?"""
    return module.view(bases_of).is_module(name)


def base_words(module: Module, name: str) -> frozenset[str]:
    """The last words of the bases that a class of the project has, and of their bases; empty for other names."""
    return module.view(bases_of).of(name)


class Bases:
    """The bases of classes, by name."""

    def __init__(self, direct: dict[str, frozenset[str]]) -> None:
        self._direct = direct
        self._known: dict[str, frozenset[str]] = {}
        self._beside: dict[frozenset[tuple[str, frozenset[str]]], Bases] = {}

    def of(self, name: str) -> frozenset[str]:
        """The last words of all bases of a class."""
        found = self._known.get(name)
        if found is None:
            bases = set(self._direct.get(name, ()))
            new = list(bases)
            while new:
                more = self._direct.get(new.pop(), frozenset()) - bases
                bases |= more
                new += more
            found = self._known[name] = frozenset(bases)
        return found

    def is_module(self, name: str) -> bool:
        """Is a class of that name a module?"""
        return any(map(_MODULE_BASES.search, self.of(name)))

    def beside(self, own: Mapping[str, set[str]]) -> Bases:
        """Those of a file, which counts before what others say: the same for all files that say nothing else than the project."""
        other = {name: frozenset(bases) for name, bases in own.items() if self._direct.get(name, _NO_BASES) != bases}  # fmt: skip
        if not other:
            return self
        key = frozenset(other.items())
        if key not in self._beside:
            self._beside[key] = Bases(self._direct | other)
        return self._beside[key]


_NO_BASES: frozenset[str] = frozenset()


def _bases(names: Iterable[str]) -> Bases:
    direct: dict[str, set[str]] = {}
    for each in names:
        owner, _, base = each.partition(":")
        direct.setdefault(owner, set()).add(base)
    return Bases({owner: frozenset(bases) for owner, bases in direct.items()})


def bases_of(module: Module) -> Bases:
    """The bases of the project's classes as a file has them; request it as a view."""
    own: dict[str, set[str]] = {}
    for node in module.index.statements(ast.ClassDef):
        named = {(module.qualified(b) or word(b)).rpartition(".")[2] for b in node.bases}
        own.setdefault(node.name, set()).update(named)
    return of_project(module, CLASSES, _bases).beside(own)


def of_project(module: Module, fact: ProjectFact, make: Callable[[Collection[str]], T]) -> T:
    """What is made of all that a fact says of the project, once for all of its files."""
    names = module.project.names(fact.name)
    kept, made = _KEPT.get(make, (None, None))
    if kept is names:
        len(names)  # what records which names were looked up records all of them
    else:
        made = make(names)
        _KEPT[make] = names, made
    return cast("T", made)


#: What was made for the last project.
_KEPT: dict[object, tuple[object, object]] = {}


def enclosing_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method ``node`` is in."""
    return next((a for a in module.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def is_in_module(module: Module, node: ast.AST) -> bool:
    """Is ``node`` in a method of a torch module?"""
    owner = enclosing_class(module, node)
    return owner is not None and is_module_class(module, owner)


def defines_method(module: Module, name: str) -> bool:
    """Does a class of the project, or of this file, define a method of this name?"""
    if name in module.project.methods:
        return True
    return any(
        isinstance(node, ast.FunctionDef)
        and isinstance(module.parent(node), ast.ClassDef)
        and not _is_property(node)
        for node in module.index.definitions(name)
    )


def said(module: Module, fact: ProjectFact) -> set[str]:
    """What a fact says of this file and of the others of the project."""
    return {*module.project.names(fact.name), *(n.decode() for n in fact.find(b"\n" + module.data))}


def is_own_move(module: Module, call: ast.Call) -> bool:
    """Is ``model.cuda()`` a method of the project: is the receiver made by a class that defines one, here or in another file?"""
    if not isinstance(call.func, ast.Attribute) or not defines_method(module, "cuda"):
        return False
    receiver, values = call.func.value, module.view(Values)
    named = values.calls.class_named(receiver)
    classes = values.calls.classes_of(receiver) if named is None else [named]
    owning = said(module, MOVERS)
    if classes:
        return all(values.calls.method(each, "cuda") or owning & base_words(module, each.name) for each in classes)  # fmt: skip
    if _is_used_as(module, receiver, owning):
        return True
    return any(
        isinstance(each, ast.Call)
        and any(owning & {name, *base_words(module, name)} for name in _classes(each.func))
        for each in values.origins(receiver)
    )


def _is_used_as(module: Module, receiver: ast.expr, owning: set[str]) -> bool:
    """Is a method of such a class used of the same name: ``model.predict`` beside ``model.cuda()``?"""
    shown = module.source(receiver)
    around = ast.ClassDef if isinstance(receiver, ast.Attribute) else FUNCTIONS
    place: ast.AST = next((a for a in module.ancestors(receiver) if isinstance(a, around)), module.tree)  # fmt: skip
    return any(
        module.source(use.value) == shown and place in module.ancestors(use)
        for name in owning
        if name.startswith(".")
        for use in module.index.attributes(name[1:])
    )


def _classes(func: ast.expr) -> list[str]:
    """The names that may be the class in ``Reader(…)``, ``readers.Reader(…)``, ``Reader.load(…)``."""
    return [word(func), word(func.value)] if isinstance(func, ast.Attribute) else [word(func)]


def moves_with(module: Module, call: ast.Call) -> bool:
    """May a ``cuda`` method of the project take what a call gives it? One without parameters is given nothing."""
    given = bool(call.args or call.keywords)
    return defines_method(module, "cuda") and (not given or TAKES in said(module, MOVERS))


def immovable(module: Module) -> list[str]:
    """The classes of the project whose objects have a method ``cuda`` and surely no ``to``."""
    found = (
        name.removeprefix(IMMOVABLE) for name in said(module, MOVERS) if name.startswith(IMMOVABLE)
    )
    return sorted(name for name in found if all(any(hasattr(each, base) for each in _PLAIN) for base in base_words(module, name)))  # fmt: skip


def _is_property(node: ast.FunctionDef) -> bool:
    names = [word(decorator) for decorator in node.decorator_list]
    return any(name.endswith("property") or name in ("setter", "getter") for name in names)
