"""Comparisons of device types in the user's own files, rewritten while they are loaded (``hpushim run``).

``x.device.type == "cuda"`` is False on HPU, and nothing at run time can change that without breaking
torch.compile. So the comparison itself is widened: ``x.device.type in ("cuda", "hpu")``. Only expressions that
read a device are touched, never other strings; a file that mentions ``"hpu"`` itself is left alone, since it knows
what it compares. Line numbers stay. The same finder, without rewriting, serves the warning of a plain
``import hpushim``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

_CUDA = "cuda"
_HPU = "hpu"
_TWIN = {"cuda": "hpu", "cuda:0": "hpu:0"}


@dataclass(frozen=True)
class Rewrite:
    """One comparison: where it stands, what it says and what it says now."""

    line: int
    before: str
    after: str


def find(source: str | bytes) -> list[Rewrite]:
    """The comparisons that would be rewritten; empty for source that does not parse."""
    try:
        return apply(ast.parse(source))[1]
    except (SyntaxError, ValueError):
        return []


def apply(tree: ast.Module) -> tuple[ast.Module, list[Rewrite]]:
    """The tree with every device-type comparison widened, changed in place, and what was changed."""
    survey = _Survey()
    survey.visit(tree)
    if survey.knows_hpu:
        return tree, []
    widen = _Widen(survey)
    widen.visit(tree)
    ast.fix_missing_locations(tree)
    return tree, widen.done


class _Survey(ast.NodeVisitor):
    """What a file says about devices: names bound to a device's type, tables keyed by it, mentions of hpu."""

    def __init__(self) -> None:
        self.knows_hpu = False
        self.types: set[str] = set()
        self._tables: dict[str, int] = {}
        self._assigned: dict[str, int] = {}

    def tables(self) -> set[str]:
        """Names assigned exactly once in the file, to a literal table with a ``"cuda"`` key."""
        return {name for name in self._tables if self._assigned[name] == 1}

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.split(":")[0] == _HPU:
            self.knows_hpu = True

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.generic_visit(node)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        name = _last_name(target)
        if not name:
            return
        self._assigned[name] = self._assigned.get(name, 0) + 1
        if isinstance(value, ast.Dict) and _CUDA in _constants(value.keys):
            self._tables[name] = 1
        if _reads_type(value):
            self.types.add(name)


class _Widen(ast.NodeTransformer):
    """Rewrites the comparisons of one file."""

    def __init__(self, survey: _Survey) -> None:
        self._types = survey.types
        self._tables = survey.tables()
        self.done: list[Rewrite] = []

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.Eq | ast.NotEq):
            if _text(left) in _TWIN:
                left, right = right, left
            text = _text(right)
            if text in _TWIN and self._is_device(left):
                inside = ast.In() if isinstance(operator, ast.Eq) else ast.NotIn()
                return self._said(node, ast.Compare(left, [inside], [_texts(text, _TWIN[text])]))
        elif isinstance(operator, ast.In | ast.NotIn):
            return self._membership(node, left, operator, right)
        return node

    def _membership(
        self, node: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr
    ) -> ast.expr:
        if isinstance(right, ast.Tuple | ast.List | ast.Set) and self._is_device(left):
            missing = [_TWIN[t] for t in _constants(right.elts) if t in _TWIN]
            if not missing:
                return node
            wider = type(right)(elts=[*right.elts, *map(ast.Constant, missing)])
            if not isinstance(wider, ast.Set):
                wider.ctx = ast.Load()
            return self._said(node, ast.Compare(left, [operator], [wider]))
        if _text(left) == _CUDA and self._is_device(right) and _is_pure(right):
            # "cuda" in str(device): a search in text, so both words are searched for.
            tests: list[ast.expr] = [
                ast.Compare(ast.Constant(word), [operator], [right]) for word in (_CUDA, _HPU)
            ]
            joined = ast.Or() if isinstance(operator, ast.In) else ast.And()
            return self._said(node, ast.BoolOp(joined, tests))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Attribute) or not node.args:
            return node
        first = node.args[0]
        if called.attr == "startswith" and self._is_device(called.value):
            words = list(first.elts) if isinstance(first, ast.Tuple) else [first]
            if {_CUDA, "cuda:"} & set(_constants(words)):
                more: list[ast.expr] = [*words, ast.Constant(_HPU)]
                return self._said(
                    node, ast.Call(called, [ast.Tuple(more, ast.Load()), *node.args[1:]], [])
                )
        if called.attr == "get" and self._is_table(called.value) and self._is_device(first):
            changed = ast.Call(called, [_as_cuda(first), *node.args[1:]], node.keywords)
            return self._said(node, changed) if _is_pure(first) else node
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if (
            isinstance(node.ctx, ast.Load)
            and self._is_table(node.value)
            and self._is_device(node.slice)
            and _is_pure(node.slice)
        ):
            return self._said(node, ast.Subscript(node.value, _as_cuda(node.slice), ast.Load()))
        return node

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        if self._is_device(node.subject):
            for case in node.cases:
                pattern = case.pattern
                if isinstance(pattern, ast.MatchValue) and _text(pattern.value) == _CUDA:
                    case.pattern = _either(pattern)
                    self._book(pattern.lineno, 'case "cuda"', 'case "cuda" | "hpu"')
                elif isinstance(pattern, ast.MatchOr):
                    found = [p for p in pattern.patterns if _pattern_text(p) == _CUDA]
                    if found:
                        pattern.patterns.append(ast.MatchValue(ast.Constant(_HPU)))
                        self._book(pattern.lineno, 'case … "cuda"', 'case … "cuda" | "hpu"')
        return node

    def _is_device(self, node: ast.expr) -> bool:
        """Whether the expression reads a device or its type: by its form, by its name, or by what was bound to it."""
        if _reads_type(node):
            return True
        if isinstance(node, ast.Call):
            call = node.func
            if isinstance(call, ast.Name) and call.id == "str" and len(node.args) == 1:
                return self._is_device(node.args[0])
            return (
                isinstance(call, ast.Attribute)
                and call.attr == "lower"
                and self._is_device(call.value)
            )
        if isinstance(node, ast.JoinedStr):
            parts = [p for p in node.values if isinstance(p, ast.FormattedValue)]
            return len(parts) == len(node.values) == 1 and self._is_device(parts[0].value)
        name = _last_name(node)
        return (
            name in self._types
            or "device" in name.lower()
            or name.lower() in ("dev", "accelerator")
        )

    def _is_table(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Dict):
            return _CUDA in _constants(node.keys)
        return _last_name(node) in self._tables

    def _said(self, old: ast.expr, new: ast.expr) -> ast.expr:
        ast.copy_location(new, old)
        self._book(old.lineno, ast.unparse(old), ast.unparse(new))
        return new

    def _book(self, line: int, before: str, after: str) -> None:
        self.done.append(Rewrite(line, before, after))


def _reads_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "type"


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(*words: str) -> ast.Tuple:
    return ast.Tuple([ast.Constant(word) for word in words], ast.Load())


def _constants(nodes: Any) -> list[str]:
    return [_text(node) for node in nodes if _text(node)]


def _is_pure(node: ast.expr) -> bool:
    """Whether evaluating the expression twice is the same as once: names, attributes and str() of these."""
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id == "str"
            and not node.keywords
            and all(map(_is_pure, node.args))
        )
    if isinstance(node, ast.JoinedStr):
        return all(_is_pure(p.value) for p in node.values if isinstance(p, ast.FormattedValue))
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _as_cuda(key: ast.expr) -> ast.expr:
    """``"cuda" if key == "hpu" else key``: for a table that has no entry for HPU."""
    return ast.IfExp(ast.Compare(key, [ast.Eq()], [ast.Constant(_HPU)]), ast.Constant(_CUDA), key)


def _either(pattern: ast.MatchValue) -> ast.pattern:
    other = ast.copy_location(ast.MatchValue(ast.Constant(_HPU)), pattern)
    return ast.copy_location(ast.MatchOr([pattern, other]), pattern)


def _pattern_text(pattern: ast.pattern) -> str:
    return _text(pattern.value) if isinstance(pattern, ast.MatchValue) else ""
