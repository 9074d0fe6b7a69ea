"""Comparisons of device types in the user's own files, rewritten while they are loaded (``hpushim run``).

``x.device.type == "cuda"`` is False on HPU, and nothing at run time can change that without breaking
torch.compile. So the comparison itself is widened: ``x.device.type in ("cuda", "hpu")``, or, where it is more than that,
what is compared goes through a function of :mod:`hpushim.shim.run.widened`. :mod:`hpushim.compare` says which
expressions these are; a comparison beside which ``hpu`` is handled stays as it is. Line numbers stay.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass

from hpushim.compare import Comparison, Form
from hpushim.compare import find as find_comparisons
from hpushim.compare.subjects import OPERATIONS
from hpushim.compare.texts import shows_text
from hpushim.pycode.places import last_name
from hpushim.pycode.source import Source
from hpushim.pycode.steps import TooManySteps

_TWIN = {"cuda": "hpu", "cuda:0": "hpu:0"}
_HELPERS = "__hpushim_widened__"


@dataclass(frozen=True)
class Rewrite:
    """One comparison: where it is, what it says and what it says now."""

    line: int
    before: str
    after: str
    sure: bool = True  #: whether the file shows that it is of a device


def find(source: str | bytes) -> list[Rewrite]:
    """The comparisons that would be rewritten; empty for source that does not parse."""
    try:
        return apply(ast.parse(source))[1]
    except (SyntaxError, ValueError, RecursionError, TooManySteps):
        return []


def apply(tree: ast.Module) -> tuple[ast.Module, list[Rewrite]]:
    """The tree with every comparison of a device with CUDA widened, changed in place, and what was changed.

    Raises RecursionError for source that is nested too deep to be read.
    """
    says_hpu = any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.split(":")[0] == "hpu"
        for node in ast.walk(tree)
    )  # fmt: skip
    wanted: dict[ast.AST, list[Comparison]] = {}
    for one in find_comparisons(Source.of_tree(tree)):
        # A word that nothing shows to be a device is HPU's only where the program itself does not say so elsewhere.
        if not one.handled and (one.sure or (not says_hpu and one.texts)):
            wanted.setdefault(one.node, []).append(one)
    if not wanted:
        return tree, []
    widen = _Widen(wanted)
    widen.visit(tree)
    if widen.helped:
        _import_helpers(tree)
    ast.fix_missing_locations(tree)
    return tree, sorted(widen.done, key=lambda one: one.line)


def follow_texts(tree: ast.Module) -> None:
    """Has texts that the program gives to ``exec`` rewritten, when they are known: ``exec(open("config.py").read())``."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exec"
        if node.args and not isinstance(node.args[0], ast.Starred)
    ]
    for call in calls:
        text = call.args[0]
        call.args[0] = ast.copy_location(_helper("executed", text), text)
    if calls:
        _import_helpers(tree)
        ast.fix_missing_locations(tree)


class _Widen(ast.NodeTransformer):
    """Rewrites the comparisons of one file, inner ones first."""

    def __init__(self, wanted: dict[ast.AST, list[Comparison]]) -> None:
        self._wanted = wanted
        self.done: list[Rewrite] = []
        self.helped = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        found = self._wanted.get(node, ())
        before = ast.unparse(node) if found and isinstance(node, ast.expr) else ""
        # What is compared may itself hold comparisons: its nodes are the ones to look for, so they change in place.
        super().generic_visit(node)
        for one in found:
            node = self._widened(one, node)
        if before:
            after = ast.unparse(node)
            sure = any(one.sure for one in found)
            self.done.append(Rewrite(node.lineno, before, after, sure))  # type: ignore[attr-defined]
        return node

    def _widened(self, one: Comparison, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Match):
            return self._match(node)
        if one.form is Form.LOOKUP:
            return self._lookup(node)
        if one.form is Form.FUNCTION and isinstance(node, ast.expr):
            return ast.copy_location(self._call("shown_as_cuda", node), node)
        if one.form is Form.INSIDE:
            subjects = {id(subject) for subject in one.subjects}
            return _Replace(subjects, lambda at: ast.copy_location(self._call("text_as_cuda", at), at)).visit(node)  # fmt: skip
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            changed = self._compare(node, one)
            if changed is not None:
                return ast.copy_location(changed, node)
        return self._mapped(node, one)

    # -- each form --------------------------------------------------------------------------

    def _compare(self, node: ast.Compare, one: Comparison) -> ast.expr | None:
        """A comparison with one operator; None where what is compared has to be mapped."""
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.Eq | ast.NotEq):
            if one.texts and _text(left) in _TWIN:
                left, right = right, left
            negated = isinstance(operator, ast.NotEq)
            if _text(right) in _TWIN and not _is_cut(left):
                inside = ast.NotIn() if negated else ast.In()
                return ast.Compare(left, [inside], [_texts(_text(right), _TWIN[_text(right)])])
            if isinstance(left, ast.Tuple | ast.List | ast.Set | ast.SetComp) or _is_cut(left) or _is_cut(right):  # fmt: skip
                return None
            return self._negated(self._call("same", left, right), negated)
        if isinstance(operator, ast.In | ast.NotIn):
            negated = isinstance(operator, ast.NotIn)
            if one.form is Form.SEARCH:
                if _is_cut(right):
                    return None
                return self._negated(self._call("holds", right, left), negated)
            literal = isinstance(right, ast.Tuple | ast.List | ast.Set) and all(
                isinstance(text, ast.Constant) and text.value in _TWIN for text in one.texts
            )
            if literal and one.texts and not _is_cut(left):
                _add(right, [_TWIN[_text(text)] for text in one.texts])
                return node
            if not _is_cut(left):
                return self._negated(self._call("among", left, right), negated)
        return None

    def _lookup(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            table = copy.deepcopy(node.value)
            node.slice = ast.copy_location(self._call("entry", table, node.slice), node.slice)
            return node
        if isinstance(node, ast.Subscript):
            return ast.copy_location(self._call("lookup", node.value, node.slice), node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = "attribute" if node.func.id == "getattr" else "has_attribute"
            return ast.copy_location(self._call(name, *node.args), node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = ast.Constant(node.func.attr)
            changed = self._call("looked_up", node.func.value, method, *node.args)
            changed.keywords = node.keywords
            return ast.copy_location(changed, node)
        return node

    def _match(self, node: ast.Match) -> ast.Match:
        for case in node.cases:
            case.pattern = _Patterns(self._record).visit(case.pattern)
        return node

    def _mapped(self, node: ast.AST, one: Comparison) -> ast.AST:
        """Every subject goes through ``as_cuda``, where its text is read and before it is cut."""
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            node.left, *node.comparators = [
                side if isinstance(side, ast.Constant) else self._at_base(side)
                for side in (node.left, *node.comparators)
            ]
            return node
        subjects = {id(subject) for subject in one.subjects}
        return _Replace(subjects, self._at_base).visit(node)

    def _at_base(self, subject: ast.expr) -> ast.expr:
        """``str(device)[:4]`` is ``as_cuda(str(device))[:4]``."""
        inner = _cut_from(subject)
        if inner is not None:
            changed = self._at_base(inner)
            if isinstance(subject, ast.Subscript):
                subject.value = changed
            elif isinstance(subject, ast.Call) and isinstance(subject.func, ast.Attribute):
                subject.func.value = changed
            return subject
        return ast.copy_location(self._call("as_cuda", subject), subject)

    # -- pieces -----------------------------------------------------------------------------

    def _call(self, name: str, *arguments: ast.expr) -> ast.Call:
        self.helped = True
        return _helper(name, *arguments)

    def _negated(self, node: ast.expr, negated: bool) -> ast.expr:
        return ast.UnaryOp(ast.Not(), node) if negated else node

    def _record(self, line: int, before: str, after: str) -> None:
        self.done.append(Rewrite(line, before, after))


class _Patterns(ast.NodeTransformer):
    """``case "cuda"`` is ``case "cuda" | "hpu"``, wherever in a pattern it is."""

    def __init__(self, record: Callable[[int, str, str], None]) -> None:
        self._record = record

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.pattern:
        text = _text(node.value)
        if text not in _TWIN:
            return node
        other = ast.copy_location(ast.MatchValue(ast.Constant(_TWIN[text])), node)
        self._record(node.lineno, f'case "{text}"', f'case "{text}" | "{_TWIN[text]}"')
        return ast.copy_location(ast.MatchOr([node, other]), node)

    def visit_MatchOr(self, node: ast.MatchOr) -> ast.pattern:
        self.generic_visit(node)
        flat = [p for one in node.patterns for p in (one.patterns if isinstance(one, ast.MatchOr) else [one])]  # fmt: skip
        node.patterns = flat
        return node


class _Replace(ast.NodeTransformer):
    """Puts what a function gives in the place of some nodes."""

    def __init__(self, wanted: set[int], change: Callable[[ast.expr], ast.expr]) -> None:
        self._wanted = wanted
        self._change = change

    def visit(self, node: ast.AST) -> ast.AST:
        if id(node) in self._wanted and isinstance(node, ast.expr):
            return self._change(node)
        return super().generic_visit(node)


def _cut_from(node: ast.expr) -> ast.expr | None:
    """The text that an expression is cut out of, or made from in another way."""
    if isinstance(node, ast.Subscript):
        inner = _cut_from(node.value)
        number = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
        letter = isinstance(number, ast.Constant) and isinstance(number.value, int)
        letter = letter and (getattr(node.value, "attr", "") == "type" or shows_text(node.value))
        cut = inner is not None or letter or isinstance(node.slice, ast.Slice)
        return node.value if cut else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "__str__" or last_name(node.func.value) in ("re", "regex"):
            return None  # what is cut is an argument, or no text yet
        return node.func.value if node.func.attr in OPERATIONS else None
    return None


def _is_cut(node: ast.expr) -> bool:
    return _cut_from(node) is not None


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(*words: str) -> ast.Tuple:
    return ast.Tuple([ast.Constant(word) for word in words], ast.Load())


def _add(collection: ast.expr, words: list[str]) -> None:
    if isinstance(collection, ast.Tuple | ast.List | ast.Set):
        collection.elts = [*collection.elts, *map(ast.Constant, words)]


def _helper(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(
        ast.Attribute(ast.Name(_HELPERS, ast.Load()), name, ast.Load()), list(arguments), []
    )


def _import_helpers(tree: ast.Module) -> None:
    """The import of the helpers, after the docstring and what must come first."""
    place = 0
    for number, line in enumerate(tree.body):
        docstring = number == 0 and isinstance(line, ast.Expr) and bool(_text(line.value))
        future = isinstance(line, ast.ImportFrom) and line.module == "__future__"
        if not (docstring or future):
            break
        place = number + 1
    if any(
        isinstance(one, ast.ImportFrom) and one.names[0].asname == _HELPERS for one in tree.body
    ):
        return
    module, _, name = "hpushim.shim.run.widened".rpartition(".")
    line = ast.ImportFrom(module, [ast.alias(name, _HELPERS)], 0)
    line.lineno = line.end_lineno = 1
    line.col_offset = line.end_col_offset = 0
    tree.body.insert(place, line)
