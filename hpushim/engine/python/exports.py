"""Names that are used where the syntax tree of a file shows no name: in other files, in annotations written as strings."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Functions of ``typing`` that take a type as text.
_TAKES_TYPES = frozenset({"cast", "TypeVar", "NewType", "ForwardRef"})
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef)


def exported(module: Module, name: str) -> bool:
    """May other files import the name from this one?

    An ``__init__.py`` is there to be imported from; of other files it is known which names the project imports.
    """
    path = PurePath(module.path.replace("\\", "/"))
    if path.name == "__init__.py":
        return True
    if (path.stem, name) in module.project.imported:
        return True
    listed = module.global_scope.bindings.get("__all__", ())
    return any(
        isinstance(part, ast.Constant) and part.value == name
        for binding in listed
        if binding.value is not None
        for part in walk(binding.value)
    )


def in_annotations(module: Module, name: str) -> bool:
    """Is the name used in an annotation that is written as a string, or as a comment?"""
    whole = re.compile(rf"\b{re.escape(name)}\b")
    comment = rf"#[ \t]*type:(?![ \t]*ignore)[^\r\n]*\b{re.escape(name)}\b"
    if b"type:" in module.data and re.search(comment, module.text):
        return True
    return any(
        whole.search(str(text.value)) and _is_type(module, text)
        for text in module.index.strings(name)
    )


def _is_type(module: Module, text: ast.Constant) -> bool:
    """Is the string where a type is written?"""
    child: ast.AST = text
    for above in module.ancestors(text):
        if isinstance(above, (ast.arg, ast.AnnAssign)):
            return above.annotation is child
        if isinstance(above, _DEFINES):
            return above.returns is child
        if isinstance(above, ast.Call):
            func = above.func
            called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            return called in _TAKES_TYPES
        if isinstance(above, ast.stmt):
            # `Loader = Iterator["Batch"]`
            return isinstance(above, ast.Assign) and isinstance(child, ast.Subscript)
        child = above
    return False
