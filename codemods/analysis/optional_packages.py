"""Packages that the code may do without: which imports say so, and which uses forget it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.pycode.places import TRIES
from hpushim.pycode.tries import ANY_ERROR, NO_MODULE, around, kinds
from hpushim.pycode.walk import walk

from .names import word

_NOTES = (ast.Assign, ast.AnnAssign)
_REPLACES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OWNERS = (*_FUNCTIONS, ast.ClassDef)
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)
#: What makes code conditional. Whatever the condition is, the package may be a part of it.
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.While, *TRIES, ast.Lambda, ast.Match)
#: Methods that nobody has to name.
_BY_ITSELF = ("__init__", "__post_init__", "__call__", "forward", "training_step", "setup")


def optional(module: Module, node: ast.AST) -> bool:
    """Does the code catch that the package is not there, and note it, or take another: ``except ImportError: flash = None``?"""
    above = next(around(module, node, _OWNERS), None)
    if above is None:
        return False
    noted = any(isinstance(each, _NOTES) for each in (*above.body, *above.orelse))
    package = package_of(module, node)
    return any(_goes_on(handler, noted=noted) and not _needs(handler, package) for handler in above.handlers)  # fmt: skip


def unguarded(module: Module, alias: ast.alias) -> ast.expr | None:
    """The first use of what an optional import binds that runs whether the package is there or not.

    A use under any condition is none; neither is one in a function or a class that nobody in this file uses, for its users may ask.
    """
    return next((use for use in _later(module, alias) if _runs(module, use, set())), None)


def unnoted(module: Module, alias: ast.alias) -> ast.expr | None:
    """The first use in a function, under no condition, of an import for which its callers cannot ask: its ``except`` says nothing, or
    sets what no other file imports and other functions of this file check themselves.
    """
    above = next(around(module, alias, _OWNERS), None)
    if above is None or guarded(module, above):
        return None
    said = [each for handler in above.handlers for each in handler.body if not isinstance(each, ast.Pass)]  # fmt: skip
    uses = [*_later(module, alias)]
    if (said and not _is_checked_inside(module, said, uses)) or (above.orelse and not said):
        return None
    return next((use for use in uses if _runs(module, use, set(), called=True) and (not said or _is_free(module, use))), None)  # fmt: skip


def _is_checked_inside(module: Module, said: list[ast.stmt], uses: list[ast.Name]) -> bool:
    """Does a function that uses a package check what its ``except`` has set, and no other file do so?"""
    flags = {word(target) for each in said if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) for target in each.targets}  # fmt: skip
    inside = {module.function(use) for use in uses} - {None}
    checked = any(module.function(use) in inside for name in flags for use in module.index.names(name) if not isinstance(module.parent(use), ast.Attribute))  # fmt: skip
    return checked and flags.isdisjoint(name for _, name in module.project.imported)


def _is_free(module: Module, use: ast.expr) -> bool:
    """Is a use in a function, and no method, that this file calls wherever it names it, under no condition, or that another file imports?"""
    function = module.function(use)
    if not isinstance(function, _FUNCTIONS) or isinstance(module.parent(function), ast.ClassDef):
        return False
    inside = {id(node) for node in walk(function)}
    named = [each for each in module.index.names(function.name) if id(each) not in inside]
    calls = [*_uses(module, function)]
    return (
        len(calls) == len(named)
        and (bool(calls) or function.name in (name for _, name in module.project.imported))
        and all(_runs(module, each, set(), called=True) for each in calls)
    )


def _later(module: Module, alias: ast.alias) -> Iterator[ast.Name]:
    """The uses of what an optional import binds, where nothing else gives the name a meaning, other than checks of it."""
    above = next(around(module, alias, _OWNERS), None)
    name = alias.asname or alias.name.partition(".")[0]
    if above is None or any(_replaces(handler, name) for handler in above.handlers):
        return
    inside = {id(node) for node in walk(above)}
    if any(id(each.node) not in inside for each in module.bindings_of(name)):
        return  # another meaning is given later: ``if not HAVE_TRITON: triton = MagicMock()``
    for use in module.index.names(name):
        above_use = module.parent(use)
        checked = isinstance(above_use, (ast.Compare, ast.UnaryOp)) or word(getattr(above_use, "func", above_use)) == "bool"  # fmt: skip
        if isinstance(use.ctx, ast.Load) and not checked and id(use) not in inside and _means(module, use, alias):  # fmt: skip
            yield use


def guarded(module: Module, node: ast.AST) -> bool:
    """Does the code go on without the package: under ``try`` that catches it, under ``if``, inside a function?"""
    above = module.ancestors(node)
    return caught(module, node) or any(isinstance(each, (ast.If, *_FUNCTIONS)) for each in above)


def caught(module: Module, node: ast.AST) -> bool:
    """Does the code go on where a ``try`` around it fails?"""
    tries = (above for above in module.ancestors(node) if isinstance(above, TRIES))
    package = package_of(module, node)
    return any(not all(_stops(each) or _needs(each, package) for each in above.handlers) for above in tries)  # fmt: skip


def _stops(handler: ast.ExceptHandler) -> bool:
    """Does a handler end the program, as with an error of its own words?"""
    return any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and word(each.func) in ("exit", "_exit", "quit"))
        for each in walk(handler)
    )


def _goes_on(handler: ast.ExceptHandler, *, noted: bool) -> bool:
    """Does a handler catch a failed import, raise nothing, and leave a word of it (``noted``: the other branch does)?"""
    inner = [*walk(handler)]
    return (
        not (NO_MODULE | ANY_ERROR).isdisjoint(kinds(handler))
        and not any(isinstance(each, ast.Raise) for each in inner)
        and (noted or any(isinstance(each, (*_NOTES, *_REPLACES)) for each in inner))
    )


def package_of(module: Module, node: ast.AST) -> str:
    """The package that an import names, empty for another way to it."""
    statement = module.parent(node) if isinstance(node, ast.alias) else node
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else (statement.module or "").partition(".")[0]
    return node.name.partition(".")[0] if isinstance(node, ast.alias) else ""


def _needs(handler: ast.ExceptHandler, package: str) -> bool:
    """Does a handler import the package all the same, from another place in it? torch is there, whatever part of it is not."""
    imports = [each for each in handler.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return package not in ("", "torch") and any(
        package
        in (
            (getattr(each, "module", None) or "").partition(".")[0],
            *(one.name.partition(".")[0] for one in each.names if isinstance(each, ast.Import)),
        )
        for each in imports
    )


def _replaces(handler: ast.ExceptHandler, name: str) -> bool:
    """Does a handler give the name another meaning than nothing, or leave what reads the file?"""
    for each in walk(handler):
        if isinstance(each, ast.Import | ast.ImportFrom):
            if any((one.asname or one.name.partition(".")[0]) == name for one in each.names):
                return True
        elif isinstance(each, (*_FUNCTIONS, ast.ClassDef)):
            if each.name == name:
                return True
        elif isinstance(each, ast.Assign) and not isinstance(each.value, ast.Constant):
            if any(word(target) == name for target in each.targets):
                return True
        elif isinstance(each, ast.Call) and word(each.func) in ("exit", "_exit", "skip"):
            return True
    return False


def _means(module: Module, use: ast.Name, alias: ast.alias) -> bool:
    """Is the name the imported one there, not a parameter or a variable of the same name?"""
    return any(binding.node is alias or binding.qualified for binding in module.bindings(use))


def _runs(module: Module, node: ast.AST, seen: set[ast.AST], *, called: bool = False) -> bool:
    """Does a piece of code run unconditionally, as far as this file shows? Each function is followed to its callers once.

    ``called``: is it enough that it does so where the function around it is called?
    """
    for below, above in module.upwards(node):
        if isinstance(above, _CONDITIONS) and not _is_entry(above):
            return False
        if isinstance(above, ast.arg | ast.AnnAssign) and below is above.annotation:
            return False
        if isinstance(above, _FUNCTIONS) and below is above.returns:
            return False
        if isinstance(below, ast.stmt) and _left_before(module, below):
            return False
        if isinstance(above, _OWNERS) and below in above.body and _owns(above, below):
            if called or above in seen:
                return called
            seen.add(above)
            return any(_runs(module, use, seen) for use in _uses(module, above))
    return True


def _owns(owner: ast.stmt, below: ast.AST) -> bool:
    """Does code in a definition run only when somebody uses it? The body of a class runs at once, its methods do not."""
    return isinstance(owner, _FUNCTIONS) or isinstance(below, _FUNCTIONS)


def _uses(module: Module, owner: ast.stmt) -> Iterator[ast.expr]:
    """Where a function, a method or a class of the file is called; what a class does by itself is called where the class is."""
    assert isinstance(owner, _OWNERS)
    above = module.parent(owner)
    names: list[ast.expr] = []
    if not isinstance(above, ast.ClassDef):
        names = [*module.index.names(owner.name)]
    elif owner.name in _BY_ITSELF:
        names, owner = [*module.index.names(above.name)], above
    else:
        names = [*module.index.attributes(owner.name)]
    inside = {id(node) for node in walk(owner)}
    for use in names:
        call = module.parent(use)
        if id(use) not in inside and isinstance(call, ast.Call) and call.func is use:
            yield use


def _is_entry(condition: ast.AST) -> bool:
    """``if __name__ == "__main__":``."""
    return (
        isinstance(condition, ast.If)
        and isinstance(condition.test, ast.Compare)
        and word(condition.test.left) == "__name__"
    )


def _left_before(module: Module, statement: ast.stmt) -> bool:
    """Does the block assert, or leave under a condition, before the statement is reached?"""
    for each in module.before(statement):
        if isinstance(each, ast.Assert):
            return True
        if isinstance(each, ast.If) and any(isinstance(inner, _LEAVES) for inner in walk(each)):
            return True
    return False
