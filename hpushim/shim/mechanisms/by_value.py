"""Names that other modules took by value before the shim came, where the in-place patches cannot reach them.

``from torch import tensor`` binds a C function; patching ``torch.tensor`` later does not change what that module
calls. Such names are bound anew, and bound back when the shim goes off. Python functions and classes need nothing: their
code changes in place. What a default argument, a closure or a class body keeps is not found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from hpushim.shim import log
from hpushim.shim.mechanisms import in_place

# The standard library takes nothing from torch, and has most of the other names.
_SKIPPED = {*sys.stdlib_module_names, "torch", "hpushim", "_hpushim", "habana_frameworks"}


_restored: list[tuple[Any, str, str]] = []


def rebind(*, again: bool = False) -> list[str]:
    """Gives every module outside torch that holds an object which was replaced by name the present one; says which.

    ``again``: only the names that :func:`restore` took back, silently.
    """
    if again:
        for module, name, dotted in _restored:
            setattr(module, name, _present(dotted))
        return []
    said = []
    for module_name, module, name, dotted in list(_holders(in_place.replaced)):
        present = _present(dotted)
        if present is not None:
            setattr(module, name, present)
            said.append(_say(module_name, module, name, dotted))
    return said


def restore() -> None:
    """Gives the modules that hold a replacement the original again; to be called while the patches are still on."""
    _restored.clear()
    current = {
        id(present): (present, (original, dotted))
        for original, dotted in in_place.replaced.values()
        if (present := _present(dotted)) is not None and present is not original
    }
    for _, module, name, (original, dotted) in list(_holders(current)):
        setattr(module, name, original)
        _restored.append((module, name, dotted))


def _holders(wanted: dict[int, tuple[Any, Any]]) -> Iterator[tuple[str, Any, str, Any]]:
    """The modules' names that hold one of the wanted objects, each with what goes with the object."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in _SKIPPED or not isinstance(module, ModuleType):
            continue
        names = dict(vars(module))
        if wanted.keys().isdisjoint(map(id, names.values())):
            continue
        for name, value in names.items():
            found = wanted.get(id(value))
            if found is not None and found[0] is value:
                yield module_name, module, name, found[1]


def _present(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def _say(module_name: str, module: Any, name: str, target: str) -> str:
    file = getattr(module, "__file__", None) or module_name
    line = _line(file, name)
    text = (
        f"{file}:{line}: {name} was imported from {target} before hpushim and is bound anew; "
        "import hpushim first, so that nothing keeps the name it had"
    )
    log.note("HPU901", text)
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
