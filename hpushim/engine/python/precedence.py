"""Where an expression needs parentheses."""

from __future__ import annotations

import ast
from typing import Any

#: How tightly each kind of expression binds; what is missing is an atom.
_LEVELS = {
    "NamedExpr": 0, "Yield": 0, "Tuple": 0, "Lambda": 1, "IfExp": 1, "Not": 4, "Comparison": 5,
    "UnaryOperation": 12, "Await": 14, "Or": 2, "And": 3, "BitOr": 6, "BitXor": 7, "BitAnd": 8, "LeftShift": 9,
    "RightShift": 9, "Add": 10, "Subtract": 10, "Multiply": 11, "MatrixMultiply": 11, "Divide": 11, "Modulo": 11,
    "FloorDivide": 11, "Power": 13, "ConcatenatedString": 15,
}  # fmt: skip
ATOM = 16
_OPERATORS = {
    "Or": 2, "And": 3, "BitOr": 6, "BitXor": 7, "BitAnd": 8, "LShift": 9, "RShift": 9, "Add": 10, "Sub": 10, "Mult": 11,
    "MatMult": 11, "Div": 11, "Mod": 11, "FloorDiv": 11, "Pow": 13,
}  # fmt: skip


def level(node: Any) -> int:
    """How tightly a libcst expression binds, 0 to 16; one in parentheses is an atom."""
    name = node.__class__.__name__
    if getattr(node, "lpar", ()):
        return ATOM
    if name in ("BinaryOperation", "BooleanOperation"):
        return _LEVELS[node.operator.__class__.__name__]
    if name == "UnaryOperation" and node.operator.__class__.__name__ == "Not":
        return _LEVELS["Not"]
    return _LEVELS.get(name, ATOM)


def required(parent: ast.AST | None, child: ast.AST) -> int:
    """How tightly an expression must bind to be in the place of ``child`` without parentheses."""
    match parent:
        case ast.Attribute() | ast.Await():
            return ATOM
        case ast.Call() | ast.Subscript():
            func = parent.func if isinstance(parent, ast.Call) else parent.value
            return ATOM if func is child else 0
        case ast.BinOp():
            own = _OPERATORS[parent.op.__class__.__name__]
            if isinstance(parent.op, ast.Pow):
                return 14 if parent.left is child else 12
            return own if parent.left is child else own + 1
        case ast.BoolOp():
            return _OPERATORS[parent.op.__class__.__name__] + 1
        case ast.UnaryOp():
            return 4 if isinstance(parent.op, ast.Not) else 12
        case ast.Compare() | ast.Starred():
            return 6
        case ast.IfExp():
            return 1 if parent.orelse is child else 2
        case ast.comprehension():
            return 0 if parent.target is child else 2
        case (
            ast.keyword()
            | ast.Lambda()
            | ast.Dict()
            | ast.withitem()
            | ast.arguments()
            | ast.FormattedValue()
        ):
            return 1
        case ast.List() | ast.Tuple() | ast.Set():
            return 1
    return 0


def bracketed(parent: ast.AST | None, child: ast.AST) -> bool:
    """Is ``child`` inside brackets that ``parent`` writes, so that it may go over several lines?"""
    match parent:
        case ast.Call():
            return parent.func is not child
        case ast.Subscript():
            return parent.slice is child
        case ast.List() | ast.Set() | ast.Dict() | ast.ListComp() | ast.SetComp() | ast.DictComp():
            return True
        case ast.GeneratorExp() | ast.FormattedValue() | ast.arguments():
            return True
    return False
