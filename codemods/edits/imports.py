"""How names are written where they are needed, and the imports that this takes."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import PurePath
from typing import Any

from hpushim.engine.python import imports
from hpushim.engine.python.changes import Change, Import, Insert, Replace
from hpushim.engine.python.module import Module

from .at_hand import DEFINED
from .spelling import shared

CORE = "habana_frameworks.torch.core"
CORE_ALIAS = "htcore"

_DEFINED = (*DEFINED, ast.ClassDef)

root = imports.root
through = imports.through
local_name = imports.local_name


def core(module: Module) -> tuple[str, Import]:
    """The name of Gaudi's bridge in the file, and its import; in the dual style one that does without."""
    name = imports.local_name(module, CORE, CORE_ALIAS)
    code = ""
    if shared(module):
        code = (
            f"try:\n    import {CORE} as {name}\n"
            "except ImportError:  # no Gaudi here\n"
            "    from types import SimpleNamespace\n\n"
            f"    {name} = SimpleNamespace(mark_step=lambda: None)"
        )
    return name, Import(CORE, CORE_ALIAS, code, brings="torch.hpu")


def taken_from(module: Module, home: str, name: str, user: ast.stmt | None) -> Change | None:
    """``from home import name``, in the import that the file has from there, or behind its last one; None where ``user`` needs it above.

    Behind what may put the folder of the home on the path: a statement, or another import.
    """
    body = module.tree.body
    above = body if user is None else body[: body.index(user)]
    head = body[: imports.first_definition(body)]
    top = [s for s in head if isinstance(s, (ast.Import, ast.ImportFrom))]
    top = top or [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom))]
    own = [s for s in top if isinstance(s, ast.ImportFrom) and _of_project(module, s)]
    for statement in own:
        if f"{'.' * statement.level}{statement.module or ''}" == home and statement.names[0].name != "*":  # fmt: skip
            return Replace(statement, partial(_with_name, name))
    first = home.partition(".")[0]
    found = not first or _is_beside(module, first)
    near = [s for s in own if s in above and (found or s.level or (s.module or "").partition(".")[0] == first)]  # fmt: skip
    puts = [] if near else [s for s in body if not isinstance(s, _DEFINED) and "sys.path" in module.source(s)]  # fmt: skip
    behind = max((near or top)[-1:] + puts, key=body.index, default=None)
    if behind is None or behind not in above:
        return None
    return Insert(behind, f"from {home} import {name}")


def _is_beside(module: Module, name: str) -> bool:
    """Is it a module in the folder of the file, which a script finds anywhere?"""
    folder = PurePath(module.path).parent
    return any(str(folder / each) in module.project.files for each in (f"{name}.py", f"{name}/__init__.py"))  # fmt: skip


def _of_project(module: Module, statement: ast.ImportFrom) -> bool:
    first = (statement.module or "").partition(".")[0]
    return bool(statement.level) or first in module.project.modules


def _with_name(name: str, node: Any) -> Any:
    """A libcst import that takes one name more."""
    import libcst as cst

    *before, last = node.names
    comma = before[-1].comma if before else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    added = cst.ImportAlias(cst.Name(name), comma=last.comma)
    return node.with_changes(names=[*before, last.with_changes(comma=comma), added])


def torch(module: Module, node: ast.AST, name: str) -> tuple[str, tuple[Import, ...]]:
    """How ``torch.NAME`` is written at ``node``, and the import that it needs."""
    return imports.through(module, node, f"torch.{name}")
