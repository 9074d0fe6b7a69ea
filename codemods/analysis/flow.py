"""Where a value goes: does a string reach a place that takes a device?

A device text is rewritten when there is evidence that it is one: it is given to a torch function that
takes a device, stands beside ``"cpu"``, is stored under a name such as ``device``, or flows to such a place.
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from hpushim.engine.python.walk import walk

from .callee import declares_device, parameters_of, positional_of
from .device_texts import device_name, glued, other_device, read
from .holders import holds_device
from .names import foreign
from .roles import Evidence, Role
from .spelled_names import is_name, part_of_name
from .tables import by_device

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Position of the device argument.
_POSITIONAL = {
    "torch.device": 0,
    "torch.set_default_device": 0,
    "torch.get_device_module": 0,
    "torch.Generator": 0,
    "torch.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.utils.model_zoo.load_url": 2,
}
#: Those of the autocast family that only take the word, by position or as ``device_type``; no other rule has them.
_AUTOCAST = (
    "torch.amp.custom_fwd",
    "torch.amp.custom_bwd",
    "torch.amp.is_autocast_available",
    "torch.is_autocast_enabled",
    "torch.get_autocast_dtype",
    "torch.set_autocast_dtype",
    "torch.set_autocast_enabled",
)
_POSITIONAL.update(dict.fromkeys(_AUTOCAST[2:], 0))
_ROLES = {
    "torch.device": Role.DEVICE,
    "torch.load": Role.LOAD,
    "torch.jit.load": Role.LOAD,
    "torch.set_default_device": Role.DEFAULT,
}
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
_DEPTH = 10


def _through(found: Evidence) -> Evidence:
    """Evidence that came by way of a name: the text itself stands elsewhere."""
    return Evidence(Role.NAME, found.node)


class Flow:
    """Follows values through one file; answers are remembered."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[ast.AST, Evidence | None] = {}

    def _loads(self, name: str) -> list[ast.Name]:
        return [node for node in self.module.index.names(name) if isinstance(node.ctx, ast.Load)]

    def _read(self, attribute: str) -> list[ast.Attribute]:
        found = self.module.index.attributes(attribute)
        return [node for node in found if isinstance(node.ctx, ast.Load)]

    def use(self, node: ast.AST, depth: int = _DEPTH) -> Evidence | None:
        """The evidence that ``node``'s value is a device, None without any."""
        if node in self._known:
            return self._known[node]
        if depth == 0:
            return None
        self._known[node] = None  # what comes back to itself proves nothing
        found = self._climb(node, depth - 1)
        self._known[node] = found
        return found

    # -- upwards ----------------------------------------------------------------------------

    def _climb(self, node: ast.AST, depth: int) -> Evidence | None:
        parent = self.module.parent(node)
        if isinstance(parent, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
            return self._choice(node, parent, depth)
        if isinstance(parent, ast.keyword):
            return self._keyword(parent, depth)
        if isinstance(parent, ast.Call):
            return self._argument(node, parent, depth)
        if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
            return self._member(parent, depth)
        if isinstance(parent, ast.Dict):
            return self._entry(node, parent, depth)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and node is parent.value:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return next((u for t in targets if (u := self._stored(t, depth))), None)
        if isinstance(parent, ast.arguments):
            return self._parameter(node, parent, depth)
        if isinstance(parent, ast.Return):
            return self._returned(parent, depth)
        if isinstance(parent, ast.Subscript) and node is parent.value:
            return self.use(parent, depth)
        if isinstance(parent, ast.Starred):
            return self.use(parent, depth)
        if isinstance(parent, (ast.BinOp, ast.AugAssign)) and isinstance(parent.op, ast.Add):
            return self._added(node, parent, depth)
        if isinstance(parent, (ast.For, ast.comprehension)) and node is parent.iter:
            return self._stored(parent.target, depth)
        if isinstance(parent, ast.FormattedValue):
            return None
        return None

    def _choice(self, node: ast.AST, parent: ast.AST, depth: int) -> Evidence | None:
        if isinstance(parent, ast.IfExp):
            if node is parent.test:
                return None
            other = parent.orelse if node is parent.body else parent.body
            while isinstance(other, ast.IfExp):
                if other_device(other.body):
                    break
                other = other.orelse
            if found := self.use(parent, depth):
                return found
            branch = other.body if isinstance(other, ast.IfExp) else other
            beside = other_device(branch) or self.device_like(branch)
            word = glued(self.module, parent) or self._names_attribute(parent)
            return Evidence(Role.BRANCH, parent) if beside and not word else None
        if isinstance(parent, ast.NamedExpr):
            if node is not parent.value:
                return None
            return self._stored(parent.target, depth) or self.use(parent, depth)
        if isinstance(parent, ast.BoolOp):
            if found := self.use(parent, depth):
                return found
            if any(self.device_like(v) for v in parent.values if v is not node):
                return Evidence(Role.BRANCH, parent)
        return None

    def _names_attribute(self, choice: ast.expr) -> bool:
        """Does the choice pick a method by its name: ``getattr(model, "cuda" if gpu else "cpu")()``?"""
        parent = self.module.parent(choice)
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            target = parent.targets[0]
            loads = [load for load in self._loads(target.id) if self._same(target, load)]
            return any(is_name(self.module, load) for load in loads)
        return is_name(self.module, choice)

    def _member(self, parent: ast.List | ast.Tuple | ast.Set, depth: int) -> Evidence | None:
        above = self.module.parent(parent)
        if isinstance(above, ast.Compare):
            return None  # a comparison, which has a rule of its own
        if found := self.use(parent, depth):
            return found
        if any(other_device(e) for e in parent.elts) and all(
            other_device(e) or read(e) for e in parent.elts
        ):
            return Evidence(Role.BRANCH, parent)
        return None

    def _added(
        self, node: ast.AST, parent: ast.BinOp | ast.AugAssign, depth: int
    ) -> Evidence | None:
        """``["cpu"] + ["cuda"]``."""
        if not any(isinstance(part, (ast.List, ast.Tuple)) for part in self.module.values(node)):  # type: ignore[arg-type]
            return None
        if isinstance(parent, ast.AugAssign):
            return Evidence(Role.BRANCH, parent) if self._holds_other(parent.target) else None
        if self._holds_other(parent.right if node is parent.left else parent.left):
            return Evidence(Role.BRANCH, parent)
        return self.use(parent, depth)

    def _holds_other(self, node: ast.expr) -> bool:
        """May the expression be a list with ``"cpu"`` in it?"""
        values = self.module.values(node)
        return any(other_device(item) for value in values for item in getattr(value, "elts", ()))

    def _entry(self, node: ast.AST, parent: ast.Dict, depth: int) -> Evidence | None:
        if any(node is key for key in parent.keys):
            return Evidence(Role.COMPARE, parent) if by_device(self.module, parent) else None
        if self._taken_elsewhere(parent):
            return None
        place = next(i for i, value in enumerate(parent.values) if value is node)
        key = self.module.constant(parent.keys[place])
        if isinstance(key, str) and device_name(key):
            return Evidence(Role.NAME, parent)
        return self.use(parent, depth)

    def _taken_elsewhere(self, table: ast.Dict) -> bool:
        """Do the parameters in a table go to a library with devices of its own?"""
        holders: list[ast.AST] = [table]
        statement = self.module.parent(table)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            target = statement.targets[0]
            holders += [n for n in self._loads(target.id) if self._same(target, n)]
        for holder in holders:
            parent = self.module.parent(holder)
            call = self.module.parent(parent) if isinstance(parent, ast.keyword) else parent
            if isinstance(call, ast.Call) and foreign(self.module, call.func):
                return True
        return False

    def _stored(self, target: ast.expr, depth: int) -> Evidence | None:
        if isinstance(target, ast.Name):
            loads = [load for load in self._loads(target.id) if self._same(target, load)]
            for load in loads:
                if found := self.use(load, depth):
                    return _through(found)
            spelled = any(part_of_name(self.module, load) for load in loads)
            return Evidence(Role.NAME, target) if device_name(target.id) and not spelled else None
        if isinstance(target, ast.Attribute):
            if device_name(target.attr):
                return Evidence(Role.NAME, target)
            for node in self._read(target.attr):
                if found := self.use(node, depth):
                    return _through(found)
        if isinstance(target, ast.Subscript):
            key = self.module.constant(target.slice)
            if isinstance(key, str) and device_name(key):
                return Evidence(Role.NAME, target)
            if isinstance(target.value, (ast.Name, ast.Attribute)) and self.device_like(
                target.value
            ):
                return Evidence(Role.NAME, target)
        return None

    def _same(self, target: ast.Name, load: ast.Name) -> bool:
        ours = self.module.scope(target).lookup(target.id)
        return ours is not None and self.module.bindings(load) is ours

    def _parameter(self, default: ast.AST, args: ast.arguments, depth: int) -> Evidence | None:
        positional = [*args.posonlyargs, *args.args]
        pairs = list(zip(reversed(positional), reversed(args.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
        for arg, value in pairs:
            if value is default:
                return self._named_parameter(arg, args, depth)
        return None

    def _named_parameter(self, arg: ast.arg, args: ast.arguments, depth: int) -> Evidence | None:
        if device_name(arg.arg):
            return Evidence(Role.NAME, arg)
        owner = self.module.parent(args)
        inner = self.module.scope_of(owner) if owner is not None else None
        bound = inner.bindings.get(arg.arg) if inner else None
        if bound is None:
            return None
        for load in self._loads(arg.arg):
            if self.module.bindings(load) is bound and (found := self.use(load, depth)):
                return _through(found)
        return None

    def _returned(self, node: ast.Return, depth: int) -> Evidence | None:
        function = self.module.function(node)
        if function is None:
            return None
        if device_name(function.name):
            return Evidence(Role.NAME, function)
        for other in walk(function):
            returned = other.value if isinstance(other, ast.Return) else None
            if any(other_device(part) for part in self.module.values(returned)):
                return Evidence(Role.BRANCH, function)
        for call in self.module.index.calls(function.name):
            if found := self.use(call, depth):
                return _through(found)
        return None

    # -- calls ------------------------------------------------------------------------------

    def _keyword(self, keyword: ast.keyword, depth: int) -> Evidence | None:
        call = self.module.parent(keyword)
        if not isinstance(call, ast.Call):
            return (
                Evidence(Role.NAME, keyword) if keyword.arg and device_name(keyword.arg) else None
            )
        if foreign(self.module, call.func):
            return None
        name = self.module.qualified(call.func) or ""
        if name in _AUTOCAST and keyword.arg == "device_type":
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
        if keyword.arg == "choices" or keyword.arg is None:
            return None
        for args in parameters_of(self.module, call):
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                if arg.arg == keyword.arg:
                    return self._named_parameter(arg, args, depth)
        return None

    def _argument(self, node: ast.AST, call: ast.Call, depth: int) -> Evidence | None:
        if node is call.func:
            return None
        place = next((i for i, arg in enumerate(call.args) if arg is node), -1)
        func = call.func
        name = self.module.qualified(func) or ""
        if foreign(self.module, func) or (name in ("getattr", "builtins.getattr") and place == 1):
            return None
        if name.startswith(_ELSEWHERE) and name not in _AUTOCAST:
            return Evidence(Role.OTHER_RULE, call)
        if name in _POSITIONAL:
            if place != _POSITIONAL[name]:
                return None
            return Evidence(_ROLES.get(name, Role.ARGUMENT), call)
        if name in {"builtins.str", "builtins.list", "builtins.tuple"}:
            return self.use(call, depth)
        if isinstance(func, ast.Attribute) and func.attr == "to":
            return Evidence(Role.TO, call)
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return Evidence(Role.OTHER_RULE, call)
        for before in call.args[:place]:
            text = self.module.constant(before)
            if isinstance(text, str) and device_name(text):
                return Evidence(Role.OPTION if text.startswith("-") else Role.ARGUMENT, call)
        return self._passed(node, call, place, name, depth)

    def _passed(
        self, node: ast.AST, call: ast.Call, place: int, name: str, depth: int
    ) -> Evidence | None:
        """An argument of a function that is not torch's: by its parameter, else by what is likely."""
        func = call.func
        for args in parameters_of(self.module, call):
            positional = positional_of(self.module, args)
            if 0 <= place < len(positional):
                return self._named_parameter(positional[place], args, depth)
        called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        collects = isinstance(func, ast.Attribute) and called in ("append", "add", "insert")
        if collects and self._holds_other(func.value):  # type: ignore[attr-defined]
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

    def device_like(self, node: ast.AST | None) -> bool:
        """May the expression's value be compared with a device string?"""
        return holds_device(self.module, node, is_device=lambda v: self.use(v) is not None)
