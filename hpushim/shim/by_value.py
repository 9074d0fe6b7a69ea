"""Names that other modules took by value before the shim came, where the in-place patches cannot reach them.

``from torch import tensor`` binds a C function; patching ``torch.tensor`` later does not change what that module
calls. Python functions and classes are safe: their code changes in place.
"""

from __future__ import annotations

import sys
from typing import Any

from hpushim.shim import in_place, log


def report() -> list[str]:
    """Warns of every module outside torch that holds an object which was replaced by name; returns what it said."""
    said = []
    for module_name, module in list(sys.modules.items()):
        top = module_name.partition(".")[0]
        if top in ("torch", "hpushim", "_hpushim", "habana_frameworks"):
            continue
        names = dict(getattr(module, "__dict__", ()))
        if in_place.replaced.keys().isdisjoint(map(id, names.values())):
            continue
        for name, value in names.items():
            found = in_place.replaced.get(id(value))
            if found is not None and found[0] is value:
                said.append(_say(module_name, module, name, found[1]))
    return said


def _say(module_name: str, module: Any, name: str, target: str) -> str:
    file = getattr(module, "__file__", None) or module_name
    line = _line(file, name)
    text = (
        f"{file}:{line}: {name} was imported from {target} before hpushim; "
        "import hpushim first so that this name is patched as well"
    )
    log.warn("HPU901", text)
    return text


def _line(file: str, name: str) -> int:
    """The line of the import that binds the name, 0 when it cannot be read."""
    import ast

    try:
        with open(file, "rb") as stream:  # noqa: PTH123
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import) and any(
            (alias.asname or alias.name) == name for alias in node.names
        ):
            return node.lineno
    return 0
