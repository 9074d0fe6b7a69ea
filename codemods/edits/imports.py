"""How names are written where they are needed, and the imports that this takes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.python import imports
from hpushim.engine.python.changes import Import

from .spelling import shared

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

CORE = "habana_frameworks.torch.core"
CORE_ALIAS = "htcore"

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
    return name, Import(CORE, CORE_ALIAS, code)


def torch(module: Module, node: ast.AST, name: str) -> tuple[str, tuple[Import, ...]]:
    """How ``torch.NAME`` is written at ``node``, and the import that it needs."""
    return imports.through(module, node, f"torch.{name}")
