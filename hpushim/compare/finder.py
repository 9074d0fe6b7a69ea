"""Finds the comparisons of devices with CUDA in one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.compare import spelling, texts
from hpushim.compare.comparison import Comparison, Form
from hpushim.compare.functions import function_comparison
from hpushim.compare.inside import compared_inside, is_changed_inside, readings_of
from hpushim.compare.other_branches import handles_hpu
from hpushim.compare.subjects import OF_SETS, SET_METHODS, Evidence, Holds
from hpushim.pycode.places import At, Part, last_name
from hpushim.pycode.source import Source
from hpushim.pycode.walk import walk


def find(source: Source) -> list[Comparison]:
    """The comparisons in a file, in the order of its lines."""
    finder = _Finder(source)
    found = [one for node in walk(source.tree) for one in finder.look(node)]
    return _in_order(found)


def find_named(source: Source) -> list[Comparison]:
    """Of the comparisons in a file those that may name CUDA or be made with a text put together."""
    finder = _Finder(source)
    index = source.index
    units = index.holding(_NAMED) if index.data else index.units
    nodes = (node for unit in units for node in _around_names(source, index.within(unit)))
    return _in_order([one for node in nodes for one in finder.look(node)])


def _around_names(source: Source, nodes: list[ast.AST]) -> list[ast.AST]:
    """Of the nodes of a unit those in which such a name is: what a comparison names is in it."""
    if isinstance(nodes[0], ast.Match):
        return nodes
    held: set[ast.AST] = set()
    for node in filter(_may_name, nodes):
        above: ast.AST | None = node
        while above is not None and above not in held:
            held.add(above)
            above = source.parent(above) if above is not nodes[0] else None
    return [node for node in nodes if node in held]


def _may_name(node: ast.AST) -> bool:
    """Cheap, before anything is requested from values: a text of CUDA's name or of a part of it, what searches, what looks up by such a text."""
    kind = node.__class__
    if kind is ast.Constant:
        return texts.names_cuda(node) or texts.is_part(node)
    if kind is ast.Subscript:
        key = node.slice  # type: ignore[attr-defined]
        return isinstance(key, ast.JoinedStr) or (isinstance(key, ast.BinOp) and _may_be_text(key))
    if kind is ast.Call:
        name, args = last_name(node.func), node.args  # type: ignore[attr-defined]
        if name in _READS or name in _LOOKUPS:
            return len(args) > 1 and not isinstance(args[name in _READS], ast.Constant)
        return name in _SEARCHES
    return kind is ast.Match  # its patterns are in statements of their own


def _may_be_text(node: ast.BinOp) -> bool:
    """Is it no arithmetic, as ``i + 1`` and ``2 * i`` are?"""
    return isinstance(node.op, ast.Add | ast.Mod) and not any(
        isinstance(side, ast.Constant) and not isinstance(side.value, str)
        for side in (node.left, node.right)
    )


def _in_order(found: list[Comparison]) -> list[Comparison]:
    return sorted(_apart(found), key=lambda one: (one.node.lineno, one.node.col_offset))


def _apart(found: list[Comparison]) -> list[Comparison]:
    """Without what is reported twice: of a text that is compared inside of a comparison, the inner one where that can be mapped."""
    inside = [one for one in found if one.form is Form.INSIDE]
    others = {one.node for one in found if one.form is not Form.INSIDE}
    dropped: set[ast.AST] = set()
    for one in inside:
        parts = {part for part in ast.walk(one.node) if part in others and part is not one.node}
        if parts and isinstance(one.node, ast.Compare):
            changed = any(map(is_changed_inside, (one.node.left, *one.node.comparators)))
            dropped |= parts if changed else {one.node}
    return [one for one in found if one.node not in dropped]


_EQUALITY = (ast.Eq, ast.NotEq)
_SETS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TESTS = frozenset(("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "__contains__", "__eq__", "__ne__"))  # fmt: skip
_CUTS = frozenset(("replace", "split", "rsplit", "partition", "rpartition", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"))  # fmt: skip
_LOOKUPS = frozenset(("get", "pop", "setdefault", "index", "__getitem__"))
_READS = frozenset(("getattr", "hasattr"))
_SEARCHES = frozenset(("match", "search", "fullmatch", "fnmatch", "fnmatchcase", "findall", "finditer", "sub", "subn", "filter"))  # fmt: skip
#: What has to be written in a statement for :func:`_may_name` to be true of a node there.
#: A part of CUDA's name as a text of its own.
PART = re.compile(rb"""["'](?:%s)["']""" % "|".join(sorted(texts.PARTS)).encode())
_NAMED = re.compile(
    rb"(?i:cuda)|%s|\[|\b(?:match|%s)\b"
    % (PART.pattern, "|".join(sorted(_SEARCHES | _READS | _LOOKUPS)).encode())
)
_MODULES = frozenset(
    ("re", "regex", "fnmatch")
)  # their functions are named as methods of texts are
_PAIRS = frozenset(("eq", "ne", "is_", "contains", "assertEqual", "assertNotEqual", "assertEquals", "assertIn", "assertNotIn", "assertCountEqual", "assertStartsWith"))  # fmt: skip


class _Finder:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._evidence = source.view(Evidence)

    def look(self, node: ast.AST) -> Iterator[Comparison]:
        """What a node compares."""
        if isinstance(node, ast.Compare):
            yield from self._compare(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from self._lookup(node, node.value, node.slice)
            yield from self._cut(node)
        elif isinstance(node, ast.Subscript):
            yield from self._written(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, OF_SETS):
            yield from self._of_sets(node, node.left, [node.right])
        elif isinstance(node, ast.Match):
            yield from self._match(node)
        if isinstance(node, ast.Call | ast.Attribute):
            applied = function_comparison(node, self._source)
            if applied is not None:
                named: list[ast.expr] = [
                    one
                    for one in ast.walk(node)
                    if isinstance(one, ast.expr) and texts.is_beginning(one)
                ]
                sure = any(self._evidence.is_device(one) for one in applied)
                yield self._made(node, Form.FUNCTION, [node], named, sure=sure)

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
        if not word or any(map(is_changed_inside, sides)):
            inside = compared_inside(node, self._evidence)
            if inside[0]:
                yield self._made(node, Form.INSIDE, *inside, sure=True)
                return
        if not word and isinstance(node.ops[0], _EQUALITY):
            subjects, named = self._sets(*sides[:2], unknown=True)
        if subjects:
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
            shown = self._evidence.is_device(subject) or self._evidence.is_composed(subject)
            if self._evidence.spells_cuda(other) and shown and not texts.is_hpu(subject):
                return [subject], []
        for subject, other in ((left, right), (right, left)):
            if self._is_other_spelling(subject, other):
                return [subject], [other]
        return self._sets(left, right)

    def _is_other_spelling(self, subject: ast.expr, other: ast.expr) -> bool:
        """Whether a literal is what a text made of a device's is on CUDA: ``"run-cuda"``, ``"CUDA"``, ``"cu"``."""
        if not isinstance(other, ast.Constant):
            return False
        if texts.names_cuda(other) and self._evidence.is_composed(subject):
            return True
        cut = isinstance(subject, ast.Subscript | ast.Call) and self._evidence.is_reading(subject)
        return cut and (texts.is_part(other) or texts.is_cased(other))

    def _sets(
        self, left: ast.expr, right: ast.expr, *, unknown: bool = False
    ) -> tuple[list[ast.expr], list[ast.expr]]:
        """``{p.device.type for p in parameters} == {"cuda"}``; with ``unknown`` whatever the subject is."""
        for subject, other in ((left, right), (right, left)):
            if isinstance(other, ast.Set | ast.List | ast.Tuple):
                named = [one for one in other.elts if texts.is_cuda(one)]
                if named and (unknown or self._evidence.is_device(subject)):
                    return [subject], named
        if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
            return [], []
        for subject, other in ((left, right), (right, left)):
            if self._evidence.holds_other(At(subject), At(other)):
                return [left, right], [one for one in ast.walk(other) if isinstance(one, ast.expr) and texts.is_cuda(one)]  # fmt: skip
        return [], []

    def _member(
        self, left: ast.expr, right: ast.expr
    ) -> tuple[tuple[list[ast.expr], list[ast.expr]], Form]:
        evidence = self._evidence
        if texts.is_beginning(left) or evidence.spells_cuda(left):
            named = [left] if texts.is_beginning(left) else []
            if evidence.is_device(right) and not isinstance(right, ast.Dict):
                return ([right], named), Form.SEARCH
            if evidence.is_composed(right) or evidence.has_readings(right) or (named and spelling.is_word(right)):  # fmt: skip
                return ([right], named), Form.SEARCH
            return ([], []), Form.SEARCH
        if texts.names_cuda(left) and any(
            map(spelling.is_shown, (right, *evidence.origins(right)))
        ):
            return ([right], [left]), Form.SEARCH
        if self._is_other_spelling(right, left):
            return ([right], [left]), Form.SEARCH
        if texts.constant(left):
            return ([], []), Form.MEMBER
        members = evidence.members(right)
        if members is not None:
            here = [one for one in members if texts.is_cuda(one)]
            if here or any(evidence.spells_cuda(one) for one in members):
                literal = isinstance(right, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Call)
                return ([left], here if literal else []), Form.MEMBER
        items = At(right, (Part.ITEM,))
        if evidence.holds_other(At(left), items):
            return ([left], []), Form.MEMBER
        if evidence.holds_other(items, At(left)):
            return ([right], []), Form.MEMBER
        if members is not None:
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
            elif name in SET_METHODS:
                yield from self._of_sets(node, base, node.args)
            if name in _LOOKUPS and node.args:
                yield from self._lookup(node, base, node.args[0])
        elif name in _READS and len(node.args) > 1:
            yield from self._attribute(node, *node.args[:2])
        elif (owner := self._evidence.values.calls.class_named(called)) and len(node.args) == 1:
            yield from self._enumeration(node, owner)
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
        subject, given = base, node.args
        if isinstance(base, ast.Name) and base.id == "str" and len(given) > 1:
            subject, given = given[0], given[1:]  # str.startswith(text, "cuda")
        elif texts.is_beginning(base) and given and self._evidence.is_device(given[0]):
            yield self._made(node, Form.METHOD, [given[0]], [base])
            return
        elif last_name(base) in _MODULES:
            return
        words = [one for arg in given for one in spelling.elements(arg)]
        named = [one for one in words if texts.is_beginning(one)]
        if self._evidence.is_device(subject):
            if not named and (name in _TESTS or "fix" in name):
                named = [one for one in words if texts.is_part(one) or texts.is_cased(one)]
            known = named or [one for one in words if self._spells(one)]
        else:
            composed = self._evidence.is_composed(subject)
            known = [one for one in words if texts.names_cuda(one)] if composed else []
            known = known or (named if spelling.is_word(subject) else [])
            named = known
        if known:
            yield self._made(node, Form.METHOD, [subject], named)
            return
        named = [one for one in words if texts.names_cuda(one)] if name in _TESTS else []
        inside = readings_of(subject, self._evidence) if named else []
        if inside:
            yield self._made(node, Form.INSIDE, inside, named, sure=True)

    def _spells(self, node: ast.expr) -> bool:
        """Whether a name holds CUDA's text, the beginning of one, or a collection with one in it."""
        if self._evidence.spells_cuda(node):
            return True
        if any(texts.is_beginning(one) for one in self._evidence.members(node) or ()):
            return True
        return any(isinstance(one, ast.Constant) and texts.is_beginning(one) for one in self._evidence.origins(node))  # fmt: skip

    def _cut(self, node: ast.Subscript) -> Iterator[Comparison]:
        """``str(device)[5:]``, ``text[len("cuda:"):]``: what is behind CUDA's name."""
        start = node.slice.lower if isinstance(node.slice, ast.Slice) else None
        if not self._evidence.is_reading(node.value):
            return
        if isinstance(start, ast.Constant) and start.value in (len("cuda"), len("cuda:")):
            yield self._made(node, Form.METHOD, [node.value], [])
        elif isinstance(start, ast.Call) and last_name(start.func) == "len" and start.args:
            named = [one for one in start.args if texts.is_beginning(one)]
            if named or self._spells(start.args[0]):
                yield self._made(node, Form.METHOD, [node.value], named)

    def _of_sets(
        self, node: ast.expr, base: ast.expr, given: list[ast.expr]
    ) -> Iterator[Comparison]:
        """``{"cuda"}.issubset(types)``, ``types.isdisjoint({"cuda"})``, ``types & {"cuda"}``."""
        for subject, other in ((base, given), *((one, [base]) for one in given)):
            if not self._evidence.is_device(subject):
                continue
            named = [text for one in other for text in self._evidence.members(one) or () if texts.is_cuda(text)]  # fmt: skip
            if named:
                yield self._made(node, Form.METHOD, [subject], named)
                return

    def _enumeration(self, node: ast.Call, owner: ast.ClassDef) -> Iterator[Comparison]:
        """``Kind(x.device.type)``, of an enumeration with CUDA's text among its values."""
        if not self._evidence.is_reading(node.args[0]):
            return
        values = [one.value for one in owner.body if isinstance(one, ast.Assign)]
        if any(texts.is_cuda(one) for one in values):
            yield self._made(node, Form.METHOD, [node.args[0]], [], known=values)

    def _attribute(self, node: ast.Call, owner: ast.expr, name: ast.expr) -> Iterator[Comparison]:
        """``getattr(self, f"run_{x.device.type}")``, ``getattr(torch, x.device.type)``."""
        if isinstance(name, ast.Constant):
            return
        if self._evidence.is_composed(name) or self._evidence.is_reading(name):
            yield self._made(node, Form.LOOKUP, [name], [], sure=True)

    def _search(self, node: ast.Call) -> Iterator[Comparison]:
        """``re.match("cuda", text)``, ``pattern.match(text)``, ``fnmatch(text, "cuda*")``."""
        parts = list(node.args)
        named = [one for one in parts if texts.is_pattern(one)]
        evidence = self._evidence
        subjects = [one for one in parts if one not in named and (evidence.is_device(one) or evidence.is_composed(one))]  # fmt: skip
        compiled = node.func.value if isinstance(node.func, ast.Attribute) else None
        if subjects and (named or self._is_pattern(compiled) or any(map(self._is_pattern, parts))):
            yield self._made(node, Form.SEARCH, subjects[:1], named, sure=True)

    def _is_pattern(self, node: ast.expr | None) -> bool:
        """Whether a name holds an expression that mentions CUDA, compiled or not."""
        values = self._evidence.origins(node) if isinstance(node, ast.Name | ast.Attribute) else [node]  # fmt: skip
        return any(
            (texts.is_pattern(value) and value is not node)
            or (
                isinstance(value, ast.Call)
                and getattr(value.func, "attr", "") == "compile"
                and any(texts.is_pattern(arg) for arg in value.args)
            )
            for value in values
        )

    # -- tables and patterns ----------------------------------------------------------------

    def _lookup(self, node: ast.expr, table: ast.expr, key: ast.expr) -> Iterator[Comparison]:
        evidence = self._evidence
        if isinstance(key, ast.Constant) or texts.is_cuda(key):
            if texts.is_cuda(key):
                yield from self._looked_up_for_cuda(node, table, key)
            return
        composed = evidence.is_composed(key)
        of_pair = bool(evidence.holds(key, (Part.ITEM,)) & Holds.READING)
        pair = [one for one in getattr(key, "elts", ()) if texts.is_cuda(one)]
        if pair and evidence.holds_other(At(table, (Part.ITEM,)), At(key)):
            yield self._made(node, Form.LOOKUP, [table], pair)
            return
        if isinstance(key, ast.Slice) or not (composed or of_pair or evidence.is_device(key)):
            return
        members = evidence.members(table)
        named = [one for one in members or () if texts.is_cuda(one)]
        spelled = any(map(evidence.spells_cuda, members or ()))
        # A table by name may have got more keys, or come from elsewhere: the text of a device says enough.
        known = composed or of_pair or evidence.is_reading(key)
        if spelled or (known and spelling.may_be_table(table)) or ((composed or of_pair) and isinstance(table, ast.Dict)):  # fmt: skip
            here = named if isinstance(table, ast.Dict) else []
            yield self._made(node, Form.LOOKUP, [key], here, known=members)

    def _written(self, node: ast.Subscript) -> Iterator[Comparison]:
        """``counts[x.device.type] += 1``, of a table that may have CUDA's entry already."""
        table = node.value
        while isinstance(table, ast.Attribute):
            table = table.value
        read = self._evidence.is_reading(node.slice) or self._evidence.is_composed(node.slice)
        if isinstance(table, ast.Name) and read and not isinstance(node.slice, ast.Slice):
            known = self._evidence.members(node.value)
            yield self._made(node, Form.LOOKUP, [node.slice], [], known=known, sure=True)

    def _looked_up_for_cuda(
        self, node: ast.expr, table: ast.expr, key: ast.expr
    ) -> Iterator[Comparison]:
        """``counts["cuda"]``, ``counts.get("cuda")``: of a table whose keys were read from devices."""
        sure = self._evidence.has_readings(table)
        looked_up = isinstance(node, ast.Call) and last_name(node.func) in ("get", "pop")
        if not sure and (self._evidence.members(table) is not None or not (looked_up or self._is_grown(table))):  # fmt: skip
            return
        known = [*(self._evidence.members(table) or ()), *self._evidence.looked_up_keys(table)]  # fmt: skip
        yield self._made(node, Form.LOOKUP, [table], [key], known=known, sure=sure)

    def _is_grown(self, table: ast.expr) -> bool:
        """Whether a name is bound to a table that the program fills while it runs."""
        calls = self._evidence.values.calls
        return isinstance(table, ast.Name) and any(
            isinstance(one, ast.DictComp)
            or (isinstance(one, ast.Call) and last_name(one.func) in ("Counter", "defaultdict", "OrderedDict"))
            or (isinstance(one, ast.expr) and any(calls.method(owner, "__missing__") for owner in calls.classes_of(one)))
            for one in self._evidence.origins(table)
        )  # fmt: skip

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
        sure: bool | None = None,
    ) -> Comparison:
        if sure is None:
            evidence = self._evidence
            sure = any(
                evidence.is_device(one) or evidence.is_composed(one) or evidence.has_readings(one)
                for one in subjects
            )
        handled = handles_hpu(self._source, node) or any(texts.is_hpu(one) for one in known or ())
        if isinstance(node, ast.Compare):
            handled = handled or any(
                texts.is_hpu(one)
                for side in (node.left, *node.comparators)
                for one in self._evidence.members(side) or ()
            )
        return Comparison(node, form, tuple(subjects), tuple(named), sure, handled)
