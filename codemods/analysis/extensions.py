"""Compiled CUDA extensions of a project: the names that a file has for them, and the calls that end in their kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .project_facts import EXTENSIONS

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: The last word of what is imported: ``from ._ext import …``, ``from project import _C``, ``import corr_cuda``.
_EXTENSION = re.compile(r"_C|_ext|_?cuda_\w+|\w+_cuda(_kernels?|_ext|_lib)?")
#: Packages whose ``_C`` is no kernel of the project's.
_OTHERS = frozenset(["torch", "torchvision", "torchaudio", "torchtext", "numpy", "scipy"])
_LOADERS = {
    "load": "torch.utils.cpp_extension.load",
    "load_inline": "torch.utils.cpp_extension.load_inline",
}


def kernel_calls(module: Module) -> Iterator[ast.expr]:
    """What is called of an extension, and ``apply`` of a Function of this file that calls one."""
    functions: set[str] = set()
    for name in _names(module):
        for use in module.index.names(name):
            attribute = module.parent(use)
            call = module.parent(attribute) if isinstance(attribute, ast.Attribute) else None
            if not isinstance(call, ast.Call) or call.func is not attribute:
                continue
            yield call.func
            functions |= {
                above.name
                for above in module.ancestors(use)
                if isinstance(above, ast.ClassDef) and _is_function(above)
            }
    for attribute in module.index.attributes("apply") if functions else ():
        if isinstance(attribute.value, ast.Name) and attribute.value.id in functions:
            yield attribute
            yield from _under_another_name(module, attribute)


def _under_another_name(module: Module, attribute: ast.Attribute) -> Iterator[ast.expr]:
    """The uses of ``focal_loss_cuda`` where the file says ``focal_loss_cuda = FocalLoss.apply``."""
    assign = module.parent(attribute)
    for target in assign.targets if isinstance(assign, ast.Assign) else ():
        for use in module.index.names(target.id) if isinstance(target, ast.Name) else ():
            if isinstance(use.ctx, ast.Load):
                yield use


def _names(module: Module) -> Iterator[str]:
    built = {each.rpartition(".")[2] for each in module.project.names(EXTENSIONS.name)}
    for statement in module.imports:
        front = getattr(statement, "module", None) or ""
        if isinstance(statement, ast.ImportFrom) and front.split(".")[0] in _OTHERS:
            continue
        for alias in statement.names:
            package, _, last = alias.name.rpartition(".")
            ours = _EXTENSION.fullmatch(last) or last in built
            if package.split(".")[0] not in _OTHERS and ours:
                yield alias.asname or alias.name.split(".")[0]
    for word, name in _LOADERS.items():
        for call in module.index.calls(word):
            assign = module.parent(call)
            if isinstance(assign, ast.Assign) and module.qualified(call.func) == name:
                yield from (t.id for t in assign.targets if isinstance(t, ast.Name))


def _is_function(node: ast.ClassDef) -> bool:
    """Does a class derive from torch's autograd Function?"""
    return any(getattr(b, "attr", getattr(b, "id", "")) == "Function" for b in node.bases)
