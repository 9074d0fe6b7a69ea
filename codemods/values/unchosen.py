"""Branches that a run takes only on request: ``if args.compile:`` of an option that is off, one of many names."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from hpushim.engine.python.module import Module
from hpushim.pycode.control import branches, ends
from hpushim.pycode.steps import TooManySteps
from hpushim.pycode.values import SAME, At, Cell, Values
from hpushim.pycode.walk import walk

from ..analysis.devices import Devices
from ..analysis.names import word
from ..analysis.project_facts import ARGUMENTS, SWITCHES
from .tokens import SETTINGS

#: A value that nothing in the file gives.
_OPEN = object()
#: What an option holds that is there or not.
_STORED = {"store_true": False, "store_false": True, "count": None}
#: Methods of texts whose answers are those of Python itself.
_OF_TEXTS = frozenset(["lower", "upper", "strip", "startswith", "endswith"])
#: Words of options that choose the device itself: on Gaudi they are given.
_DEVICE = re.compile(
    r"(^|_)(cuda|[cg]pus?|devices?|accelerator|world|rank|dist|distributed|ddp)(_|$)"
)
#: Words of what holds where a run uses several devices, and of what counts them.
_SEVERAL = re.compile(
    r"(^|_)(dist|distributed|ddp|dp|parallel|parallelize|multi_?gpus?|multi_?device)(_|$)|^is_initialized$"
)
_COUNTED = re.compile(r"(^|_)n?(gpus?|devices?|hpus?|world|replicas|ids)(_|$)")
#: False but where a model is exported.
_EXPORTING = ("torch.jit.is_tracing", "torch.jit.is_scripting", "torch.onnx.is_in_onnx_export", "torch._C._is_tracing", "torch._C._get_tracing_state")  # fmt: skip
_ENVIRONMENT = ("os.getenv", "os.environ.get")
#: A choice among so many names is made by one of them, and each is there for those who ask for it.
_MANY = 3
_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
}


def unchosen(
    module: Module, around: list[ast.AST], at: int, seen: tuple[ast.AST, ...] = ()
) -> bool:
    """Is the place ``at``, of which ``around`` are the statements around it, in a branch or in a table that the defaults do not take?"""
    try:
        if any(isinstance(each, ast.If) for each in around) and any(
            map(module.view(Defaults).leaves, around, around[1:])
        ):
            return True
        if any(module.view(Defaults).left_before(each) for each in around if isinstance(each, ast.stmt)):  # fmt: skip
            return True
        if around and any(_is_table(module, each) for each in _tables(module, around[-1], at)):
            return True
        return any(_is_called_unchosen(module, each, seen) for each in around)
    except (TooManySteps, RecursionError):
        return False


def _is_called_unchosen(module: Module, function: ast.AST, seen: tuple[ast.AST, ...]) -> bool:
    """Is it a function of this file alone, by its name, all whose calls are in such branches?"""
    if not isinstance(function, ast.FunctionDef) or function in seen or not re.match(r"_(?!_)", function.name):  # fmt: skip
        return False
    index = module.index
    uses = [*index.attributes(function.name), *index.names(function.name)]
    calls = [call for call in index.calls(function.name) if function not in module.ancestors(call)]
    alone = len(calls) == len(uses) and bool(calls)
    return alone and all(unchosen(module, index.around(at)[::-1], at, (*seen, function)) for at in map(module.start, calls))  # fmt: skip


def _tables(module: Module, statement: ast.AST, at: int) -> Iterator[ast.Dict]:
    """The dictionaries of a statement that have a value at a place."""
    for part in () if hasattr(statement, "body") else walk(statement):
        if isinstance(part, ast.Dict) and any(module.span(each).start == at for each in part.values):  # fmt: skip
            yield part


def _is_table(module: Module, table: ast.Dict) -> bool:
    """Are these many names of which a variable picks one: ``{"sum": SUM, "max": MAX, …}[kind]``?"""
    if len(table.values) < _MANY or not all(isinstance(each, (ast.Name, ast.Attribute)) for each in table.values):  # fmt: skip
        return False
    above = module.parent(table)
    if not isinstance(above, ast.Assign):
        return _is_picked_from(module, table)
    names = [target.id for target in above.targets if isinstance(target, ast.Name)]
    uses = [use for name in names for use in module.index.names(name) if isinstance(use.ctx, ast.Load)]  # fmt: skip
    return bool(uses) and all(_is_picked_from(module, use) for use in uses)


def _is_picked_from(module: Module, table: ast.expr) -> bool:
    """``TABLE[kind]``, ``TABLE.get(kind)``, ``kind in TABLE``."""
    above = module.parent(table)
    if isinstance(above, ast.Subscript) and above.value is table:
        return not isinstance(above.slice, ast.Constant)
    if isinstance(above, ast.Attribute) and above.attr == "get":
        call = module.parent(above)
        return isinstance(call, ast.Call) and not isinstance(next(iter(call.args), None), ast.Constant)  # fmt: skip
    return isinstance(above, ast.Compare) and isinstance(above.ops[-1], (ast.In, ast.NotIn))


class Defaults:
    """What conditions come to where nobody sets an option: ``module.view(Defaults)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values = module.view(Values)
        self._tested: set[At] = set()

    def leaves(self, choice: ast.AST, inner: ast.AST) -> bool:
        """Is ``inner`` a part of a choice that is not taken?"""
        if not isinstance(choice, (ast.If, ast.IfExp)) or names_device(choice.test):
            return False
        said = self._said(choice.test)
        if said is None:
            left = inner in branches(choice, true=True)[0] and self._is_one_of_many(choice)
        else:
            left = inner in branches(choice, true=said)[1]
        # The dearest question is the last.
        return left and not self._is_of_devices(choice.test)

    def left_before(self, statement: ast.stmt) -> bool:
        """Is a place not reached by default, because the block is left above it: ``if not tracing: return …``?"""
        return any(
            isinstance(each, ast.If) and not each.orelse and ends(each.body) and not names_device(each.test)
            and self._said(each.test) is True and not self._is_of_devices(each.test)
            for each in self._module.before(statement)
        )  # fmt: skip

    def is_skipped(self, node: ast.AST) -> bool:
        """Does a run on one device pass a place over, where nobody sets an option?"""
        inner = node
        for above in self._module.ancestors(node):
            if isinstance(above, (ast.If, ast.IfExp)):
                several = _requires_several(above.test)
                if several is not None and inner in branches(above, true=several)[0]:
                    return True
                if self.leaves(above, inner):
                    return True
            inner = above
        return False

    def _is_one_of_many(self, choice: ast.If | ast.IfExp) -> bool:
        """Do conditions of a chain compare one value with a text each, and is this one of them, not the one for training?

        A branch that leaves the block is a link of a chain with the ``if`` behind it; others, one behind the other, are stages that may all run.
        What must be given has no default.
        """
        tested = _tested(choice.test)
        if tested is None or (isinstance(tested, ast.Attribute) and any(self._declared(each) is _OPEN for each in self._values.options.declared(tested.attr))) or isinstance(choice, ast.IfExp) or any(isinstance(part, ast.Constant) and "train" in str(part.value) for part in walk(choice.test)):  # fmt: skip
            return False
        subject, first = self._module.source(tested), choice
        while isinstance(above := self._module.parent(first), ast.If) and above.orelse == [first]:
            first = above
        row: list[ast.stmt] = [each for each in self._module.block(first) if isinstance(each, ast.If) and ends(each.body)]  # fmt: skip
        links = row if first in row else [first]
        for link in links:  # grows
            links += link.orelse if isinstance(link, ast.If) and len(link.orelse) == 1 else []
        others = [other for link in links if isinstance(link, ast.If) and (other := _tested(link.test)) is not None]  # fmt: skip
        return sum(self._module.source(other) == subject for other in others) >= _MANY

    def _is_of_devices(self, test: ast.expr) -> bool:
        devices = self._module.view(Devices)
        return any(
            devices.is_device(part)
            for part in walk(test)
            if isinstance(part, (ast.Name, ast.Attribute, ast.Constant))
        )

    def _said(self, test: ast.expr) -> bool | None:
        """The answer of a condition; None where it is open, or where nothing but constants decides."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                said = self._said(test.operand)
                return None if said is None else not said
            case ast.BoolOp():
                ending = isinstance(test.op, ast.Or)
                answers = [self._said(value) for value in test.values]
                if ending in answers:
                    return ending
                return None if None in answers else not ending
            case ast.Constant():
                return None
        found = self._of(test)
        return None if found is _OPEN else bool(found)

    def _of(self, node: ast.AST) -> object:
        """The one value that an expression has by default."""
        found = self._each(At(node), set())
        first = next(found, _OPEN)
        # The first that is open, or another, is enough.
        return first if first is not _OPEN and all(each == first for each in found) else _OPEN

    def _each(self, at: At, seen: set[At]) -> Iterator[object]:
        """The values by all ways; ``seen``: the places that another way has been at, which say the same again."""
        node = at.node
        if at in self._tested or at in seen:
            return
        seen.add(at)
        match node:
            case ast.Constant() if not at.way:
                yield node.value
                return
            case ast.Compare() if len(node.ops) == 1:
                yield self._compared(node)
                return
            case ast.Tuple() | ast.List() | ast.Set() if not at.way:
                inner = [self._of(each) for each in node.elts]
                yield _OPEN if _OPEN in inner else tuple(inner)
                return
            case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_TEXTS:
                yield self._called(node)
                return
            case ast.Attribute() if declared := self._values.options.declared(node.attr):
                yield from map(self._declared, declared)
                return
            case (ast.Attribute(value=owner, attr=key) | ast.Subscript(value=owner, slice=ast.Constant(value=str(key)))) if _is_settings(owner) and self._is_off(key):  # fmt: skip
                yield False
                return
            case ast.Call() if self._module.qualified(node.func) in _EXPORTING:
                yield False
                return
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[_, default]) if (
                _is_settings(owner)
            ):
                yield self._of(default)
                return
            case ast.Call() if self._module.qualified(node.func) in _ENVIRONMENT:
                yield self._of(node.args[1]) if len(node.args) == 2 else None
                return
        if isinstance(node, ast.Name) and not at.way and self._is_parameter(node):
            yield False
            return
        self._tested.add(at)
        try:
            back = [edge for edge in self._values.sources(at) if edge.how != "option"]
            if not isinstance(node, Cell) and not back:
                yield _OPEN
            for edge in back:
                if edge.how not in SAME and not (
                    edge.how == "given" and self._stays_off(edge.node)
                ):
                    yield _OPEN
                else:
                    yield from self._each(edge.at, seen)
        finally:  # who has seen enough goes away
            self._tested.discard(at)

    def _is_off(self, name: str) -> bool:
        """Is an option off where nobody gives it, or a setting, and no file of settings turns it on?"""
        said = self._module.project.names(SWITCHES.name)
        return name in said and f"+{name}" not in said

    def _is_parameter(self, node: ast.Name) -> bool:
        """Is it a parameter without a default that only options which are off are given?"""
        bound = self._module.bindings(node)
        return len(bound) == 1 and bound[0].kind == "param" and bound[0].value is None and self._stays_off(bound[0].node)  # fmt: skip

    def _stays_off(self, node: ast.AST | Cell) -> bool:
        """Is it a parameter that is False by default, or without one, that no call in the project gives more than an option that is off?"""
        taken = self._module.parent(node) if isinstance(node, ast.arg) else None
        if not isinstance(node, ast.arg) or not isinstance(taken, ast.arguments):
            return False
        by_place = [*taken.posonlyargs, *taken.args][::-1]
        pairs = [*zip(by_place, taken.defaults[::-1], strict=False), *zip(taken.kwonlyargs, taken.kw_defaults, strict=True)]  # fmt: skip
        default = next((each for arg, each in pairs if arg is node), None)
        if default is not None and getattr(default, "value", None) is not False:
            return False
        names = self._module.project.names
        given = [name for name in names(ARGUMENTS.name) if name.partition("=")[0] == node.arg]
        return bool(given or default) and all(name.partition("=")[2] in names(SWITCHES.name) for name in given)  # fmt: skip

    def _declared(self, call: ast.Call) -> object:
        """The default of an option; of one that says nothing, None."""
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if None in given:
            return _OPEN
        if (default := given.get("default")) is not None:
            return self._of(default)
        if "required" in given or word(call.func) not in ("add_argument", "add_option"):
            return _OPEN
        positional = not any(str(self._module.constant(arg)).startswith("-") for arg in call.args)
        return _OPEN if positional else _STORED.get(str(self._module.constant(given.get("action"))))  # fmt: skip

    def _compared(self, node: ast.Compare) -> object:
        left, right = self._of(node.left), self._of(node.comparators[0])
        ask = _OPERATORS.get(type(node.ops[0]))
        if ask is None or _OPEN in (left, right):
            return _OPEN
        try:
            return ask(left, right)
        except TypeError:
            return _OPEN

    def _called(self, node: ast.Call) -> object:
        assert isinstance(node.func, ast.Attribute)
        text, given = self._of(node.func.value), [self._of(arg) for arg in node.args]
        if not isinstance(text, str) or not all(isinstance(each, (str, tuple)) for each in given):
            return _OPEN
        return getattr(text, node.func.attr)(*given)


def names_device(test: ast.expr) -> bool:
    """Does a condition name what chooses the device?"""
    named = (ast.Name, ast.Attribute)
    return any(isinstance(part, named) and _DEVICE.search(word(part).lower()) for part in walk(test))  # fmt: skip


def _requires_several(test: ast.expr) -> bool | None:
    """Does a condition hold where a run uses several devices, and there alone? False where it holds with one alone."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            said = _requires_several(inner)
            return None if said is None else not said
        case ast.BoolOp(op=op, values=values):
            ending = isinstance(op, ast.And)  # one that requires several is enough
            answers = [_requires_several(value) for value in values]
            return ending if ending in answers else None if None in answers else not ending
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]):
            if not any(_COUNTED.search(word(part).lower()) for part in walk(left)):
                return None
            ask = _OPERATORS.get(type(op))
            one, many = (ask(1, number), ask(8, number)) if ask else (True, True)
            return None if one == many else many
        case ast.Name() | ast.Attribute() | ast.Call():
            named = word(test.func if isinstance(test, ast.Call) else test)
            return True if _SEVERAL.search(named.lower()) else None
    return None


def _is_settings(node: ast.expr) -> bool:
    """``args``, ``self.config``, ``train_args``; what an object sets of its own is seen in its file."""
    named = word(node)
    if named in ("self", "cls"):
        return False
    return not SETTINGS.isdisjoint((named, named.rpartition("_")[2])) or (isinstance(node, ast.Attribute) and _is_settings(node.value))  # fmt: skip


def _tested(test: ast.expr) -> ast.expr | None:
    """What a condition compares with a text: ``kind`` of ``kind == "adam"``, ``kind.lower() in ("adam", "adamw")``, ``kind.endswith("8bit")``."""
    match test:
        case ast.BoolOp(values=[first, *_]):
            return _tested(first)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
            texts = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
            if isinstance(left, ast.Constant):
                left, texts = right, [left]
        case ast.Call(func=ast.Attribute(value=left, attr="startswith" | "endswith"), args=[right]):
            texts = [right]
        case _:
            return None
    while isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute):
        left = left.func.value
    named = isinstance(left, (ast.Name, ast.Attribute, ast.Subscript))
    return left if named and all(map(_is_text, texts)) else None


def _is_text(node: ast.expr) -> bool:
    """``"Adam"``, ``"Adam".lower()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
