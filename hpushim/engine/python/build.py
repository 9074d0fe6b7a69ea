"""Changes made to libcst's tree of one statement, from the inside out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpushim.engine.python import sequences
from hpushim.engine.python.changes import Function
from hpushim.engine.python.precedence import bracketed, level, required
from hpushim.engine.python.slots import Unplaced, get, put, slot

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class Builder:
    """Collects the changes of one unit and makes them.

    ``functions`` are made to a node in the order in which they were given, after all changes below it.
    """

    def __init__(self, module: Module, unit: ast.AST) -> None:
        self._module = module
        self._unit = unit
        self._functions: dict[ast.AST, list[str | Function]] = {}
        self._removed: set[ast.AST] = set()
        #: The children of each node on the way to a change.
        self._below: dict[ast.AST, dict[ast.AST, None]] = {}

    def replace(self, node: ast.AST, new: str | Function) -> None:
        self._functions.setdefault(node, []).append(new)
        self._reach(node)

    def remove(self, node: ast.AST) -> None:
        self._removed.add(node)
        self._reach(node)

    def _reach(self, node: ast.AST) -> None:
        while node is not self._unit:
            above = self._module.parent(node)
            if above is None:
                raise Unplaced("it is outside of its statement")
            below = self._below.setdefault(above, {})
            if node in below:
                return
            below[node] = None
            node = above

    def build(self, there: Any) -> Any:
        """libcst's node of the unit after all changes. Raises :class:`~hpushim.engine.python.slots.Unplaced`."""
        return self._build(self._unit, there, within=False)

    def _build(self, node: ast.AST, there: Any, *, within: bool) -> Any:
        made = there
        # Lists of many items are copied once, not for each item.
        lists: dict[str, list[Any]] = {}
        below = self._below.get(node, {})
        gone = [child for child in below if child in self._removed]
        # What libcst holds inside of another child (a parameter's default, the second `for`) comes after it.
        ways = sorted(
            ((slot(node, child, there), child) for child in below if child not in self._removed),
            key=lambda pair: len(pair[0]),
        )
        within = within or bool(getattr(there, "lpar", ()))
        for way, child in ways:
            old = get(there, way)
            new = self._build(child, old, within=within or bracketed(node, child))
            if new is old:
                continue
            if len(way) > 1 and isinstance(way[0], str) and isinstance(way[1], int):
                if way[0] not in lists:
                    lists[way[0]] = list(getattr(made, way[0]))
                items = lists[way[0]]
                items[way[1]] = put(items[way[1]], way[2:], new)
            else:
                made = put(made, way, new)
        if lists:
            made = made.with_changes(**lists)
        if gone:
            made = self._without(node, there, made, gone)
        for function in self._functions.get(node, ()):
            made = self._changed(node, there, made, function, within=within)
        return made

    def _without(self, node: ast.AST, there: Any, made: Any, gone: Iterable[ast.AST]) -> Any:
        fields: dict[str, list[int]] = {}
        for child in gone:
            field, place, *_ = slot(node, child, there)
            if not isinstance(field, str) or not isinstance(place, int):
                raise Unplaced(f"{child.__class__.__name__} is no item of a list")
            fields.setdefault(field, []).append(place)
        for field, places in fields.items():
            made = sequences.without(made, field, places)
        return made

    def _changed(
        self, node: ast.AST, there: Any, made: Any, new: str | Function, *, within: bool
    ) -> Any:
        if isinstance(new, str):
            self._lock(node, there)
            changed = _parsed(node, new)
            if not isinstance(node, ast.stmt):
                changed = _in_place_of(made, changed)
        else:
            changed = new(made)
        if isinstance(node, ast.expr) and hasattr(changed, "lpar"):
            return self._fitted(node, changed, within=within)
        return changed

    def _fitted(self, node: ast.expr, new: Any, *, within: bool) -> Any:
        """``new`` in parentheses where it needs them in the place of ``node``."""
        import libcst as cst

        if isinstance(new, cst.Tuple) and not new.lpar:
            return new
        loose = level(new) < required(self._module.parent(node), node)
        if not loose and (within or new.lpar or "\n" not in _code(new) or _whole(new)):
            return new
        return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def _lock(self, node: ast.AST, there: Any) -> None:
        """What is replaced must be what the finding was about."""
        if not hasattr(there, "with_changes"):
            raise Unplaced(f"{node.__class__.__name__} has no node of its own")
        written = self._module.source(node)
        # What libcst gives back for a node by itself lacks the indentation of its statement.
        if _flat(written) not in (_flat(_code(there)), _flat(_code(_bare(there)))):
            raise Unplaced(f"expected `{written[:40]}` and found `{_code(there)[:40]}`")


def _parsed(node: ast.AST, text: str) -> Any:
    import libcst as cst

    if isinstance(node, ast.stmt):
        line = cst.parse_statement(text)
        assert isinstance(line, cst.SimpleStatementLine)
        return line.body[0]
    if isinstance(node, (ast.keyword, ast.Starred)):
        call = cst.parse_expression(f"f({text})")
        assert isinstance(call, cst.Call)
        if len(call.args) != 1:
            raise Unplaced(f"`{text}` is not one argument")
        return call.args[0]
    return cst.parse_expression(text)


def _in_place_of(old: Any, new: Any) -> Any:
    """A new node with the parentheses, or the comma, that the old one had."""
    if _in_brackets(new):
        left, right = list(getattr(old, "lpar", ())), list(getattr(old, "rpar", ()))
        if old.__class__.__name__ in ("Tuple", "GeneratorExp"):
            left, right = left[:-1], right[1:]  # the innermost ones are its own
        return new.with_changes(lpar=[*left, *new.lpar], rpar=[*new.rpar, *right])
    return _in_list(new, old) if hasattr(new, "comma") and hasattr(old, "comma") else new


def _in_brackets(node: Any) -> bool:
    """May the node are in parentheses of its own? Those of an import are one of its parts."""
    return isinstance(getattr(node, "lpar", None), (list, tuple))


def _in_list(new: Any, old: Any) -> Any:
    """A new item with the comma and the white space of the old one."""
    changes = {"comma": old.comma}
    if hasattr(old, "whitespace_after_arg"):
        changes["whitespace_after_arg"] = old.whitespace_after_arg
    return new.with_changes(**changes)


def _bare(there: Any) -> Any:
    """The node without the parentheses, the comma or the semicolon that libcst takes for a part of it."""
    if _in_brackets(there) and there.lpar:
        return there.with_changes(lpar=(), rpar=())
    import libcst as cst

    plain: dict[str, Any] = {
        "comma": cst.MaybeSentinel.DEFAULT,
        "semicolon": cst.MaybeSentinel.DEFAULT,
        "whitespace_after_arg": cst.SimpleWhitespace(""),
    }
    return there.with_changes(**{name: new for name, new in plain.items() if hasattr(there, name)})


def _whole(node: Any) -> bool:
    """Is the expression on several lines by itself, inside brackets or quotes of its own?"""
    try:
        ast.parse(_code(node), mode="eval")
    except SyntaxError:
        return False
    return True


def _flat(code: str) -> str:
    return re.sub(r"(\r\n|\r|\n)[ \t]*", "\n", code)


def _code(node: Any) -> str:
    import libcst as cst

    return cst.Module([]).code_for_node(node)
