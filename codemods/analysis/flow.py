"""Where a value goes: does a string reach a place that takes a device?

A device text is rewritten when there is evidence that it is one: it is given to a torch function that
takes a device, stands beside ``"cpu"``, is stored under a name such as ``device``, or flows to such a place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.compare.subjects import Evidence as Subjects
from hpushim.matrix import signatures
from hpushim.pycode.answers import Answers
from hpushim.pycode.places import At, Cell, Edge, Part, last_name
from hpushim.pycode.values import Values

from .callee import declares_device
from .device_texts import device_name, glued, is_type_of_text, other_device, read
from .names import foreign
from .roles import Evidence, Role
from .spelled_names import is_name, part_of_name
from .tables import by_device

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: What a place is to the rules, by the function; ``map_location`` is one of all that read a checkpoint.
_ROLES = {"torch.device": Role.DEVICE, "torch.set_default_device": Role.DEFAULT}
#: Calls whose device argument belongs to rules of precision and of distributed training.
_ELSEWHERE = (
    "torch.autocast",
    "torch.amp.",
    "torch.cuda.amp.",
    "torch.is_autocast_",
    "torch.get_autocast_",
    "torch.set_autocast_",
    "torch.distributed.",
    "lightning.",
    "pytorch_lightning.",
)
#: Calls and methods that take any text: an argument of theirs says nothing.
ANY_TEXT = frozenset(
    [
        "print",
        "write",
        *("title", "header", "subheader", "caption", "markdown"),
        "info",
        "debug",
        "warning",
        "error",
        "critical",
        "exception",
        "log",
        "append",
        "add",
        "insert",
        "extend",
        "join",
        "replace",
        "format",
        "encode",
        "remove",
        "discard",
        "index",
        "count",
        "find",
        "rfind",
        "strip",
        "removeprefix",
        "removesuffix",
        "split",
        "warn",
        "input",
        "getattr",
        "hasattr",
        "delattr",
        "isinstance",
        "exec",
        "eval",
        "compile",
        "match",
        "search",
        "sub",
        "fullmatch",
        "findall",
        "run",
        "check_output",
        "check_call",
        "Popen",
        "system",
        "exists",
        "isfile",
        "isdir",
        "open",
    ]
)
_OPTION_PARTS = ("default", "choices", "const", "value", "default_factory", "options")
#: Beginnings of functions that ask instead of choosing.
_QUESTIONS = ("is_", "has_", "supports_", "count_", "list_")


def _device_parameter(name: str) -> tuple[str, int | None]:
    """Name and place of the parameter of torch's that takes a device; nothing for a function without one."""
    signature = signatures.of(name) if name.startswith("torch.") else None
    return (signature and signature.parameter("device")) or ("", None)


def _takes_word(name: str) -> bool:
    """Is it one of the autocast family that only takes the word, by place or as ``device_type``? No other rule has them."""
    signature = signatures.of(name) if name.startswith("torch.") else None
    return (
        signature is not None
        and signature.form == "function"
        and not name.startswith("torch.distributed.")
        and any(written == "device_type" for _, written, _ in signature.takes)
    )


class Flow:
    """Follows values through one file, forward from the texts: ``use``; back from what is compared: ``device_like``."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._values = module.view(Values)
        self._subjects = module.view(Subjects)
        self._known: dict[ast.AST, Evidence | None] = {}
        self._taken: dict[ast.Dict, bool] = {}
        self._reaches = Answers[int](self._shows, self._onward)

    def use(self, node: ast.AST) -> Evidence | None:
        """The evidence that ``node``'s value is a device, None without any."""
        if node not in self._known:
            self._known[node] = None  # what comes back to itself proves nothing
            self._known[node] = self._found(node)
        return self._known[node]

    def device_like(self, node: ast.AST | None) -> bool:
        """May the expression's value be compared with a device string?"""
        if not isinstance(node, ast.expr):
            return False
        if self._subjects.is_device(node):
            return True
        return self._subjects.spells_cuda(node) and any(
            read(origin) is not None and origin is not node and self.use(origin) is not None
            for origin in self._values.origins(node)
        )

    # -- forward ----------------------------------------------------------------------------

    def _found(self, node: ast.AST) -> Evidence | None:
        """What the expressions around show themselves comes first; then where it is stored or handed on."""
        beside: Evidence | None = None
        todo = [At(node)]
        later: list[At] = []
        for at in todo:  # grows
            found = self._judged(at)
            if found is not None and found.role is not Role.BRANCH:
                return found
            beside = beside or found
            for edge in self._onward(at):
                (later if isinstance(edge.node, Cell) else todo).append(edge.at)
        if any(self._reaches.of(at) for at in later):
            return Evidence(Role.NAME, node)
        return beside

    def _onward(self, at: At) -> Iterator[Edge]:
        """Where the value itself goes on: not into a library with devices of its own, not into what only prints."""
        for edge in self._values.uses(at):
            if edge.same or (edge.how == "text" and _is_text_call(edge.node)):
                yield edge

    def _shows(self, at: At) -> int:
        return self._judged(at) is not None

    def _judged(self, at: At) -> Evidence | None:
        """The evidence at one place."""
        node = at.node
        if isinstance(node, Cell):
            return self._named(node, at)
        parent = self.module.parent(node)
        if any(isinstance(step, str) for step in at.way) and not isinstance(parent, ast.Dict):
            return None  # an entry of a table: what is done with the table says nothing of it
        if not at.way and parent is not None and is_type_of_text(self.module, node):
            return Evidence(Role.BRANCH, parent)
        match parent:
            case ast.IfExp() | ast.BoolOp():
                return self._chosen(node, parent)
            case ast.keyword():
                return self._keyword(parent)
            case ast.Call():
                return self._argument(node, parent, at)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._member(parent)
            case ast.Dict():
                return self._entry(node, parent)
            case ast.Return():
                return self._returned(parent)
            case ast.BinOp() | ast.AugAssign() if isinstance(parent.op, ast.Add) and at.way:
                return self._added(node, parent)
        return None

    def _named(self, cell: Cell, at: At) -> Evidence | None:
        """A variable, attribute, function or entry that is called after a device."""
        names = [step for step in at.way if isinstance(step, str)] or [cell.name]
        if not any(map(device_name, names)) or Part.KEY in at.way:
            return None
        if cell.kind == "variable" and any(part_of_name(self.module, load) for load in cell.loads):
            return None
        owner = next(iter((*cell.stores, *cell.loads)), None) or cell.owner
        return Evidence(Role.NAME, owner) if isinstance(owner, ast.AST) else None

    def _chosen(self, node: ast.AST, parent: ast.IfExp | ast.BoolOp) -> Evidence | None:
        if isinstance(parent, ast.BoolOp):
            beside = any(self.device_like(v) for v in parent.values if v is not node)
            return Evidence(Role.BRANCH, parent) if beside else None
        if node is parent.test:
            return None
        other = parent.orelse if node is parent.body else parent.body
        while isinstance(other, ast.IfExp) and not other_device(other.body):
            other = other.orelse
        branch = other.body if isinstance(other, ast.IfExp) else other
        if not other_device(branch) and not self.device_like(branch):
            return None
        word = glued(self.module, parent) or self._names_attribute(parent)
        return None if word else Evidence(Role.BRANCH, parent)

    def _names_attribute(self, choice: ast.expr) -> bool:
        """Does the choice pick a method by its name: ``getattr(model, "cuda" if gpu else "cpu")()``?"""
        reached = self._values.reach(choice, self._values.uses)
        return is_name(self.module, choice) or any(
            edge.how == "name"
            and isinstance(edge.node, ast.Name)
            and is_name(self.module, edge.node)
            for edge in reached
        )

    def _member(self, parent: ast.List | ast.Tuple | ast.Set) -> Evidence | None:
        if isinstance(self.module.parent(parent), ast.Compare):
            return None  # a comparison, which has a rule of its own
        if any(other_device(e) for e in parent.elts) and all(other_device(e) or read(e) for e in parent.elts):  # fmt: skip
            return Evidence(Role.BRANCH, parent)
        return None

    def _added(self, node: ast.AST, parent: ast.BinOp | ast.AugAssign) -> Evidence | None:
        """``["cpu"] + ["cuda"]``."""
        if isinstance(parent, ast.AugAssign):
            other: ast.expr = parent.target
        else:
            other = parent.right if node is parent.left else parent.left
        return Evidence(Role.BRANCH, parent) if self._holds_other(other) else None

    def _holds_other(self, node: ast.expr) -> bool:
        """May the expression be a list with ``"cpu"`` in it?"""
        return any(other_device(item) for origin in self._values.origins(node) for item in getattr(origin, "elts", ()))  # fmt: skip

    def _entry(self, node: ast.AST, parent: ast.Dict) -> Evidence | None:
        if any(node is key for key in parent.keys):
            return Evidence(Role.COMPARE, parent) if by_device(self.module, parent) else None
        if self._taken_elsewhere(parent):
            return None
        key = self.module.constant(parent.keys[parent.values.index(node)])  # type: ignore[arg-type]
        named = isinstance(key, str) and device_name(key)
        return Evidence(Role.NAME, parent) if named else None

    def _taken_elsewhere(self, table: ast.Dict) -> bool:
        """Do the parameters in a table go to a library with devices of its own?"""
        if table not in self._taken:
            calls = [
                self.module.parent(edge.node) if isinstance(edge.node, ast.keyword) else edge.node
                for edge in self._values.reach(table, self._values.uses)
                if edge.how == "passed" and isinstance(edge.node, ast.AST)
            ]
            self._taken[table] = any(isinstance(c, ast.Call) and foreign(self.module, c.func) for c in calls)  # fmt: skip
        return self._taken[table]

    def _returned(self, node: ast.Return) -> Evidence | None:
        function = self.module.function(node)
        if function is None:
            return None
        if device_name(function.name):
            return Evidence(Role.NAME, function)
        for value in self._values.returns(function):
            if any(other_device(part) for part in self.module.values(value)):
                return Evidence(Role.BRANCH, function)
        return None

    # -- calls ------------------------------------------------------------------------------

    def _keyword(self, keyword: ast.keyword) -> Evidence | None:
        call = self.module.parent(keyword)
        if not isinstance(call, ast.Call):
            named = keyword.arg and device_name(keyword.arg)
            return Evidence(Role.NAME, keyword) if named else None
        if foreign(self.module, call.func):
            return None
        name = self.module.qualified(call.func) or ""
        if keyword.arg == "device_type" and _takes_word(name):
            return Evidence(Role.ARGUMENT, call)
        if name.startswith(_ELSEWHERE):
            return Evidence(Role.OTHER_RULE, call)
        if keyword.arg in _OPTION_PARTS and declares_device(self.module, call):
            return Evidence(Role.OPTION, call)
        if keyword.arg == "map_location":
            return Evidence(Role.LOAD, call)
        if name == "torch.device":
            return Evidence(Role.DEVICE, call)
        if keyword.arg and device_name(keyword.arg):
            return Evidence(Role.GENERATOR if name == "torch.Generator" else Role.ARGUMENT, call)
        return None

    def _argument(self, node: ast.AST, call: ast.Call, at: At) -> Evidence | None:
        if node is call.func:
            return None
        place = next((i for i, arg in enumerate(call.args) if arg is node), -1)
        func = call.func
        name = self.module.qualified(func) or ""
        if foreign(self.module, func) or (name in ("getattr", "builtins.getattr") and place == 1):
            return None
        if name.startswith(_ELSEWHERE) and not _takes_word(name):
            return Evidence(Role.OTHER_RULE, call)
        written, position = _device_parameter(name)
        if position is not None:
            role = Role.LOAD if written == "map_location" else Role.ARGUMENT
            return Evidence(_ROLES.get(name, role), call) if place == position else None
        if isinstance(func, ast.Attribute) and func.attr == "to":
            return Evidence(Role.TO, call)
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return Evidence(Role.OTHER_RULE, call)
        for before in call.args[:place]:
            text = self.module.constant(before)
            if isinstance(text, str) and device_name(text):
                return Evidence(Role.OPTION if text.startswith("-") else Role.ARGUMENT, call)
        return None if self._values.callees(call) else self._passed(node, call, name)

    def _passed(self, node: ast.AST, call: ast.Call, name: str) -> Evidence | None:
        """An argument of a function that is neither torch's nor of this file: by what is likely."""
        func = call.func
        called = last_name(func)
        if isinstance(func, ast.Attribute) and called in ("append", "add", "insert") and self._holds_other(func.value):  # fmt: skip
            return Evidence(Role.BRANCH, call)
        if called in ANY_TEXT or isinstance(func, ast.Call):
            return None
        base = name.split(".", maxsplit=1)[0]
        if base == "builtins" or base in sys.stdlib_module_names:
            return None
        text = read(node)
        named = len(call.args) == 1 and device_name(called) and not called.startswith(_QUESTIONS)
        if text is not None and (text.surely or base == "torch" or named):
            return Evidence(Role.ARGUMENT, call)
        return None


def _is_text_call(node: ast.AST | Cell) -> bool:
    """``str(text)``."""
    return isinstance(node, ast.Call) and last_name(node.func) == "str"
