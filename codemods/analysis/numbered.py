"""Numbers that are put behind the name of a device which is in a variable: ``f"{kind}:{rank}"``, ``torch.device(kind, rank)``, ``name += f":{rank}"``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from hpushim.compare import texts
from hpushim.engine.python.changes import Change, Remove, Replace
from hpushim.engine.python.module import Module
from hpushim.pycode import composed
from hpushim.pycode.stores import assigned, last_store, stores
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits.arguments import argument
from ..edits.at_hand import unwrapped
from .device_texts import other_device
from .names import word

_COMPOSES = (ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Call, ast.Attribute, ast.Tuple, ast.List)  # fmt: skip
_CUDA = "cuda:"
#: What a condition that is evaluated twice may be made of.
_REPEATABLE = (ast.Name, ast.Attribute, ast.Constant, ast.BoolOp, ast.UnaryOp, ast.Compare)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Numbered(NamedTuple):
    """A device with a number, the name or attribute that the device is in, and what takes the number away."""

    node: ast.expr | ast.stmt
    kind: ast.expr
    change: Change


def numbered(module: Module) -> Iterator[Numbered]:
    """Every such place, whatever the variable holds, in no order."""
    seen: set[ast.AST] = set()
    for constant in module.index.strings(":"):
        found = _behind_colon(module, constant)
        if found is not None and found.node not in seen and not _is_collected(module, found.node):
            seen.add(found.node)
            yield found
    for call in module.index.calls("device"):
        if module.qualified(call.func) == "torch.device":
            yield from _second_argument(module, call)


def uses(module: Module, node: ast.AST, kind: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose use says whether the text is a device's: itself, or what reads the variable that it is added to."""
    if isinstance(node, ast.AugAssign):
        index = module.index
        attribute = isinstance(kind, ast.Attribute)
        reads: list[ast.expr] = [*(index.attributes if attribute else index.names)(word(kind))]
        yield from (read for read in reads if isinstance(getattr(read, "ctx", None), ast.Load) and module.function(read) is module.function(node))  # fmt: skip
    elif isinstance(node, ast.Call) and module.qualified(node.func) == "torch.device":
        yield node.args[0] if node.args else kind
    elif isinstance(node, ast.expr):
        yield node


def _is_collected(module: Module, node: ast.AST) -> bool:
    """Is it one of several, ``[f"{kind}:{i}" for i in range(n)]``?"""
    above = module.parent(node)
    while isinstance(above, ast.expr) and not isinstance(above, _COMPREHENSIONS):
        above = module.parent(above)
    return isinstance(above, _COMPREHENSIONS)


def _behind_colon(module: Module, constant: ast.Constant) -> Numbered | None:
    whole: ast.expr | None = None
    above: ast.AST | None = constant
    while above is constant or isinstance(above, _COMPOSES):
        if isinstance(above, ast.expr) and composed.pieces(above):
            whole = above
        above = module.parent(above)
    parts = composed.pieces(whole) if whole is not None else None
    if whole is None or not parts:
        return None
    if isinstance(above, ast.AugAssign) and above.value is whole and isinstance(above.op, ast.Add):
        alone = parts[0] == ":" and len(parts) == 2 and isinstance(parts[1], ast.expr)
        return Numbered(above, above.target, Remove(above)) if alone else None
    if len(parts) != 3 or parts[1] != ":":
        return None
    kind, _, number = parts
    if not isinstance(kind, (ast.Name, ast.Attribute)) or not isinstance(number, ast.expr):
        return None
    name = module.source(kind)
    if isinstance(above, ast.Assign) and [module.source(each) for each in above.targets] == [name]:
        return Numbered(whole, kind, Remove(above))
    return Numbered(whole, kind, Replace(whole, name))


def _second_argument(module: Module, call: ast.Call) -> Iterator[Numbered]:
    given = {keyword.arg: keyword for keyword in call.keywords}
    kind = call.args[0] if call.args else getattr(given.get("type"), "value", None)
    number = call.args[1] if len(call.args) == 2 else given.get("index")
    value = number.value if isinstance(number, ast.keyword) else number
    if (
        isinstance(kind, (ast.Name, ast.Attribute))
        and number is not None
        and module.constant(value) != 0
    ):
        yield Numbered(call, kind, Remove(number))


def number_of(module: Module, device: ast.expr) -> ast.expr | None:
    """The number in the device that ``device`` surely is, where it can be written again there: ``rank`` for ``torch.device(f"cuda:{rank}")``."""
    origins = module.view(Values).origins(device)
    made = _last_given(module, device) or (origins[0] if len(origins) == 1 else None)
    if not isinstance(made, ast.expr) or module.function(made) is not module.function(device):
        return None
    return _number_in(module, made)


def chosen_number(module: Module, device: ast.expr) -> str:
    """The number as the choice makes it that makes the device, ``rank if many else 0``, or as it is in a text given there; "" where neither is certain."""
    number = _behind(composed.pieces(device))
    if number is not None:
        whole = isinstance(number, ast.Call) and word(number.func) == "int"
        return module.source(number) if whole else f"int({module.source(number)})"
    last = _last_store(module, device)
    value = assigned(last, device) if last is not None else device
    while value is not None and isinstance(value, ast.Call) and _is_device(module, value) and len(value.args) == 1:  # fmt: skip
        value = value.args[0]
    test: ast.expr = device
    given: list[ast.expr | None] = []
    if isinstance(last, ast.If) and isinstance(device, ast.Name):
        test = last.test
        blocks = (last.body, last.orelse)
        given = [assigned(one, device) for block in blocks for one in block if stores(one, device)]  # fmt: skip
    elif isinstance(value, ast.IfExp):
        test, given = value.test, [value.body, value.orelse]
    if len(given) != 2:
        return ""
    # The CPU is never set: where it is the other choice, the number is that of the device.
    numbers = [_number_or_zero(module, one) for one in given if one is None or not other_device(unwrapped(module, one))]  # fmt: skip
    if not numbers or not all(numbers):
        return ""
    if len(numbers) == 1:
        return numbers[0]
    within = [part for part in walk(test) if isinstance(part, ast.expr)]
    if not all(isinstance(part, _REPEATABLE) for part in within):
        return ""
    names = [part for part in within if isinstance(part, ast.Name)]
    again = all(len(module.bindings(name)) == 1 for name in names)
    return f"{numbers[0]} if {module.source(test)} else {numbers[1]}" if again else ""


def lost(module: Module) -> list[ast.expr]:
    """The devices given to ``set_device`` whose number is lost with the device's text, and is not certain enough to write it there; a view."""
    return [
        call.args[0]
        for call in module.index.calls("set_device")
        if call.args
        and module.qualified(call.func) == "torch.cuda.set_device"
        and loses_number(module, call.args[0])
        and number_of(module, call.args[0]) is None
        and not chosen_number(module, call.args[0])
    ]


def loses_number(module: Module, device: ast.expr) -> bool:
    """May the device have a number of the run's, which it loses: ``"cuda:%d" % rank``, ``torch.device("cuda", rank)``?"""
    last = _last_store(
        module, device
    )  # what a name is given further down, or in another branch, it has not yet
    given = last.value if isinstance(last, ast.Assign) else device
    parts = [part for origin in module.view(Values).origins(given) for part in walk(origin)]
    numbers = [argument(part, "index", 1) for part in parts if _is_device(module, part)]  # type: ignore[arg-type]
    numbers += [_behind(composed.pieces(part)) for part in parts]
    if any(number is not None and module.constant(number) is None for number in numbers):
        return True
    shown = module.source(device)
    added = (each for each in numbered(module) if isinstance(each.node, ast.AugAssign))
    if any(module.source(each.kind) == shown and module.function(each.node) is module.function(device) for each in added):  # fmt: skip
        return True
    return any(index and not index.isdigit() for index in map(texts.index_of, parts))


def _behind(parts: list[str | ast.expr] | None) -> ast.expr | None:
    """The number of a text put together: ``rank`` of ``f"cuda:{rank}"``, ``f"{kind}:{rank}"``."""
    number = parts[-1] if parts else None
    kind = parts[:-1] if parts else []
    named = len(kind) == 2 and isinstance(kind[0], (ast.Name, ast.Attribute)) and kind[1] == ":"
    return number if isinstance(number, ast.expr) and (kind == [_CUDA] or named) else None


def _is_device(module: Module, node: object) -> bool:
    return isinstance(node, ast.Call) and module.qualified(node.func) == "torch.device"


def _last_given(module: Module, device: ast.expr) -> ast.expr | None:
    return assigned(_last_store(module, device), device)


def _last_store(module: Module, device: ast.expr) -> ast.stmt | None:
    # In a loop, one further down may come before.
    return last_store(module, device, (ast.If,)) if isinstance(device, ast.Name) else None


def _number_or_zero(module: Module, made: ast.expr | None) -> str:
    """The number in a device, ``0`` for a fixed one or for the only one; "" for what is no such device."""
    if made is None:
        return ""
    number = _number_in(module, made)
    if number is not None:
        return module.source(number)
    index = texts.index_of(unwrapped(module, made))
    return "0" if index == "" or (index or "").isdigit() else ""


def _number_in(module: Module, made: ast.expr) -> ast.expr | None:
    number: object = None
    if isinstance(made, ast.Call) and module.qualified(made.func) == "torch.device":
        number = argument(made, "index", 1)
        given = argument(made, "type", 0) or argument(made, "device")
        made = made if given is None else given
    parts = composed.pieces(made)
    number = _behind(parts) if number is None else number
    if isinstance(number, ast.Call) and word(number.func) == "str" and len(number.args) == 1:
        number = number.args[0]
    named = isinstance(made, (ast.Name, ast.Attribute)) or (
        parts and isinstance(parts[0], ast.expr)
    )
    if not isinstance(number, (ast.Name, ast.Attribute)) or not (named or (parts and parts[0] in (_CUDA, _CUDA[:-1]))):  # fmt: skip
        return None
    names = [part for part in walk(number) if isinstance(part, ast.Name)]
    return number if all(len(module.bindings(name)) == 1 for name in names) else None
