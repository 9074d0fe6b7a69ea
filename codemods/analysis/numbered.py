"""Numbers that are put behind the name of a device which is in a variable: ``f"{kind}:{rank}"``, ``torch.device(kind, rank)``, ``name += f":{rank}"``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from hpushim.compare import texts
from hpushim.engine.python.changes import Change, Remove, Replace
from hpushim.engine.python.module import Module
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits.arguments import argument
from .names import word

_COMPOSES = (ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Call, ast.Attribute, ast.Tuple, ast.List)  # fmt: skip
_CUDA = "cuda:"
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
        if isinstance(above, ast.expr) and texts.pieces(above):
            whole = above
        above = module.parent(above)
    parts = texts.pieces(whole) if whole is not None else None
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
    made = origins[0] if len(origins) == 1 else None
    if not isinstance(made, ast.expr) or module.function(made) is not module.function(device):
        return None
    number: object = None
    if isinstance(made, ast.Call) and module.qualified(made.func) == "torch.device":
        number = argument(made, "index", 1)
        given = argument(made, "type", 0) or argument(made, "device")
        made = made if given is None else given
    parts = texts.pieces(made)
    if number is None and parts and len(parts) == 2 and parts[0] == _CUDA:
        number = parts[1]
    if isinstance(number, ast.Call) and word(number.func) == "str" and len(number.args) == 1:
        number = number.args[0]
    if not isinstance(number, (ast.Name, ast.Attribute)) or not parts or parts[0] not in (_CUDA, _CUDA[:-1]):  # fmt: skip
        return None
    names = [part for part in walk(number) if isinstance(part, ast.Name)]
    return number if all(len(module.bindings(name)) == 1 for name in names) else None
