"""Expressions that hold a device, its type or its text: what may be compared with the name of a device."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

from hpushim.compare import texts
from hpushim.compare.scopes import Binding, Function, Scopes, last_name

#: Names that people give to what holds a device.
_NAMED = re.compile(
    r"device|(^|_)(dev|devs|accelerator|map_location|maploc)($|_|\d)|^dev[A-Z]|[a-z]Dev($|[A-Z])",
    re.IGNORECASE,
)
_COUNTS = ("set_", "is_", "num_", "n_", "has_", "use_", "count_", "find_")
#: Methods that make another text of a text.
OPERATIONS = frozenset((
    "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "partition", "rpartition", "casefold",
    "removeprefix", "removesuffix", "replace", "title", "capitalize", "__str__", "__getitem__", "encode",
))  # fmt: skip
_PASSING = frozenset(("str", "repr", "format", "set", "list", "tuple", "sorted", "frozenset", "iter", "next", "min", "max", "reversed"))  # fmt: skip
#: Operators that make a set of two.
OF_SETS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)
_DEPTH = 6

Told = Callable[[ast.expr], "bool | None"]


def is_named(name: str) -> bool:
    """Whether a variable, attribute, option or key of this name holds a device."""
    return _NAMED.search(name.lstrip("-")) is not None


def _remembered(question: Callable[[Any, ast.expr, int], bool]) -> Callable[..., bool]:
    """Asks a question of a node once for each depth; of nothing, too deep, or while it is being asked, the answer is no."""

    @functools.wraps(question)
    def asked(self: Evidence, node: ast.expr | None, depth: int = _DEPTH) -> bool:
        if node is None or depth == 0:
            return False
        key = (question.__name__, node, depth)
        known = self.known.get(key)
        if known is None:
            self.known[key] = False
            known = self.known[key] = question(self, node, depth)
        return known

    return asked


class Evidence:
    """Answers for the expressions of one file. ``told`` may know more of some: True, False, or None for no opinion."""

    def __init__(self, scopes: Scopes, told: Told | None = None) -> None:
        self._scopes = scopes
        self._told = told
        self.known: dict[tuple[str, ast.expr | str, int], bool] = {}
        self._members: dict[tuple[ast.expr, int], list[ast.expr] | None] = {}
        self._in_class: dict[tuple[str, str], list[Binding]] = {}

    # -- devices ----------------------------------------------------------------------------

    @_remembered
    def is_device(self, node: ast.expr, depth: int) -> bool:
        """Whether the value may be a device, a device's type or a device's text."""
        if self._told is not None and (known := self._told(node)) is not None:
            return known
        if (inside := texts.shown(node)) is not None:
            return self.is_device(inside, depth - 1)
        if isinstance(node, ast.Attribute):
            return (
                node.attr == "type"
                or is_named(node.attr)
                or self._any(self._scopes.attributes.get(node.attr, ()), depth)
                or self._is_named_reading("added", node.attr)
            )
        if isinstance(node, ast.Name):
            return (
                is_named(node.id)
                or self._any(self._scopes.bindings(node), depth)
                or self._is_named_reading("added", node.id)
            )
        if isinstance(node, ast.Subscript):
            key = texts.constant(node.slice)
            return is_named(key) if key else self.is_device(node.value, depth - 1)
        if isinstance(node, ast.Call):
            return self._is_device_call(node, depth - 1)
        if isinstance(node, ast.BoolOp):
            return any(self.is_device(one, depth - 1) for one in node.values)
        if isinstance(node, ast.IfExp):
            return self.is_device(node.body, depth - 1) or self.is_device(node.orelse, depth - 1)
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Starred):
            return self.is_device(node.value, depth - 1)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return any(self.is_device(one, depth - 1) for one in node.elts)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return self.is_device(node.elt, depth - 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, OF_SETS):
            return self.is_device(node.left, depth - 1) or self.is_device(node.right, depth - 1)
        return False

    @_remembered
    def is_composed(self, node: ast.expr, depth: int) -> bool:
        """Whether the value is a text with a device's text in it: ``f"run-{x.device}"``, ``",".join(map(str, devices))``."""
        if any(self.is_device(part) or self.is_composed(part, depth - 1) for part in texts.made_of(node)):  # fmt: skip
            return True
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.is_composed(node.value, depth - 1)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in OPERATIONS and self.is_composed(node.func.value, depth - 1)
        bound: list[Binding] = []
        if isinstance(node, ast.Name):
            bound = self._scopes.bindings(node)
        elif isinstance(node, ast.Attribute):
            bound = self._scopes.attributes.get(node.attr, [])
        return any(not one.element and self.is_composed(one.value, depth - 1) for one in bound)

    @_remembered
    def is_keyed(self, node: ast.expr, depth: int) -> bool:
        """Whether the value is a table or a count whose keys were read from devices."""
        if isinstance(node, ast.Dict):
            return self._is_any_reading([key for key in node.keys if key is not None])
        if isinstance(node, ast.DictComp):
            return self.is_device(node.key)
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in ("Counter", "fromkeys") and node.args:
                return self.is_device(node.args[0])
            if name in ("dict", "OrderedDict", "defaultdict") and node.args:
                return any(
                    self.is_keyed(one, depth - 1) or self._is_pairs(one) for one in node.args
                )
            return False
        if self._is_named_reading("keys", last_name(node)):
            return True
        bound: list[Binding] = []
        if isinstance(node, ast.Name):
            bound = self._scopes.bindings(node)
        elif isinstance(node, ast.Attribute):
            bound = self._scopes.attributes.get(node.attr, [])
        return any(not one.element and self.is_keyed(one.value, depth - 1) for one in bound)

    def _is_pairs(self, node: ast.expr) -> bool:
        """``[(x.device.type, 1), …]``."""
        pairs: list[ast.expr] = []
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            pairs = node.elts
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            pairs = [node.elt]
        return any(isinstance(one, ast.Tuple) and one.elts and self.is_reading(one.elts[0]) for one in pairs)  # fmt: skip

    def _is_named_reading(self, which: str, name: str) -> bool:
        """Whether a device's text was added to the collection of this name, or is a key of the table of this name."""
        key = (which, name, 0)
        if key not in self.known:
            self.known[key] = False
            values: dict[str, list[ast.expr]] = getattr(self._scopes, which)
            self.known[key] = bool(name) and self._is_any_reading(values.get(name, ()))
        return self.known[key]

    def _is_any_reading(self, values: Iterable[ast.expr]) -> bool:
        return any(
            self.is_reading(one) for one in values if not isinstance(one, ast.Constant | ast.Slice)
        )

    @_remembered
    def is_reading(self, node: ast.expr, depth: int) -> bool:
        """Whether the value was surely read from a device: ``x.device.type``, ``str(device)``, or a name bound to one."""
        if (inside := texts.shown(node)) is not None:
            return self.is_device(inside)
        if isinstance(node, ast.Attribute):
            if node.attr == "type":
                return self.is_device(node.value)
            found = self._scopes.attributes.get(node.attr, ())
            return bool(found) and all(self.is_reading(b.value, depth - 1) for b in found)
        if isinstance(node, ast.Name):
            bound = self._scopes.bindings(node)
            return bool(bound) and all(
                not b.element and self.is_reading(b.value, depth - 1) for b in bound
            )
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in ("str", "repr", "format"):
                return len(node.args) == 1 and self.is_device(node.args[0])
            if isinstance(called, ast.Attribute) and called.attr in OPERATIONS:
                return self.is_reading(called.value, depth - 1)
            return self._reads_by_name(node)
        if isinstance(node, ast.Subscript):
            return self.is_reading(node.value, depth - 1)
        return isinstance(node, ast.NamedExpr) and self.is_reading(node.value, depth - 1)

    def _reads_by_name(self, node: ast.Call) -> bool:
        """``getattr(x.device, "type")``."""
        return (
            isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) > 1
            and texts.constant(node.args[1]) == "type"
        )

    def _is_device_call(self, node: ast.Call, depth: int) -> bool:
        called = node.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if isinstance(called, ast.Name) and name in _PASSING:
            return bool(node.args) and self.is_device(node.args[0], depth)
        if name in ("map", "filter") and len(node.args) == 2:
            return self.is_device(node.args[1], depth) or self._reads(node.args[0], depth)
        if name == "type":
            return False  # x.type(): the type of a tensor
        if self._reads_by_name(node):
            return True
        if isinstance(called, ast.Attribute) and name in OPERATIONS:
            return self.is_device(called.value, depth)
        if any(is_named(texts.constant(one)) for one in node.args if texts.constant(one)):
            return True  # getattr(args, "device"), environ.get("DEVICE")
        if is_named(name):
            return not name.startswith(_COUNTS)
        return any(self._returns_device(one, depth) for one in self._scopes.functions.get(name, ()))

    def _reads(self, function: ast.expr, depth: int) -> bool:
        """Whether what ``map`` calls gives devices: ``lambda t: t.device.type``, ``attrgetter("device.type")``."""
        if isinstance(function, ast.Lambda):
            return self.is_device(function.body, depth)
        if isinstance(function, ast.Call) and last_name(function.func) == "attrgetter":
            return any(is_named(texts.constant(one)) for one in function.args)
        return any(self._returns_device(one, depth) for one in self._scopes.functions.get(last_name(function), ()))  # fmt: skip

    def _returns_device(self, function: Function, depth: int) -> bool:
        if depth <= 0 or isinstance(function, ast.Lambda):
            return False
        return any(
            isinstance(part, ast.Return) and self.is_device(part.value, depth - 1)
            for part in ast.walk(function)
        )

    def _any(self, bound: list[Binding] | tuple[Binding, ...], depth: int) -> bool:
        return any(self._holds(one, depth - 1) for one in bound)

    def _holds(self, bound: Binding, depth: int) -> bool:
        if bound.parameter is None:
            return self.is_device(bound.value, depth)
        note = bound.parameter.annotation
        if note is not None and ast.unparse(note).split("|")[0].strip(" '\"") in ("torch.device", "device"):  # fmt: skip
            return True
        return self._is_given_devices(bound, depth)

    def _is_given_devices(self, bound: Binding, depth: int) -> bool:
        """Whether a call in this file gives a device for a parameter."""
        function, parameter = bound.function, bound.parameter
        if depth <= 0 or parameter is None or not isinstance(function, ast.FunctionDef):
            return False
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        skipped = int(bool(names) and names[0] in ("self", "cls"))
        for call in self._scopes.calls.get(function.name, ()):
            given = dict(zip(names[skipped:], call.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            value = given.get(parameter.arg)
            if value is not None and self.is_reading(value, depth - 1):
                return True
        return False

    # -- texts ------------------------------------------------------------------------------

    def texts(self, node: ast.expr | None, depth: int = _DEPTH) -> list[ast.expr]:
        """The CUDA devices that an expression may spell: itself, or what its name is bound to."""
        if node is None or depth == 0:
            return []
        if texts.is_cuda(node):
            return [node]
        if isinstance(node, ast.IfExp):
            return [*self.texts(node.body, depth - 1), *self.texts(node.orelse, depth - 1)]
        if isinstance(node, ast.BoolOp):
            return [found for one in node.values for found in self.texts(one, depth - 1)]
        if isinstance(node, ast.NamedExpr):
            return self.texts(node.value, depth - 1)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "str" and node.args:
            return self.texts(node.args[0], depth - 1)
        if isinstance(node, ast.Attribute):
            if node.attr in ("value", "name") and isinstance(node.value, ast.Attribute):
                return self.texts(node.value, depth - 1)
            return self._bound_texts(self.named_in_class(node), depth)
        if isinstance(node, ast.Name):
            return self._bound_texts(self._scopes.bindings(node), depth)
        return []

    def _bound_texts(self, bound: list[Binding], depth: int) -> list[ast.expr]:
        found: list[ast.expr] = []
        for one in bound:
            if one.element:
                members = self.members(one.value, depth - 1)
                found += [
                    text for member in members or () for text in self.texts(member, depth - 1)
                ]
            else:
                found += self.texts(one.value, depth - 1)
        return found

    def named_in_class(self, node: ast.Attribute) -> list[Binding]:
        """What the file gives an attribute: ``Kind.CUDA`` of a class in this file, ``self.kind`` that is given a text."""
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        known = self._in_class.get((owner, node.attr))
        if known is None:
            known = self._in_class[owner, node.attr] = list(
                self._scopes.attributes.get(node.attr, ())
            )
            for name, scopes in self._scopes.classes.items():
                if owner in (name, "self", "cls"):
                    known += [bound for scope in scopes for bound in scope.names.get(node.attr, ())]
        return known

    def members(self, node: ast.expr | None, depth: int = _DEPTH) -> list[ast.expr] | None:
        """The elements of a literal collection, or keys of a literal table, also by name; None when the file does not say."""
        if node is None or depth == 0:
            return None
        if (node, depth) not in self._members:
            self._members[node, depth] = None  # while it is being asked
            self._members[node, depth] = self._members_of(node, depth)
        return self._members[node, depth]

    def _members_of(self, node: ast.expr, depth: int) -> list[ast.expr] | None:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            inside = [(self.members(one.value, depth - 1) or [one]) if isinstance(one, ast.Starred) else [one] for one in node.elts]  # fmt: skip
            return [one for some in inside for one in some]
        if isinstance(node, ast.Dict):
            return [key for key in node.keys if key is not None]
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in ("set", "frozenset", "list", "tuple", "sorted", "iter"):  # fmt: skip
                return self.members(node.args[0], depth - 1) if node.args else None
            if isinstance(called, ast.Name) and called.id == "dict":
                return [ast.Constant(keyword.arg) for keyword in node.keywords if keyword.arg]
            return None
        bound: list[Binding] = []
        if isinstance(node, ast.Name):
            bound = self._scopes.bindings(node)
        elif isinstance(node, ast.Attribute):
            bound = self.named_in_class(node)
        found = [self.members(one.value, depth - 1) for one in bound if not one.element]
        known = [one for one in found if one is not None]
        return [member for one in known for member in one] if known and len(known) == len(bound) else None  # fmt: skip
