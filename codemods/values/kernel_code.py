"""Code that only wraps kernels for NVIDIA GPUs: no other device runs it, whatever its checks and moves say."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.pycode.values import Values

from ..analysis.kernels import extension_imports, is_function, kernel_calls
from ..analysis.names import word
from .checks import Regions

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def kernel_code(module: Module) -> dict[ast.AST, ast.AST]:
    """The functions and classes that are such code, each with what shows it.

    Functions of autograd in a file that imports an extension of the project, functions that call one under no check for CUDA, and
    those that nothing but such code calls.
    """
    found: dict[ast.AST, ast.AST] = {}
    regions = module.view(Regions)
    extension = next((alias for alias, _ in extension_imports(module)), None)
    for use in kernel_calls(module):
        if word(use) == "apply":
            continue
        owner: ast.AST | None = next((above for above in module.ancestors(use) if isinstance(above, _FUNCTIONS)), None)  # fmt: skip
        inside = next((above for above in module.ancestors(use) if isinstance(above, ast.ClassDef)), None)  # fmt: skip
        if inside is not None and is_function(inside):
            owner = inside
        if owner is not None and not regions.owners(use):
            found.setdefault(owner, use)
    for node in module.tree.body if extension is not None else ():
        if isinstance(node, ast.ClassDef) and is_function(node):
            found.setdefault(node, extension)  # type: ignore[arg-type]
    while more := _serving(module, found):
        found |= more
    return found


def _serving(module: Module, found: dict[ast.AST, ast.AST]) -> dict[ast.AST, ast.AST]:
    """The functions at the top of the file that are used in such code alone."""
    more: dict[ast.AST, ast.AST] = {}
    for node in module.tree.body if found else ():
        if not isinstance(node, _FUNCTIONS) or node in found:
            continue
        uses = [use for use in module.index.names(node.name) if isinstance(use.ctx, ast.Load)]
        around = [next((found[a] for a in module.ancestors(use) if a in found), None) for use in uses]  # fmt: skip
        calls = module.view(Values).calls_of(node)
        if uses and len(calls) == len(uses) and all(around):
            more[node] = around[0]  # type: ignore[assignment]
    return more
