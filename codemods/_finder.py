"""Looks through one file for CUDA device strings: what each is, what it becomes, what it belongs to."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hpushim.model import Edit, Span

from . import _text
from ._claims import claim
from ._dual import NAME, dual, either
from ._kernels import chooses_kernels
from ._strings import retext
from ._tables import by_device, table_of
from ._text import Text
from ._torch import dotted, speaks

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

    from ._flow import Flow

AVAILABLE = "torch.cuda.is_available"
_TESTS = frozenset(
    [
        "startswith",
        "endswith",
        "find",
        "index",
        "count",
        "removeprefix",
        "__contains__",
        "__eq__",
        "__ne__",
    ]
)
_CUTS = frozenset(["replace", "split", "partition", "strip", "lstrip", "removeprefix", "removesuffix", "rsplit", "rpartition"])  # fmt: skip


@dataclass(frozen=True, eq=False)
class Site:
    """A device text to rewrite: ``kind`` as in :class:`Use`, or ``unproven``, ``cut`` (taken apart)."""

    node: ast.expr
    kind: str
    text: Text
    edits: tuple[Edit, ...]
    owner: ast.AST


class Groups(Protocol):
    """What the finder tells of the things that stand or fall together."""

    def join(self, node: ast.AST, keys: list[str]) -> None:
        """``node`` belongs to everything that shares one of ``keys``."""


class Finder:
    """Finds the device texts of one file, in source order."""

    def __init__(self, module: Module, flow: Flow, groups: Groups) -> None:
        self.module = module
        self.flow = flow
        self.groups = groups
        self.sites: list[Site] = []

    def run(self) -> list[Site]:
        """The device texts; availability checks are told to the groups."""
        for node in self.module.nodes:
            if isinstance(node, (ast.Attribute, ast.Name)):
                if self._asks(node):
                    self.groups.join(node, [self._node_key(node), *self._stored_under(node)])
            elif (text := self._whole(node)) is not None:
                self._text(text)
        return self.sites

    def _asks(self, node: ast.Attribute | ast.Name) -> bool:
        """Is it the question whether there is a CUDA device?"""
        if isinstance(node, ast.Attribute) and not AVAILABLE.endswith(node.attr):
            return False
        return speaks(self.module, node) and dotted(self.module, node) == AVAILABLE

    def _whole(self, node: ast.AST) -> Text | None:
        """The device text at ``node``, when it is not a part of a larger one."""
        text = _text.read(node)
        if text is None and not isinstance(node, ast.Constant):
            return None
        parent = self.module.parent(node)
        text = text or self._prefix(node, parent)
        if text is None:
            return None
        if isinstance(parent, (ast.JoinedStr, ast.Expr)) or (parent and _text.read(parent)):
            return None
        return text

    def _prefix(self, node: ast.AST, parent: ast.AST | None) -> Text | None:
        """``"cuda:"`` that a device string is searched for or cut by."""
        if (
            isinstance(node, ast.Constant)
            and node.value == "cuda:"
            and isinstance(parent, ast.Call)
        ):
            func = parent.func
            if isinstance(func, ast.Attribute) and func.attr in _TESTS | _CUTS:
                return Text(node, "")
        return None

    def _text(self, text: Text) -> None:
        node = text.node
        if self.beside_hpu(node):
            return
        kind, owner = self._classify(text)
        if kind == "" or not _text.placed(self.module, node):
            return
        for part in ast.iter_child_nodes(node):
            claim(self.module, part)
        edits = self._edits(text, owner)
        self.sites.append(Site(node, kind, text, edits, owner))
        if kind not in ("unproven", "cut", "elsewhere", "kernels"):
            self.groups.join(node, self._anchors(node, owner, kind))

    # -- what a text is ---------------------------------------------------------------------

    def _classify(self, text: Text) -> tuple[str, ast.AST]:
        node, module = text.node, self.module
        parent = module.parent(node)
        compared = self._compared(node)
        if compared is not None:
            owner, others = compared
            if any(self.flow.device_like(other) for other in others):
                chosen = chooses_kernels(module, owner, self.flow.device_like)
                return ("kernels" if chosen else "compare"), owner
            return ("unproven" if text.surely or self._asked_of_a_name(owner, node) else ""), owner
        if isinstance(parent, ast.MatchValue):
            return self._matched(parent)
        if isinstance(parent, ast.Subscript) and node is parent.slice:
            return self._looked_up(parent, text)
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
            method, base = parent.func.attr, parent.func.value
            if node is not parent.func and (method in _CUTS or method in _TESTS):
                if not self.flow.device_like(base):
                    return "", parent
                return ("compare" if method in _TESTS - {"index", "find"} else "cut"), parent
        used = self.flow.use(node)
        if used is not None:
            return used.kind, used.node
        if _text.glued(module, node):
            return "", node
        if text.surely and not self._logged(node):
            return "name", node
        return ("unproven" if not self._logged(node) else ""), node

    def _compared(self, node: ast.AST) -> tuple[ast.Compare, list[ast.expr]] | None:
        """The comparison that a text takes part in, also as a member of a tuple, and the other sides."""
        parent = self.module.parent(node)
        side: ast.AST = node
        if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            side, parent = parent, self.module.parent(parent)
        if isinstance(parent, ast.Compare):
            return parent, [part for part in (parent.left, *parent.comparators) if part is not side]
        func = parent.func if side is not node and isinstance(parent, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr == "startswith":
            return ast.Compare(func.value, [], []), [func.value]
        return None

    def _asked_of_a_name(self, compare: ast.Compare, node: ast.expr) -> bool:
        """``impl == "cuda"``: a word that chooses something, in a file that uses torch."""
        sides = (compare.left, *compare.comparators)
        return (
            len(compare.comparators) == 1
            and any(isinstance(side, (ast.Name, ast.Attribute)) for side in sides)
            and node in sides
            and b"torch" in self.module.data
        )

    def _matched(self, value: ast.MatchValue) -> tuple[str, ast.AST]:
        for above in self.module.ancestors(value):
            if isinstance(above, ast.Match) and _has_hpu_case(above):
                return "", above
            if isinstance(above, ast.Match):
                return ("compare" if self.flow.device_like(above.subject) else "unproven"), above
        return "unproven", value

    def _looked_up(self, parent: ast.Subscript, text: Text) -> tuple[str, ast.AST]:
        """``table["cuda"]``: a table whose keys are devices."""
        if self.flow.device_like(parent.value):
            return "compare", parent
        table = table_of(self.module, parent.value)
        if table is not None and _text.read(parent.slice) is not None:
            return ("compare" if by_device(self.module, table) else ""), parent
        return ("compare" if text.surely else "unproven"), parent

    def _logged(self, node: ast.AST) -> bool:
        """Is the text written out, or given to a function that takes any text?"""
        parent = self.module.parent(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in ("help", "description", "name", "label", "title", "msg", "metavar")
        return isinstance(parent, (ast.Call, ast.FormattedValue))

    def beside_hpu(self, node: ast.AST) -> bool:
        """Does the code around the text handle ``hpu`` already, in a branch or a list of its own?"""
        child: ast.AST = node
        for above in self.module.ancestors(node):
            if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
                if any(_text.is_hpu(e) for e in above.elts):
                    return True
            elif isinstance(above, ast.Dict):
                if any(k is not None and _text.is_hpu(k) for k in above.keys) and any(
                    k is child for k in above.keys
                ):
                    return True
            elif isinstance(above, (ast.IfExp, ast.If)) or (
                isinstance(above, ast.BoolOp) and isinstance(child, ast.Compare)
            ):
                if self._chain_has_hpu(above, child):
                    return True
            elif isinstance(above, ast.stmt) and not isinstance(above, (ast.Assign, ast.Return, ast.Expr)):  # fmt: skip
                return False
            child = above
        return False

    def _chain_has_hpu(self, above: ast.AST, child: ast.AST) -> bool:
        top = above
        while isinstance(top, (ast.If, ast.IfExp)):
            outer = self.module.parent(top)
            if (isinstance(outer, ast.IfExp) and top is outer.orelse) or (isinstance(outer, ast.If) and outer.orelse == [top]):  # fmt: skip
                top = outer
            else:
                break
        while True:
            if isinstance(top, ast.BoolOp):
                return any(_mentions_hpu(v) for v in top.values if v is not child)
            if isinstance(top, ast.IfExp):
                if _mentions_hpu(top.test) or _text.is_hpu(top.body) or _text.is_hpu(top.orelse):
                    return True
                if not isinstance(top.orelse, ast.IfExp):
                    return False
                top = top.orelse
            elif isinstance(top, ast.If):
                if _mentions_hpu(top.test):
                    return True
                if len(top.orelse) != 1 or not isinstance(top.orelse[0], ast.If):
                    return False
                top = top.orelse[0]
            else:
                return False

    # -- what it becomes --------------------------------------------------------------------

    def _edits(self, text: Text, owner: ast.AST) -> tuple[Edit, ...]:
        module, node = self.module, text.node
        word = f"{_text.HPU}:0" if text.index == "0" else _text.HPU
        if isinstance(node, ast.Constant) and not (dual(module) and text.index not in ("", "0")):
            edits = [retext(module, node, word)]
        else:
            edits = [module.replace(node, _text.replacement(module, text))]
        parent = module.parent(node)
        call = module.parent(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and dotted(module, call.func) == "torch.device":
            edits += self._without_index(call)
        if isinstance(owner, ast.Compare):
            for side in (owner.left, *owner.comparators):
                edits += self._shorter_slice(side)
        return tuple(edits)

    def _without_index(self, call: ast.Call) -> list[Edit]:
        """``torch.device("cuda", rank)``: the index goes with what stands between it and the type."""
        index: ast.AST | None = call.args[1] if len(call.args) == 2 else None
        if index is None:
            index = next((k for k in call.keywords if k.arg == "index"), None)
        value = index.value if isinstance(index, ast.keyword) else index
        if index is None or self.module.constant(value) == 0:  # type: ignore[arg-type]
            return []
        others = [a for a in (*call.args, *call.keywords) if a is not index]
        before = [a for a in others if self.module.span(a).end <= self.module.span(index).start]
        if not before:
            return []
        claim(self.module, index)
        if dual(self.module) and value is not None:
            kept = either("0", self.module.source(value))[1:-1]
            return [self.module.replace(value, kept)]
        start = max(self.module.span(a).end for a in before)
        return [self.module.replace(Span(start, self.module.span(index).end), "")]

    def _shorter_slice(self, side: ast.expr) -> list[Edit]:
        """``device[:4] == "cuda"``: the slice is as long as the word."""
        if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
            upper = side.slice.upper
            if side.slice.lower is None and upper is not None and self.module.constant(upper) == 4:
                length = f"len({NAME})" if dual(self.module) else str(len(_text.HPU))
                return [self.module.replace(upper, length)]
        return []

    # -- what it belongs to -----------------------------------------------------------------

    def _anchors(self, node: ast.expr, owner: ast.AST, kind: str) -> list[str]:
        keys: list[str] = []
        if kind == "compare":
            sides = [owner.left, *owner.comparators] if isinstance(owner, ast.Compare) else []
            for side in sides:
                keys += self._name_keys(side)
            if isinstance(owner, ast.Match):
                keys += self._name_keys(owner.subject)
            if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
                keys += self._name_keys(owner.func.value)
            return keys
        child: ast.AST = node
        for above in self.module.ancestors(node):
            if (isinstance(above, ast.IfExp) and child is not above.test) or (
                isinstance(above, ast.If) and child is not above.test
            ):
                keys += self._condition_keys(above.test)
            elif isinstance(above, (ast.BoolOp, ast.Subscript, ast.NamedExpr)):
                keys += self._condition_keys(above)
            elif isinstance(above, (ast.Assign, ast.AnnAssign)):
                targets = above.targets if isinstance(above, ast.Assign) else [above.target]
                for target in targets:
                    keys += self._name_keys(target)
            elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            child = above
        return keys

    def _condition_keys(self, test: ast.AST) -> list[str]:
        """The availability checks in a condition, and the flags in it that come from one."""
        keys: list[str] = []
        for part in ast.walk(test):
            if isinstance(part, (ast.Attribute, ast.Name)):
                if dotted(self.module, part) == AVAILABLE:
                    keys.append(self._node_key(part))
                elif isinstance(part, ast.Name) and self._holds_check(part):
                    keys += self._name_keys(part)
        return keys

    def _holds_check(self, name: ast.Name) -> bool:
        return any(self._has_check(b.value) for b in self.module.bindings(name))

    def _has_check(self, value: ast.expr | None) -> bool:
        return value is not None and any(
            isinstance(part, (ast.Attribute, ast.Name)) and dotted(self.module, part) == AVAILABLE
            for part in ast.walk(value)
        )

    def _stored_under(self, node: ast.AST) -> list[str]:
        """The name that holds the answer of an availability check."""
        statement = self.module.statement(node)
        if isinstance(statement, ast.Assign) and not isinstance(statement.value, ast.IfExp):
            return [key for t in statement.targets for key in self._name_keys(t)]
        return []

    def _name_keys(self, node: ast.AST) -> list[str]:
        while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
            if isinstance(node, ast.Attribute):
                if node.attr == "type":
                    node = node.value
                    continue
                return [f"attribute {node.attr}"] if isinstance(node.value, ast.Name) else []
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
                    node = node.args[0]
                    continue
                return []
            node = node.value
        if isinstance(node, ast.Name):
            bound = self.module.bindings(node)
            if bound:
                return [f"name {node.id} {getattr(bound[0].node, 'lineno', 0)}"]
        return []

    def _node_key(self, node: ast.AST) -> str:
        return f"check {self.module.span(node).start}"


def _has_hpu_case(match: ast.Match) -> bool:
    return any(
        isinstance(part, ast.MatchValue) and _text.is_hpu(part.value)
        for case in match.cases
        for part in ast.walk(case.pattern)
    )


def _mentions_hpu(node: ast.AST) -> bool:
    return any(
        _text.is_hpu(part) or (isinstance(part, (ast.Attribute, ast.Name))
                               and "hpu" in getattr(part, "attr", getattr(part, "id", "")).lower())
        for part in ast.walk(node)
    )  # fmt: skip
