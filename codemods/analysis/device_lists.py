"""Lists of several devices of one process: ``[f"cuda:{i}" for i in range(n)]``, ``["cuda:0", "cuda:1"]``."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.pycode.walk import walk

from .device_texts import device_texts

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


def device_lists(module: Module) -> dict[ast.expr, ast.expr]:
    """Every such collection with the expression in it that names a device; a view."""
    found: dict[ast.expr, ast.expr] = {}
    displays: dict[ast.expr, dict[str, ast.expr]] = {}
    for text in device_texts(module):
        if (made := _comprehension(module, text.node)) is not None:
            if not over_all_devices(module, made):
                found.setdefault(made, text.node)
        elif text.index.isdigit() and (display := _display(module, text.node)) is not None:
            displays.setdefault(display, {}).setdefault(text.index, text.node)
    for call in module.index.calls("cuda"):
        if call.args and isinstance(call.func, ast.Attribute):
            made = _comprehension(module, call.args[0])
            if made is not None:
                found.setdefault(made, call)
    for display, named in displays.items():
        if len(named) > 1:
            found[display] = next(iter(named.values()))
    return found


def _comprehension(module: Module, item: ast.expr) -> ast.expr | None:
    """The comprehension whose own variable the number of a device is."""
    parts = [part for number in _number(module, item) for part in walk(number)]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    for child, above in module.upwards(item):
        if isinstance(above, _COMPREHENSIONS) and child not in above.generators:
            targets = [part for g in above.generators for part in walk(g.target)]
            if names & {part.id for part in targets if isinstance(part, ast.Name)}:
                return above
        if isinstance(above, (ast.stmt, ast.Lambda)):
            return None
    return None


def over_all_devices(module: Module, made: ast.AST | None) -> bool:
    """``[… for i in range(torch.cuda.device_count())]``: as many on Gaudi as the process has."""
    ranges = [g.iter for g in getattr(made, "generators", ())]
    return len(ranges) == 1 and any(
        isinstance(call, ast.Call)
        and module.qualified(call.func) == "builtins.range"
        and len(call.args) == 1
        and any(
            isinstance(count, ast.Call)
            and module.qualified(count.func) == "torch.cuda.device_count"
            for count in module.values(call.args[0])
        )
        for call in module.values(ranges[0])
    )


def _number(module: Module, item: ast.expr) -> list[ast.expr]:
    """What the number of a device is made of: in its text, or beside it in ``torch.device("cuda", i)``."""
    above = module.parent(item)
    device = isinstance(above, ast.Call) and module.qualified(above.func) == "torch.device"
    return [item, *above.args[1:]] if device and isinstance(above, ast.Call) else [item]


def _display(module: Module, item: ast.expr) -> ast.expr | None:
    """The list, tuple, set or dict that the device is a member of, also as ``torch.device("cuda:0")``."""
    child: ast.AST = item
    above = module.parent(item)
    if isinstance(above, ast.Call) and module.qualified(above.func) == "torch.device":
        child, above = above, module.parent(above)
    if isinstance(above, ast.Dict):
        return above if child in above.values else None
    return above if isinstance(above, _DISPLAYS) else None
