"""The agnostic style: what a maintainer writes for every accelerator that torch knows, with no vendor's name.

A choice keeps its form (``"cuda" if torch.cuda.is_available() else "cpu"``); elsewhere the device that the code has at hand is
reused, or the file gets one constant, which the rule ``dual_constant`` defines. What torch has no neutral word for is spelled
:data:`NONE`: the fix that would write it is not offered, and the place is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.python import imports
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.pycode.scope import Binding

#: In place of a neutral word that torch does not have; no fix may write it in this style.
NONE = "hpu"
#: The constant of a file, and what it is called where the first name is taken.
CONSTANTS = ("DEVICE", "TORCH_DEVICE")
#: torch's names for every accelerator, in place of those in ``torch.hpu``; all are there since torch 2.6.
NAMES = {
    f"torch.hpu.{name}": f"torch.{neutral}"
    for name, neutral in {
        "is_available": "accelerator.is_available",
        "device_count": "accelerator.device_count",
        "current_device": "accelerator.current_device_index",
        "set_device": "accelerator.set_device_index",
        "synchronize": "accelerator.synchronize",
        "current_stream": "accelerator.current_stream",
        "set_stream": "accelerator.set_stream",
        "Stream": "Stream",
        "Event": "Event",
    }.items()
}
_ACCELERATOR = "torch.accelerator.current_accelerator"
_CUDA = re.compile(r"cuda(:\d+)?")
_DEVICE = re.compile(r"(cuda|cpu|mps|xpu|npu)(:\d+)?")
_NAMED = re.compile(r"(?:^|_)(dev|device)$", re.I)
#: Devices of other vendors, and where a file names them.
_OTHERS = ("mps", "xpu", "npu", "xla", "tpu", "mlu", "musa", "hip")
_NAMES = re.compile(rf"""["']({"|".join(_OTHERS)})(?::\d+)?["']""")
#: A condition that is true only where there is an accelerator.
_CHECKS = re.compile(r"cuda|gpu|accel", re.I)
#: The number of a process's own device.
_OWN = re.compile(r"rank|gpu", re.I)
#: Calls that keep their arguments for later, so that none of them is a device in use.
_OPTIONS = ("add_argument", "option", "Option", "Field", "field", "get", "getattr", "setdefault", "pop")  # fmt: skip
#: Methods of tensors and modules that take a device in any form.
_METHODS = ("to", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to_empty")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


# -- a device -------------------------------------------------------------------------------


def current(module: Module, node: ast.AST) -> str:
    """``torch.accelerator.current_accelerator()``, where the file has torch under a name."""
    name, needed = imports.through(module, node, _ACCELERATOR)
    if not all(each.there for each in needed) or _comes_before_torch(module, node):
        return NONE
    return f"{name}()"


def _comes_before_torch(module: Module, node: ast.AST) -> bool:
    """Is the node run where the file is loaded, above the import of torch?"""
    if _around(module, node) is not None:
        return False
    first = min((s.lineno for s in module.imports if _is_of_torch(s)), default=0)
    return getattr(node, "lineno", first) < first


def or_cpu(module: Module, node: ast.AST, mark: str, *, text: bool) -> str:
    """The accelerator where there is one, else the CPU: its type, or the device."""
    now = current(module, node)
    if now == NONE:
        return NONE
    cpu = f"{mark}cpu{mark}"
    asked = f"{now.removesuffix('current_accelerator()')}is_available()"
    if text:
        return f"{now}.type if {asked} else {cpu}"
    torch = now.removesuffix(".accelerator.current_accelerator()")
    return f"{now} if {asked} else {torch}.device({cpu})"


def device(module: Module, node: ast.AST | None) -> str:
    """A device for ``node``, whatever takes it: the one at hand, or the file's constant."""
    found = at_hand(module, node) if node is not None else None
    return found[0] if found else _constant(module)


def kind(module: Module, node: ast.AST | None) -> str:
    """The type of that device, as a text."""
    found = at_hand(module, node, types=True) if node is not None else None
    if found and found[1] in ("device", "type"):
        return found[0] if found[1] == "type" else f"{found[0]}.type"
    return f"{_constant(module)}.type"


def literal(module: Module, node: ast.expr, mark: str) -> str:
    """What is written in place of the text ``"cuda"``; nothing in a file without torch, such as one of settings."""
    if not any(_is_of_torch(statement) for statement in module.imports):
        return NONE
    made = module.parent(node)
    outer: ast.AST = node
    if isinstance(made, ast.keyword):
        if made.arg == "choices":
            return NONE
        made = module.parent(made)
    if isinstance(made, ast.Call) and module.qualified(made.func) == "torch.device":
        outer = made
    if is_chosen(module, outer):
        now = current(module, node)
        return NONE if now == NONE else f"{now}.type"
    above = module.parent(outer)
    if isinstance(above, (ast.List, ast.Tuple, ast.Set)) and not isinstance(
        module.parent(above), ast.Assign
    ):
        return NONE  # one of several that are listed
    if outer is node:
        call = module.parent(above) if isinstance(above, ast.keyword) else above
        if isinstance(call, ast.Call) and node is not call.func and not _keeps(call):
            typed = isinstance(above, ast.keyword) and above.arg == "device_type"
            takes = _takes_device(module, call) and not typed
            return device(module, node) if takes else kind(module, node)
        if isinstance(above, ast.arguments):
            return kind(module, node)
    return or_cpu(module, node, mark, text=True)


def made(module: Module, node: ast.AST, mark: str) -> str | None:
    """What is written for the whole of ``torch.device("cuda")``; None for a call that says more."""
    call = module.parent(node)
    if (
        not isinstance(call, ast.Call)
        or module.qualified(call.func) != "torch.device"
        or len(call.args) + len(call.keywords) != 1
    ):
        return None
    now = current(module, call)
    if is_chosen(module, call):
        return now
    above = module.parent(call)
    if isinstance(above, ast.Compare):
        return NONE
    if isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return)):
        return or_cpu(module, call, mark, text=False)
    return device(module, call)


def is_chosen(module: Module, node: ast.AST) -> bool:
    """Is the device one side of a choice, so that the other side is taken where there is no accelerator?"""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, ast.IfExp):
            return child is not above.test
        if isinstance(above, ast.BoolOp):
            return isinstance(above.op, ast.And) or above.values[0] is not child
        if isinstance(above, ast.If) and child in above.body and _CHECKS.search(module.source(above.test)):  # fmt: skip
            return True
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)):
            return False
        child = above
    return False


def _keeps(call: ast.Call) -> bool:
    return _last(call.func) in _OPTIONS


def _takes_device(module: Module, call: ast.Call) -> bool:
    """Does the call take a ``torch.device`` as well as a text?"""
    name = module.qualified(call.func) or ""
    return (name.startswith("torch.") and "autocast" not in name and ".amp." not in name) or _last(
        call.func
    ) in _METHODS


def _last(func: ast.expr) -> str:
    return getattr(func, "attr", getattr(func, "id", ""))


def _constant(module: Module) -> str:
    """The name of the file's constant."""
    taken = is_open(module) or any(True for _ in module.index.names(CONSTANTS[0]))
    return CONSTANTS[1] if taken else CONSTANTS[0]


def is_open(module: Module) -> bool:
    """Does the file get names that it does not mention?"""
    return any(alias.name == "*" for s in module.imports for alias in s.names)


def _is_of_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and (statement.module or "").partition(".")[0] == "torch"
    return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)


# -- the device at hand ---------------------------------------------------------------------


def at_hand(module: Module, node: ast.AST, *, types: bool = False) -> tuple[str, str] | None:
    """A variable that is seen at ``node``, holds the accelerator or the CPU there, and how: ``"device"``, ``"type"``, ``"text"``."""
    for name in sorted(_names(module, types=types), key=lambda name: (name != "device", name)):
        bound = module.scope(node).lookup(name)
        if not bound or not all(b.kind == "assign" and b.value is not None for b in bound):
            continue
        kinds = {_held(module, b.value) for b in bound if b.value is not None}
        if types and not kinds <= {"device", "type"}:
            continue
        if None in kinds or not any(_is_accelerator(module, b) for b in bound):
            continue
        if _is_set(module, bound, node):
            only = next(iter(kinds)) if len(kinds) == 1 else "text"
            return name, str(only)
    return None


def _names(module: Module, *, types: bool) -> set[str]:
    """The names that the file gives to devices."""
    return {
        name
        for scope in module.index.scopes.values()
        for name in scope.bindings
        if _NAMED.search(name) or (types and name == "device_type")
    }


def _held(module: Module, value: ast.expr) -> str | None:
    """``"device"`` or ``"text"`` for an expression that is plainly one; ``"type"`` where the text has no index."""
    if isinstance(value, ast.IfExp):
        sides = {_held(module, value.body), _held(module, value.orelse)}
        return sides.pop() if len(sides) == 1 else None if None in sides else "text"
    if isinstance(value, ast.Constant):
        text = str(value.value)
        return None if not _DEVICE.fullmatch(text) else "text" if ":" in text else "type"
    if isinstance(value, ast.JoinedStr):
        first = value.values[0] if value.values else None
        return "text" if isinstance(first, ast.Constant) and str(first.value) == "cuda:" else None
    if isinstance(value, ast.Attribute) and value.attr == "type":
        return "type" if _held(module, value.value) == "device" else None
    if isinstance(value, ast.Call):
        name = module.qualified(value.func)
        if name == _ACCELERATOR:
            return "device"
        if name == "torch.device" and value.args:
            named = isinstance(value.args[0], ast.Name) and _NAMED.search(value.args[0].id)
            return "device" if named or _held(module, value.args[0]) else None
    return None


def _is_accelerator(module: Module, bound: Binding) -> bool:
    assert bound.value is not None
    return any(
        (isinstance(part, ast.Constant) and _CUDA.match(str(part.value)))
        or (isinstance(part, ast.Name) and _NAMED.search(part.id))
        or (isinstance(part, ast.Attribute) and module.qualified(part) == _ACCELERATOR)
        for part in walk(bound.value)
    )


def _is_set(module: Module, bound: list[Binding], node: ast.AST) -> bool:
    """Has the variable its value wherever ``node`` runs: given above it in its own block or one around, or at the top level?"""
    function = _around(module, node)
    blocks = {id(above): above for above in module.ancestors(node)}
    for each in bound:
        statement = module.statement(each.node)
        inside = next((a for a in module.ancestors(statement) if isinstance(a, _FUNCTIONS)), None)
        block = _whole(module, statement, bound)
        if inside is None and function is not None:
            if isinstance(module.parent(block), ast.Module):
                return True
        elif id(module.parent(block)) in blocks and _before(block, node):
            side = _side(module.parent(block), block)
            if side is None or any(above in side for above in (node, *module.ancestors(node))):
                return True
    return False


def _around(module: Module, node: ast.AST) -> ast.AST | None:
    """The function in whose body ``node`` is; defaults are worked out where the function is defined."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, ast.Lambda) and child is above.body:
            return above
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in above.body:
            return above
        child = above
    return None


def _whole(module: Module, statement: ast.stmt, bound: list[Binding]) -> ast.stmt:
    """The ``if`` whose every branch gives the variable a value, in place of one of these."""
    above = module.parent(statement)
    if not isinstance(above, ast.If) or not above.orelse:
        return statement
    given = {id(module.statement(b.node)) for b in bound}
    for branch in _branches(above):
        if not any(id(one) in given for one in branch):
            return statement
    top: ast.stmt = above
    while isinstance(outer := module.parent(top), ast.If) and outer.orelse == [top]:
        if not any(id(one) in given for one in outer.body):
            return statement
        top = outer
    return top


def _branches(first: ast.If) -> Iterator[list[ast.stmt]]:
    yield first.body
    if len(first.orelse) == 1 and isinstance(first.orelse[0], ast.If):
        yield from _branches(first.orelse[0])
    else:
        yield first.orelse


def _side(parent: ast.AST | None, statement: ast.stmt) -> list[ast.stmt] | None:
    """The branch of an ``if``, a loop or a ``try`` that a statement is in; None where its block has one branch only."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            return block
    return None


def _before(statement: ast.stmt, node: ast.AST) -> bool:
    end = (statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    return end <= (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


# -- numbers of devices ---------------------------------------------------------------------


def number(module: Module, node: ast.expr) -> str:
    """The number of a process's own device: the local rank, counted among the devices that the process sees."""
    source = module.source(node)
    name, needed = imports.through(module, node, "torch.accelerator.device_count")
    if not all(each.there for each in needed):
        return NONE
    if is_in_use(module, node):
        return f"{name.removesuffix('device_count')}current_device_index()"
    if "device_count" in source or isinstance(node, ast.Constant) or not re.search(r"rank", source, re.I):  # fmt: skip
        return source
    simple = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"{source if simple else f'({source})'} % {name}()"


def is_in_use(module: Module, node: ast.expr) -> bool:
    """Is it the number of the one device that the process has chosen: does the file choose one by such a number?"""
    if not _OWN.search(module.source(node)) or _chooses(module, node):
        return False
    return any(
        call.args and call.args[0] is not node and _OWN.search(module.source(call.args[0]))
        for name in ("set_device", "set_device_index")
        for call in module.index.calls(name)
    )


def _chooses(module: Module, node: ast.AST) -> bool:
    """Is it in the call that chooses the device?"""
    return any(
        isinstance(above, ast.Call) and _last(above.func) in ("set_device", "set_device_index")
        for above in module.ancestors(node)
    )


def numbered(module: Module, node: ast.expr, *, plain: bool = True) -> str:
    """A device by its number. A number alone names no vendor (``plain``): it stays where the process has chosen no device.

    The number of ``.cuda(…)`` may be None, for the device in use.
    """
    if is_in_use(module, node):
        return device(module, node)
    if plain:
        return NONE
    new = number(module, node)
    if new == NONE or isinstance(node, ast.Constant) or "%" in new:
        return new
    torch, _ = imports.through(module, node, "torch.device")
    return f"{torch}({kind(module, node)}, {new})"


# -- comparisons ----------------------------------------------------------------------------


def compared(module: Module, owner: ast.AST, node: ast.expr, mark: str) -> tuple[ast.expr, str] | None:  # fmt: skip
    """A comparison with CUDA that means any accelerator: what is replaced, and by what; None where that cannot be known."""
    cpu = f"{mark}cpu{mark}"
    if module.constant(node) != "cuda":
        return None
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        if owner.func.attr == "startswith" and owner.args == [node]:
            asked = f"{module.source(owner.func)}({cpu})"
            return _turned(module, owner, asked, module.view(_known))
        return None
    if not isinstance(owner, ast.Compare) or len(owner.ops) != 1:
        return None
    left, right, op = owner.left, owner.comparators[0], owner.ops[0]
    others = module.view(_known)
    if isinstance(op, (ast.In, ast.NotIn)):
        if left is node:
            if not _is_text(module, right):
                return None
            choice = module.parent(owner)
            if isinstance(op, ast.In) and isinstance(choice, ast.IfExp) and choice.test is owner:
                whole = _type_of(module, choice, right)
                if whole is not None:
                    return choice, whole
            if others:
                return None  # a text with an index is in no list
            turned = "not in" if isinstance(op, ast.In) else "in"
            return owner, f"{cpu} {turned} {module.source(right)}"
        if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            rest = {str(module.constant(each)) for each in right.elts} - {"cuda"}
            left_out = [one for one in others if one not in rest]
            if "cpu" not in rest and rest <= {"", *_OTHERS}:
                return owner, _unlike(
                    module.source(left), left_out, mark, same=isinstance(op, ast.NotIn)
                )
        return None
    if not isinstance(op, (ast.Eq, ast.NotEq)):
        return None
    side = left if right is node else right
    shown = module.source(side)
    if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
        if side.slice.lower is not None or module.constant(side.slice.upper) != 4:
            return None
        shown = f"{module.source(side.value)}[:3]"
    return owner, _unlike(shown, others, mark, same=isinstance(op, ast.NotEq))


def _unlike(shown: str, others: list[str], mark: str, *, same: bool) -> str:
    """``device.type != "cpu"``; the devices that the file treats in a way of their own stay apart from it."""
    if not others:
        return f"{shown} {'==' if same else '!='} {mark}cpu{mark}"
    named = ", ".join(f"{mark}{one}{mark}" for one in ("cpu", *others))
    return f"{shown} {'in' if same else 'not in'} ({named})"


def _turned(
    module: Module, owner: ast.expr, asked: str, others: list[str]
) -> tuple[ast.expr, str] | None:
    if others:
        return None
    above = module.parent(owner)
    if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
        return above, asked
    return owner, f"not {asked}"


def _type_of(module: Module, choice: ast.IfExp, subject: ast.expr) -> str | None:
    """``"cuda" if "cuda" in device else "cpu"`` is the type of the device."""
    if module.constant(choice.body) != "cuda" or module.constant(choice.orelse) != "cpu":
        return None
    name, needed = imports.through(module, choice, "torch.device")
    if not all(each.there for each in needed):
        return None
    return f"{name}({module.source(_inner(subject))}).type"


def _inner(subject: ast.expr) -> ast.expr:
    """The device in ``str(device)``."""
    if isinstance(subject, ast.Call) and _last(subject.func) == "str" and len(subject.args) == 1:
        return subject.args[0]
    return subject


def _is_text(module: Module, node: ast.expr) -> bool:
    """Is it the text of one device, and no collection of several?"""
    inner = _inner(node)
    if inner is not node:
        return True
    if isinstance(node, ast.Subscript):
        return _NAMED.search(str(module.constant(node.slice))) is not None
    last = _last(node)
    return bool(_NAMED.search(last)) or last in ("device_type", "type", "accelerator")


def _known(module: Module) -> list[str]:
    """The other devices that the file knows by name: a comparison with CUDA does not mean these."""
    return sorted(set(_NAMES.findall(module.text)))
