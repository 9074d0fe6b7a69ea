"""Which nodes a rule takes for itself, so that a more general rule leaves them alone.

A rule claims in ``on_Module`` or earlier in the walk than the general rule looks: a claim on a node
holds for everything below it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


def claim(module: Module, node: ast.AST) -> None:
    """Says that ``node`` and what is below it is rewritten, or left on purpose, by the caller's rule."""
    _claims(module).add(node)


def claimed(module: Module, node: ast.AST) -> bool:
    """Whether a rule has claimed ``node`` or something around it."""
    claims = _claims(module)
    return bool(claims) and (node in claims or any(a in claims for a in module.ancestors(node)))


def kept_whole(module: Module) -> bool:
    """Whether the whole file is left as it is: it tells CUDA and Gaudi apart by itself."""
    return module.tree in _claims(module)


def _claims(module: Module) -> set[ast.AST]:
    found: set[ast.AST] = module.notes.setdefault("claims", set())
    return found
