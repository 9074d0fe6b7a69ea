"""Which package an object comes from."""

from __future__ import annotations

import ast
from collections.abc import Collection

from hpushim.engine.python.module import Module
from hpushim.pycode.values import Values

_NAMED = ("device", "device_name", "data_device", "accelerator")


def owner(module: Module, node: ast.expr) -> str:
    """The package of a function, of a method of what a package's class has made, and so on; empty where it is not to be seen.

    ``darts`` for ``NBEATSModel`` that is imported from it, and for ``model.fit`` behind ``model = NBEATSModel(…)``.
    """
    values, seen = module.view(Values), set[ast.expr]()
    while node not in seen:
        seen.add(node)
        if (name := module.qualified(node)) is not None:
            return name.partition(".")[0]
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            made = [each for each in values.origins(node) if isinstance(each, ast.Call)]
            if len(made) != 1:
                return ""
            node = made[0]
        if not isinstance(node, ast.Call):
            return ""
        node = node.func
    return ""


def gives_device(module: Module, packages: Collection[str]) -> bool:
    """Is what one of these packages offers called with a device or an accelerator, and with it all that is imported beside it?"""
    keys = (_table(module, key) for key in module.index.strings(_NAMED[-1]))
    given = [keyword for name in _NAMED for keyword in module.index.keywords(name)]
    calls = [module.parent(keyword) for keyword in (*given, *filter(None, keys)) if not _none(keyword.value)]  # fmt: skip
    theirs = [one for one in calls if isinstance(one, ast.Call) and owner(module, one.func) in packages]  # fmt: skip
    beside = {(module.qualified(one.func) or "").rpartition(".")[0] for one in theirs}
    return bool(theirs) and all(
        call in theirs
        for binding in module.import_bindings
        if (binding.qualified or "").rpartition(".")[0] in beside
        for use in module.uses(binding)
        if isinstance(call := module.parent(use), ast.Call) and call.func is use
    )


def _none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, "")


def _table(module: Module, key: ast.Constant) -> ast.keyword | None:
    """The argument that a key is in: ``pl_trainer_kwargs={"accelerator": …}``."""
    keyword = module.parent(table) if (table := module.parent(key)) is not None else None
    return keyword if isinstance(keyword, ast.keyword) and isinstance(table, ast.Dict) else None
