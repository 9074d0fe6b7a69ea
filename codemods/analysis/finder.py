"""Looks through one file for CUDA device strings: what each is, what it becomes, what it belongs to."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hpushim.compare.beside import Beside
from hpushim.compare.subjects import OF_SETS
from hpushim.engine.python.changes import Change, Remove, Replace
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits import spelling
from .device_index import reads_index
from .device_texts import DeviceText, device_texts, glued, is_hpu, is_switch, read
from .kernels import chooses_kernels
from .roles import Role
from .tables import by_device, table_of

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

    from .flow import Flow

#: Comparisons of unittest.
_EQUAL = frozenset(["assertEqual", "assertNotEqual", "assertIn", "assertNotIn"])
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
    """A device text with what it is to the code around it; ``owner`` is the node that shows it."""

    text: DeviceText
    role: Role
    owner: ast.AST
    changes: tuple[Change, ...]
    #: What goes with it, or is a part of it: no other rule speaks of these.
    covers: tuple[ast.AST, ...] = ()

    @property
    def node(self) -> ast.expr:
        return self.text.node


class Finder:
    """Finds the device texts of one file, in source order."""

    def __init__(self, module: Module, flow: Flow) -> None:
        self.module = module
        self.flow = flow
        self._values = module.view(Values)
        self._beside = module.view(Beside)

    @cached_property
    def keeps_index(self) -> bool:
        """Is an index read again, so that a device which has one must have one on Gaudi?"""
        return reads_index(self.module, self.is_device)

    def is_device(self, node: ast.AST) -> bool:
        """Does the expression hold a device, as a name that is given ``"cuda:1"`` does, whatever it is called?"""
        if self.flow.device_like(node):
            return True
        values = self._values.origins(node) if isinstance(node, ast.Name) else []
        return any(text.surely for value in values if (text := read(value)) is not None)

    def sites(self) -> list[Site]:
        """Every device text that some rule has to speak of."""
        texts = [*device_texts(self.module), *self._prefixes()]
        texts.sort(key=lambda text: (text.node.lineno, text.node.col_offset))
        return [site for text in texts if (site := self._site(text)) is not None]

    def _prefixes(self) -> list[DeviceText]:
        """``"cuda:"`` that a device string is searched for or cut by."""
        found: list[DeviceText] = []
        for constant in self.module.index.strings("cuda:"):
            parent = self.module.parent(constant)
            func = parent.func if isinstance(parent, ast.Call) else None
            if (
                constant.value == "cuda:"
                and isinstance(func, ast.Attribute)
                and func.attr in _TESTS | _CUTS
            ):
                found.append(DeviceText(constant, ""))
        return found

    def _site(self, text: DeviceText) -> Site | None:
        node = text.node
        if node in self.module.index.lost or self.beside_hpu(node):
            return None
        found = self._classify(text)
        if found is None or found[0] is Role.OTHER_RULE:
            return None
        role, owner = found
        changes, gone = self._changes(text, owner)
        covers = (*ast.iter_child_nodes(node), *gone)
        return Site(text, role, owner, changes, covers)

    # -- what a text is ---------------------------------------------------------------------

    def _classify(self, text: DeviceText) -> tuple[Role, ast.AST] | None:
        """The role of a text and the node that shows it; None where it is no device for any rule to speak of."""
        node, module = text.node, self.module
        parent = module.parent(node)
        if is_switch(module, node):
            return None
        compared = self._compared(node)
        if compared is not None:
            owner, others = compared
            compare = owner if isinstance(owner, ast.Compare) else None
            if any(self.flow.device_like(other) for other in others):
                if compare and chooses_kernels(module, compare, self.flow.device_like):
                    return Role.KERNELS, owner
                return Role.COMPARE, owner
            told = text.surely or (compare and self._asked_of_a_name(compare, node))
            return (Role.UNPROVEN, owner) if told else None
        if isinstance(parent, ast.MatchValue):
            return self._matched(parent)
        if isinstance(parent, ast.Subscript) and node is parent.slice:
            return self._looked_up(parent, text)
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
            method, base = parent.func.attr, parent.func.value
            if node is not parent.func and (method in _CUTS or method in _TESTS):
                if not self.flow.device_like(base):
                    return None
                tests = method in _TESTS - {"index", "find"}
                return (Role.COMPARE if tests else Role.CUT), parent
        used = self.flow.use(node)
        if used is not None:
            chosen = used.role is Role.OTHER_RULE and self._is_chosen_for_torch(node, used.node)
            return Role.BRANCH if chosen else used.role, used.node
        if glued(module, node) or self._logged(node):
            return None
        return (Role.NAME if text.surely else Role.UNPROVEN), node

    def _is_chosen_for_torch(self, node: ast.expr, call: ast.AST) -> bool:
        """``torch.autocast("cuda" if use_cuda else "cpu")``: the rule that has the call takes a plain word only."""
        parent = self.module.parent(node)
        if not isinstance(call, ast.Call) or not isinstance(parent, (ast.IfExp, ast.BoolOp)):
            return False
        return (self.module.qualified(call.func) or "").startswith("torch.")

    def _compared(self, node: ast.AST) -> tuple[ast.AST, list[ast.expr]] | None:
        """The comparison that a text takes part in, also as a member of a tuple, and the other sides.

        ``device.startswith(("cuda", "xpu"))`` and ``self.assertEqual(x.device.type, "cuda")`` are some as well.
        """
        parent = self.module.parent(node)
        side: ast.AST = node
        if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            side, parent = parent, self.module.parent(parent)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, OF_SETS) and side is not node:
            return parent, [parent.right if side is parent.left else parent.left]
        if isinstance(parent, ast.Compare):
            return parent, [part for part in (parent.left, *parent.comparators) if part is not side]
        func = parent.func if isinstance(parent, ast.Call) else None
        if not isinstance(parent, ast.Call) or not isinstance(func, ast.Attribute):
            return None
        if func.attr in _EQUAL:
            others = [arg for arg in parent.args if arg is not side]
            return (parent, others) if any(map(self.flow.device_like, others)) else None
        if side is not node and func.attr == "startswith":
            return parent, [func.value]
        return None

    def _asked_of_a_name(self, compare: ast.Compare, node: ast.expr) -> bool:
        """``impl == "cuda"``: a word that chooses something, in a file that uses torch."""
        sides = (compare.left, *compare.comparators)
        return (
            len(compare.comparators) == 1
            and any(isinstance(side, (ast.Name, ast.Attribute)) for side in sides)
            and node in sides
            and self.module.holds("torch")
        )

    def _matched(self, value: ast.MatchValue) -> tuple[Role, ast.AST] | None:
        for above in self.module.ancestors(value):
            if isinstance(above, ast.Match) and _has_hpu_case(above):
                return None
            if isinstance(above, ast.Match):
                like = self.flow.device_like(above.subject)
                return (Role.COMPARE if like else Role.UNPROVEN), above
        return Role.UNPROVEN, value

    def _looked_up(self, parent: ast.Subscript, text: DeviceText) -> tuple[Role, ast.AST] | None:
        """``table["cuda"]``: a table whose keys are devices."""
        if self.flow.device_like(parent.value):
            return Role.COMPARE, parent
        table = table_of(self.module, parent.value)
        if table is not None and read(parent.slice) is not None:
            return (Role.COMPARE, parent) if by_device(self.module, table) else None
        return (Role.COMPARE if text.surely else Role.UNPROVEN), parent

    def _logged(self, node: ast.AST) -> bool:
        """Is the text written out, or given to a function that takes any text?"""
        parent = self.module.parent(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in ("help", "description", "name", "label", "title", "msg", "metavar")
        return isinstance(parent, (ast.Call, ast.FormattedValue))

    def beside_hpu(self, node: ast.AST) -> bool:
        """Does the code around the text handle ``hpu`` already, in a branch or a list of its own?"""
        if not self._beside.names:
            return False
        child: ast.AST = node
        for above in self.module.ancestors(node):
            if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
                if any(is_hpu(e) for e in above.elts):
                    return True
            elif isinstance(above, ast.Dict):
                if any(k is not None and is_hpu(k) for k in above.keys) and any(
                    k is child for k in above.keys
                ):
                    return True
            elif isinstance(above, (ast.IfExp, ast.If)) or (
                isinstance(above, ast.BoolOp) and isinstance(child, ast.Compare)
            ):
                if self._chain_has_hpu(above, child):
                    return True
                if isinstance(above, ast.If) and child is above.test and self._next_to_hpu(above):
                    return True
            elif isinstance(above, ast.stmt) and not isinstance(above, (ast.Assign, ast.Return, ast.Expr)):  # fmt: skip
                return False
            child = above
        return False

    def _next_to_hpu(self, branch: ast.If) -> bool:
        """Does another ``if`` of the block compare with ``hpu``: branches that return instead of ``elif``?"""
        return any(
            one is not branch
            and isinstance(one.test, ast.Compare)
            and one.test in self._beside.texts
            for one in self._beside.branches(self.module.block(branch))
        )

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
                return any(v in self._beside.names for v in top.values if v is not child)
            if isinstance(top, ast.IfExp):
                if top.test in self._beside.names or is_hpu(top.body) or is_hpu(top.orelse):
                    return True
                if not isinstance(top.orelse, ast.IfExp):
                    return False
                top = top.orelse
            elif isinstance(top, ast.If):
                if top.test in self._beside.names:
                    return True
                if len(top.orelse) != 1 or not isinstance(top.orelse[0], ast.If):
                    return False
                top = top.orelse[0]
            else:
                return False

    # -- what it becomes --------------------------------------------------------------------

    def _changes(
        self, text: DeviceText, owner: ast.AST
    ) -> tuple[tuple[Change, ...], tuple[ast.AST, ...]]:
        """What is written instead, and the nodes that go."""
        module, node = self.module, text.node
        kept = text.index not in ("", "0") and self.keeps_index
        changes: list[Change] = [spelling.device(module, node, text.index, keeps_index=kept)]
        gone: tuple[ast.AST, ...] = ()
        parent = module.parent(node)
        call = module.parent(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and module.qualified(call.func) == "torch.device":
            index = self._other_index(call)
            if index is not None:
                changes.append(self._without(index, keeps_index=self.keeps_index))
                gone = (index,)
        if isinstance(owner, ast.Compare):
            for side in (owner.left, *owner.comparators):
                changes += self._shorter_slice(side)
        return tuple(changes), gone

    def _other_index(self, call: ast.Call) -> ast.expr | ast.keyword | None:
        """The index in ``torch.device("cuda", rank)`` that is not device 0."""
        index: ast.expr | ast.keyword | None = call.args[1] if len(call.args) == 2 else None
        if index is None:
            index = next((k for k in call.keywords if k.arg == "index"), None)
        value = index.value if isinstance(index, ast.keyword) else index
        if index is None or self.module.constant(value) == 0:
            return None
        others = [a for a in (*call.args, *call.keywords) if a is not index]
        before = [a for a in others if self.module.span(a).end <= self.module.span(index).start]
        return index if before else None

    def _without(self, index: ast.expr | ast.keyword, keeps_index: bool) -> Change:
        if keeps_index or spelling.dual(self.module):
            value = index.value if isinstance(index, ast.keyword) else index
            return spelling.zero(self.module, value)
        return Remove(index)

    def _shorter_slice(self, side: ast.expr) -> list[Change]:
        """``device[:4] == "cuda"``: the slice is as long as the word."""
        if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
            upper = side.slice.upper
            if side.slice.lower is None and upper is not None and self.module.constant(upper) == 4:
                word = spelling.ACCELERATOR if spelling.dual(self.module) else None
                length = f"len({word})" if word else str(len(spelling.DEVICE))
                return [Replace(upper, length)]
        return []


def _has_hpu_case(match: ast.Match) -> bool:
    return any(
        isinstance(part, ast.MatchValue) and is_hpu(part.value)
        for case in match.cases
        for part in walk(case.pattern)
    )
