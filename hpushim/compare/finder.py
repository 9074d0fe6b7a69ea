"""Finds the comparisons of devices with CUDA in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hpushim.compare import texts
from hpushim.compare.beside import handles_hpu
from hpushim.compare.scopes import Scopes
from hpushim.compare.subjects import OPERATIONS, Evidence, Told


class Form(Enum):
    """How a device is compared."""

    EQUAL = "equal"  #: ``device.type == "cuda"``, ``!=``, chains, ``operator.eq``, ``assertEqual``
    MEMBER = "member"  #: ``device.type in ("cuda", "xpu")``
    SEARCH = "search"  #: ``"cuda" in str(device)``, ``re.match("cuda", text)``, also of a collection of devices
    METHOD = "method"  #: ``text.startswith("cuda")``, ``text.replace("cuda:", "")``
    LOOKUP = "lookup"  #: ``TABLE[device.type]``, ``TABLE.get(device.type)``
    PATTERN = "pattern"  #: ``match device.type: case "cuda":``


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison.

    ``node``: the expression that compares, or the ``match`` statement. ``subjects``: what is compared, innermost first
    where text is made of it. ``texts``: the CUDA names that stand in the comparison itself, in source order; empty where
    they stand elsewhere (a table by name, another file). ``sure``: the file shows that the subject holds a device;
    otherwise only that it is compared with such a word. ``handled``: the code beside it knows ``hpu``.
    """

    node: ast.expr | ast.Match
    form: Form
    subjects: tuple[ast.expr, ...]
    texts: tuple[ast.expr, ...]
    sure: bool
    handled: bool

    @property
    def line(self) -> int:
        """The line that it begins on, from 1."""
        return self.node.lineno


def find(tree: ast.Module, told: Told | None = None) -> list[Comparison]:
    """The comparisons in a file, in the order of its lines.

    ``told`` may know more of an expression than the file says (from other files, say): True when it holds a device, its
    type or its text, False when it does not, None for no opinion.
    """
    finder = _Finder(tree, told)
    found = [one for node in ast.walk(tree) for one in finder.look(node)]
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))


_EQUALITY = (ast.Eq, ast.NotEq)
_SETS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TESTS = frozenset(("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "__contains__", "__eq__", "__ne__"))  # fmt: skip
_CUTS = frozenset(("replace", "split", "rsplit", "partition", "rpartition", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"))  # fmt: skip
_LOOKUPS = frozenset(("get", "pop", "setdefault", "__getitem__"))
_SEARCHES = frozenset(("match", "search", "fullmatch", "fnmatch", "fnmatchcase", "findall"))
_PAIRS = frozenset(("eq", "ne", "is_", "contains", "assertEqual", "assertNotEqual", "assertEquals", "assertIn", "assertNotIn", "assertCountEqual", "assertStartsWith"))  # fmt: skip


class _Finder:
    def __init__(self, tree: ast.Module, told: Told | None) -> None:
        self._scopes = Scopes(tree)
        self._evidence = Evidence(self._scopes, told)

    def look(self, node: ast.AST) -> Iterator[Comparison]:
        """What a node compares."""
        if isinstance(node, ast.Compare):
            yield from self._compare(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from self._lookup(node, node.value, node.slice)
        elif isinstance(node, ast.Match):
            yield from self._match(node)

    # -- operators --------------------------------------------------------------------------

    def _compare(self, node: ast.Compare) -> Iterator[Comparison]:
        sides = [node.left, *node.comparators]
        subjects: list[ast.expr] = []
        named: list[ast.expr] = []
        form, word = Form.EQUAL, False
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(operator, _EQUALITY):
                found = self._equal(left, right)
            elif isinstance(operator, ast.In | ast.NotIn):
                found, form = self._member(left, right)
            elif isinstance(operator, _SETS):
                found = self._sets(left, right)
            else:
                continue
            subjects += found[0]
            named += found[1]
            word = word or bool(found[0])
        if word:
            yield self._made(node, form, subjects, named)

    def _equal(self, left: ast.expr, right: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """Subjects and CUDA texts of one equality; no subjects when it is not of devices."""
        if isinstance(left, ast.Tuple | ast.List) and isinstance(right, ast.Tuple | ast.List):
            pairs = [self._equal(a, b) for a, b in zip(left.elts, right.elts, strict=False)]
            return [s for found, _ in pairs for s in found], [t for _, found in pairs for t in found]  # fmt: skip
        for subject, other in ((left, right), (right, left)):
            if texts.is_cuda(other) and not isinstance(subject, ast.Constant):
                return [subject], [other]
        for subject, other in ((left, right), (right, left)):
            if isinstance(other, ast.Constant) or not self._evidence.is_reading(subject):
                continue
            # A name for CUDA, or what may be one: the text that the program was given.
            if not self._evidence.is_reading(other) and getattr(other, "attr", "") != "type":
                return [subject], []
        for subject, other in ((left, right), (right, left)):
            if self._evidence.texts(other) and self._evidence.is_device(subject) and not texts.is_hpu(subject):  # fmt: skip
                return ([subject], []) if not self._evidence.texts(subject) else ([], [])
        return self._sets(left, right)

    def _sets(self, left: ast.expr, right: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
        """``{p.device.type for p in parameters} == {"cuda"}``."""
        for subject, other in ((left, right), (right, left)):
            if isinstance(other, ast.Set | ast.List | ast.Tuple):
                named = [one for one in other.elts if texts.is_cuda(one)]
                if named and self._evidence.is_device(subject):
                    return [subject], named
        return [], []

    def _member(
        self, left: ast.expr, right: ast.expr
    ) -> tuple[tuple[list[ast.expr], list[ast.expr]], Form]:
        evidence = self._evidence
        if texts.is_beginning(left) or evidence.texts(left):
            named = [left] if texts.is_beginning(left) else []
            if evidence.is_device(right) and not isinstance(right, ast.Dict):
                return ([right], named), Form.SEARCH
            return ([], []), Form.SEARCH
        if texts.constant(left):
            return ([], []), Form.MEMBER
        members = evidence.members(right)
        if members is not None:
            here = [one for one in members if texts.is_cuda(one)]
            if here or any(evidence.texts(one) for one in members):
                literal = isinstance(right, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Call)
                return ([left], here if literal else []), Form.MEMBER
            return ([], []), Form.MEMBER
        if evidence.is_reading(left):
            return ([left], []), Form.MEMBER
        return ([], []), Form.MEMBER

    # -- calls ------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[Comparison]:
        called = node.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if isinstance(called, ast.Attribute):
            base = called.value
            if name in _TESTS or name in _CUTS:
                yield from self._method(node, base, name)
            if name in _LOOKUPS and node.args:
                yield from self._lookup(node, base, node.args[0])
        if name in _SEARCHES:
            yield from self._search(node)
        elif name in _PAIRS and len(node.args) >= 2:
            first, second = node.args[:2]
            found = self._equal(first, second)
            if not found[0]:
                found, _ = self._member(first, second)
            if found[0]:
                yield self._made(node, Form.EQUAL, *found)

    def _method(self, node: ast.Call, base: ast.expr, name: str) -> Iterator[Comparison]:
        words = [one for arg in node.args for one in _elements(arg)]
        named = [one for one in words if texts.is_beginning(one)]
        known = [one for one in words if self._evidence.texts(one)]
        if (named or known) and self._evidence.is_device(base):
            yield self._made(node, Form.METHOD, [base], named)

    def _search(self, node: ast.Call) -> Iterator[Comparison]:
        """``re.match("cuda", text)``, ``pattern.match(text)``, ``fnmatch(text, "cuda*")``."""
        parts = list(node.args)
        named = [one for one in parts if texts.is_pattern(one)]
        compiled = node.func.value if isinstance(node.func, ast.Attribute) else None
        subjects = [one for one in parts if one not in named and self._evidence.is_device(one)]
        if subjects and (named or self._is_compiled(compiled)):
            yield self._made(node, Form.SEARCH, subjects[:1], named)

    def _is_compiled(self, node: ast.expr | None) -> bool:
        """Whether a name holds a compiled expression that speaks of CUDA."""
        values: list[ast.expr | None] = [node]
        if isinstance(node, ast.Name):
            values = [bound.value for bound in self._scopes.bindings(node)]
        return any(
            isinstance(value, ast.Call)
            and getattr(value.func, "attr", "") == "compile"
            and any(texts.is_pattern(arg) for arg in value.args)
            for value in values
        )

    # -- tables and patterns ----------------------------------------------------------------

    def _lookup(self, node: ast.expr, table: ast.expr, key: ast.expr) -> Iterator[Comparison]:
        if isinstance(key, ast.Constant | ast.Slice) or not self._evidence.is_device(key):
            return
        members = self._evidence.members(table)
        named = [one for one in members or () if texts.is_cuda(one)]
        # A table by name may have got more keys, or come from elsewhere: the text of a device says enough.
        if named or (self._evidence.is_reading(key) and _may_be_table(table)):
            here = named if isinstance(table, ast.Dict) else []
            yield self._made(node, Form.LOOKUP, [key], here, known=members)

    def _match(self, node: ast.Match) -> Iterator[Comparison]:
        named = [
            part.value
            for case in node.cases
            for part in ast.walk(case.pattern)
            if isinstance(part, ast.MatchValue) and texts.is_cuda(part.value)
        ]
        if named:
            yield self._made(node, Form.PATTERN, [node.subject], named)

    def _made(
        self,
        node: ast.expr | ast.Match,
        form: Form,
        subjects: list[ast.expr],
        named: list[ast.expr],
        known: list[ast.expr] | None = None,
    ) -> Comparison:
        sure = any(self._evidence.is_device(one) for one in subjects)
        handled = handles_hpu(self._scopes, node) or any(texts.is_hpu(one) for one in known or ())
        if isinstance(node, ast.Compare):
            handled = handled or any(
                texts.is_hpu(one)
                for side in (node.left, *node.comparators)
                for one in self._evidence.members(side) or ()
            )
        return Comparison(node, form, tuple(subjects), tuple(named), sure, handled)


def _elements(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _may_be_table(node: ast.expr) -> bool:
    """Whether a name or attribute may hold a table; a text that is cut, or the result of a call, is none."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") not in OPERATIONS
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
