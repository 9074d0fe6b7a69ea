"""How an expression is written, and what that says of what it may hold."""

from __future__ import annotations

import ast

from hpushim.compare import texts
from hpushim.compare.subjects import OPERATIONS


def elements(node: ast.expr) -> list[ast.expr]:
    """The texts of ``startswith(("cuda", "mps"))``: those of a tuple, or the one itself."""
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def is_word(node: ast.expr) -> bool:
    """Whether a value of this name may be a device's text, though nothing shows it: a name, in lower case or not."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("lower", "strip") and is_word(node.func.value)
    if isinstance(node, ast.Subscript):
        return bool(texts.constant(node.slice)) and is_word(node.value)
    return isinstance(node, ast.Name | ast.Attribute) or is_shown(node)


def is_shown(node: ast.AST) -> bool:
    """Whether a value is what ``str`` or ``repr`` shows of something: of a tensor whose text names its device, for example."""
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("str", "repr")
        and len(node.args) == 1
    )


def may_be_table(node: ast.expr) -> bool:
    """Whether a name or attribute may hold a table; a text that is cut, or the result of a call, is none."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") not in OPERATIONS
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
