"""What rewrites leave, as a person would write it: no choice that is made already, and no name that nobody reads any more.

``a if False else b`` is ``b``, and so is ``b if c else b``; ``x and True`` is ``x`` where only its truth counts; an ``if`` whose
two branches have become the same is that branch. Only what the rewrites wrote is touched, and what goes computes nothing that
somebody could miss.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from hpushim.engine.base.edits import growth
from hpushim.engine.python.changes import Remove, Replace
from hpushim.engine.python.module import ATOMS, Module
from hpushim.engine.python.removal import is_elif, only_looks
from hpushim.model import Edit, Span
from hpushim.patterns import lazily
from hpushim.pycode.walk import walk

#: Calls that read any name.
_READ_ALL = frozenset(["locals", "vars", "eval", "exec", "globals"])
_NAME = lazily(r"[A-Za-z_]\w*")


def folded(
    before: Module, after: Module, made: Sequence[Edit]
) -> tuple[list[Replace | Remove], list[Edit], set[ast.AST]]:
    """The changes and edits that fold ``after``, which the edits ``made`` of ``before``; and the nodes that the edits touch."""
    fold = _Fold(before, after, made)
    changes: list[Replace | Remove] = []
    edits: list[Edit] = []
    touched: set[ast.AST] = set()
    for node in fold.choices():  # those around others first
        if node in touched:
            continue
        change = fold.statement(node) if isinstance(node, ast.If) else fold.expression(node)
        if change is None:
            continue
        touched.update((*walk(node), *after.ancestors(node)))
        if isinstance(change, Edit):
            edits.append(change)
        else:
            changes += change if isinstance(change, list) else [change]
    if not touched:
        changes += fold.unread()
    return changes, edits, touched if edits else set()


class _Fold:
    def __init__(self, before: Module, after: Module, made: Sequence[Edit]) -> None:
        self._before = before
        self._module = after
        self._made = made
        self._changed: list[Span] = []
        moved = 0
        for edit in made:
            start = edit.span.start + moved
            self._changed.append(Span(start, start + len(edit.new.encode())))
            moved += growth(edit)

    def choices(self) -> list[ast.If | ast.IfExp | ast.BoolOp | ast.UnaryOp]:
        """What the rewrites have written in, from the outside in."""
        units: dict[ast.AST, None] = {}
        for span in self._changed:
            units.update(dict.fromkeys(self._module.index.around(span.start)[:1]))
        for unit in list(units):
            units.update(dict.fromkeys(map(self._module.statement, self._tested(unit))))
        found: dict[ast.If | ast.IfExp | ast.BoolOp | ast.UnaryOp, None] = {}
        for unit in units:
            parts = (each for each in ast.iter_child_nodes(unit) if isinstance(each, ast.expr))
            inside = (part for each in parts for part in walk(each))
            for node in (*inside, unit, *self._module.ancestors(unit)):
                if isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
                    found[node] = None
        return sorted(found, key=lambda node: (node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)))  # fmt: skip

    def _tested(self, unit: ast.AST) -> list[ast.Name]:
        """The uses of a name that a statement gives True or False."""
        if not isinstance(unit, ast.Assign) or not isinstance(unit.targets[0], ast.Name):
            return []
        decided = isinstance(unit.value, ast.Constant) and isinstance(unit.value.value, bool)
        return self._module.index.names(unit.targets[0].id) if decided else []

    def _holds(self, node: ast.AST) -> bool:
        """Have the rewrites written inside ``node``?"""
        at = self._module.span(node)
        return any(at.start < span.end and span.start < at.end for span in self._changed)

    # -- choices ----------------------------------------------------------------------------

    def expression(self, node: ast.IfExp | ast.BoolOp | ast.UnaryOp) -> Replace | None:
        match node:
            case ast.IfExp():
                truth = self._truth(node.test)
                if truth is not None:
                    return self._as(node, "body" if truth else "orelse")
                return self._as(node, "body") if self._alike(node) else None
            case ast.UnaryOp(op=ast.Not()) if (truth := self._truth(node.operand)) is not None:
                return Replace(node, str(not truth))
            case ast.BoolOp():
                return self._joined(node)
        return None

    def _joined(self, node: ast.BoolOp) -> Replace | None:
        """``and`` and ``or`` with a value that the rewrites have made a constant."""
        ends = isinstance(node.op, ast.Or)
        left: list[ast.expr] = []
        for number, value in enumerate(node.values):
            truth = self._truth(value)
            if truth is None or (truth != ends and number == len(node.values) - 1 and not self._is_condition(node)):  # fmt: skip
                left.append(value)
            elif truth == ends:
                if self._is_condition(node) and all(map(only_looks, left)):
                    left = []
                left.append(value)
                break
        if len(left) == len(node.values):
            return None
        if not left:
            return Replace(node, str(not ends))
        word = " or " if ends else " and "
        whole = len(left) == 1
        return Replace(node, word.join(self._module.source(e) if whole else self._operand(e) for e in left))  # fmt: skip

    def _is_condition(self, node: ast.expr) -> bool:
        """Does nothing but the truth of an expression count?"""
        above = self._module.parent(node)
        match above:
            case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
                return above.test is node
            case ast.BoolOp():
                return self._is_condition(above)
            case ast.UnaryOp(op=ast.Not()):
                return True
        return False

    def _operand(self, node: ast.expr) -> str:
        text = self._module.source(node)
        loose = isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr))
        return f"({text})" if loose else text

    def _as(self, node: ast.IfExp, branch: str) -> Replace:
        """The change of a choice into one of its branches, without the parentheses that only the choice needed."""
        chosen = getattr(node, branch)
        bare = isinstance(chosen, ATOMS) and chosen.lineno == chosen.end_lineno

        def taken(choice: Any) -> Any:
            new = getattr(choice, branch)
            if bare or not choice.lpar:
                return new
            return new.with_changes(lpar=choice.lpar, rpar=choice.rpar)

        return Replace(node, taken)

    def _truth(self, node: ast.expr) -> bool | None:
        """Whether the rewrites have made it True or False, by a name that is used here alone maybe."""
        if isinstance(node, ast.Name) and (bound := self._module.bindings(node)):
            given = bound[0].value if len(bound) == 1 and bound[0].kind == "assign" else None
            alone = [n for n in self._module.index.names(node.id) if isinstance(n.ctx, ast.Load)] == [node]  # fmt: skip
            return self._truth(given) if alone and isinstance(given, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(node.value, bool) and self._holds(node):
            return node.value
        return None

    def _alike(self, node: ast.If | ast.IfExp) -> bool:
        """Are both branches the same now, and were not before?"""
        if not _same(node) or not only_looks(node.test):
            return False
        return any(map(self._holds, _branches(node))) and ast.dump(node.test) not in self._alike_before  # fmt: skip

    @cached_property
    def _alike_before(self) -> set[str]:
        """The tests of choices whose branches were the same before the rewrites."""
        choices = (
            each for each in walk(self._before.tree) if isinstance(each, (ast.If, ast.IfExp))
        )
        return {ast.dump(each.test) for each in choices if _same(each)}

    # -- statements -------------------------------------------------------------------------

    def statement(self, node: ast.If) -> Remove | list[Remove] | Edit | None:
        """An ``if`` that is no choice any more goes, or leaves the lines of one branch."""
        module = self._module
        truth = self._truth(node.test)
        behind = bool(node.orelse) and is_elif(module, node.orelse[0])
        if truth is False and (behind or is_elif(module, node)):
            return (
                [Remove(each, branch=True) for each in node.body] if node.orelse else Remove(node)
            )
        if is_elif(module, node) or not module.begins_line(node):
            return None
        if truth is None:
            block = node.body
            if not self._alike(node):
                return None
            if "#" in module.source(Span(module.span(node.test).end, module.span(node).end)):
                return None  # a comment on one of the two
        else:
            block = node.body if truth else node.orelse
        if not block or is_elif(module, block[0]):
            return None if block else Remove(node)
        return self._lines(node, block)

    def _lines(self, node: ast.If, block: Sequence[ast.stmt]) -> Edit | None:
        """The edit that leaves the lines of ``block``, as far to the left as ``node``."""
        module = self._module
        first, last = block[0], block[-1]
        if not module.begins_line(first) or any(map(_has_long_text, block)):
            return None
        span = Span(module.line_span(module.position(module.start(first))[0]).start, module.span(last).end)  # fmt: skip
        inner, outer = module.indent(first), module.indent(node)
        lines = module.source(span).splitlines(keepends=True)
        if any(line.strip() and not line.startswith(inner) for line in lines):
            return None
        text = "".join(outer + line[len(inner) :] if line.strip() else line for line in lines)
        whole = module.span(node)
        return Edit(whole, module.source(whole), text.removeprefix(outer))

    # -- names ------------------------------------------------------------------------------

    def unread(self) -> Iterator[Remove]:
        """What gives a value to names of functions that the rewrites have left nobody to read."""
        before, after = self._before.index, self._module.index
        if any(after.calls(name) for name in _READ_ALL):
            return
        for name in sorted({word for edit in self._made for word in _NAME.findall(edit.old)}):
            names = after.names(name)
            if any(isinstance(each.ctx, ast.Load) for each in names) or not any(
                isinstance(each.ctx, ast.Load) for each in before.names(name)
            ):
                continue
            given = [self._module.parent(each) for each in names]
            if all(isinstance(each, ast.Assign) and self._is_local(each) and only_looks(each.value) for each in given):  # fmt: skip
                yield from (Remove(each) for each in given if each is not None)

    def _is_local(self, statement: ast.Assign) -> bool:
        scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        around = next((a for a in self._module.ancestors(statement) if isinstance(a, scopes)), None)
        return isinstance(around, scopes[:2]) and len(statement.targets) == 1 and not any(
            isinstance(part, (ast.Global, ast.Nonlocal)) for part in walk(around)
        )  # fmt: skip


def _branches(node: ast.If | ast.IfExp) -> list[ast.AST]:
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]


def _same(node: ast.If | ast.IfExp) -> bool:
    """Are both branches the same?"""
    shown = list(map(ast.dump, _branches(node)))
    half = len(shown) // 2
    return shown[:half] == shown[half:] and (isinstance(node, ast.IfExp) or len(node.body) == half)


def _has_long_text(statement: ast.stmt) -> bool:
    """Does a text go over several lines, whose indentation is its own?"""
    return any(
        isinstance(part, (ast.Constant, ast.JoinedStr)) and part.lineno != part.end_lineno
        for part in walk(statement)
    )
