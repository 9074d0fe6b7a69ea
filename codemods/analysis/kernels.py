"""Tests for CUDA that choose kernels made for NVIDIA hardware: they stay, and take the other branch on Gaudi."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpushim.pycode.walk import walk

from .device_texts import read

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: The execution providers of ONNX Runtime that are NVIDIA's.
PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
#: Names of compiled extensions: ``selective_scan_cuda``, ``cuda_corr``.
_EXTENSION = re.compile(r"^_?cuda_\w+$|^\w+_cuda(_kernels?|_ext|_lib)?$")


def chooses_kernels(
    module: Module, compare: ast.Compare, is_device: Callable[[ast.AST], bool]
) -> bool:
    """Does the comparison of a device stand beside one of a setting with the same word, or guard such kernels alone?

    ``if impl == "cuda" and x.device.type == "cuda": return _kernel(x)``: Gaudi takes the reference code below.
    """
    above = module.parent(compare)
    if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
        return any(_of_a_setting(module, value, is_device) for value in above.values)
    if isinstance(above, ast.If) and above.test is compare and not above.orelse:
        used = [s for s in above.body if not isinstance(s, (ast.Import, ast.ImportFrom))]
        return bool(used) and all(nvidia_only(module, statement) for statement in above.body)
    return False


def _of_a_setting(module: Module, value: ast.expr, is_device: Callable[[ast.AST], bool]) -> bool:
    """``impl == "cuda"``, of a name that holds no device."""
    if not isinstance(value, ast.Compare) or len(value.comparators) != 1:
        return False
    left, right = value.left, value.comparators[0]
    word, other = (left, right) if read(left) is not None else (right, left)
    return (
        read(word) is not None
        and isinstance(value.ops[0], ast.Eq)
        and isinstance(other, (ast.Name, ast.Attribute))
        and not is_device(other)
    )


def nvidia_only(module: Module, statement: ast.stmt) -> bool:
    """Does a statement import or use a package, or a compiled extension, that only NVIDIA hardware runs?"""
    if isinstance(statement, ast.Import):
        return all(_is_nvidia(module, alias.name) for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and _is_nvidia(module, statement.module or "")
    for part in walk(statement):
        name = module.qualified(part) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if name and _is_nvidia(module, name):
            return True
    return False


def _is_nvidia(module: Module, name: str) -> bool:
    package = name.split(".", maxsplit=1)[0]
    if package in module.matrix.policy.nvidia_only:
        return True
    return bool(_EXTENSION.match(package)) and package not in module.project.modules
