"""Statements rebuilt with libcst: the rest of the file, comments and layout stay."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst
import pytest

from hpushim.engine.apply import splice
from hpushim.engine.statement import NotRewritable, rewrite, rewrite_expression
from hpushim.engine.syntax import Module
from hpushim.model import Target


class Drop(cst.CSTTransformer):
    """Takes the argument ``gone=`` away."""

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> Any:
        mine = updated_node.keyword is not None and updated_node.keyword.value == "gone"
        return cst.RemoveFromParent() if mine else updated_node


class Rename(cst.CSTTransformer):
    """``old`` becomes ``new``."""

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return (
            updated_node.with_changes(value="new") if updated_node.value == "old" else updated_node
        )


def made(text: str, kind: type[ast.AST], change: Callable[..., Any], *, whole: bool = True) -> str:
    module = Module(text, "a.py", Target(), None)  # type: ignore[arg-type]
    node: Any = next(n for n in module.nodes if isinstance(n, kind))
    edit = (rewrite if whole else rewrite_expression)(module, node, change)
    return splice(module.data, [edit] if edit else []).decode()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "kind", "after"),
    [
        (
            "def f():\n\tx = g(\n\t  a, # c\n\t  gone=[1], # d\n\t  z=1,\n\t)  # tail\n\ty\n",
            ast.Assign,
            "def f():\n\tx = g(\n\t  a, # c\n\t  z=1,\n\t)  # tail\n\ty\n",
        ),
        ("a; old(b, gone=1); c", ast.Expr, "a; old(b, ); c"),
        (
            "if x:\n        '''é\n  old'''; y = g(gone=1)",
            ast.Assign,
            "if x:\n        '''é\n  old'''; y = g()",
        ),
    ],
)
def test_simple_statements(before: str, kind: type[ast.AST], after: str, newline: str) -> None:
    change: Any = lambda node: node.visit(Drop())  # noqa: E731
    text = before.replace("\n", newline)
    if kind is ast.Expr:
        module = Module(text, "a.py", Target(), None)  # type: ignore[arg-type]
        call: Any = next(
            n for n in module.nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
        )
        edit = rewrite(module, call, change)
        assert edit is not None
        assert splice(module.data, [edit]).decode().replace(", )", ")") == after.replace(", )", ")")
        return
    assert made(text, kind, change) == after.replace("\n", newline)


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ("class A:\n  if x:\n    with old.a(b=[1:2]) as b, c: # old: note\n      old\n", ast.With),
        ("if old(\n  1,\n): x\nelse: old", ast.If),
        ('for i in old: # : {\n  """old"""\n', ast.For),
        ("while x[old:1]: old", ast.While),
        (
            "@dec(old)\nasync def old(a: int = {1: 2}) -> x[1:2]:\n\n  # old:\n  @old\n  def f(): pass\n",
            ast.AsyncFunctionDef,
        ),
    ],
)
def test_of_a_statement_with_a_body_only_the_header_changes(
    before: str, kind: type[ast.AST]
) -> None:
    text = before.replace("[1:2])", "[1])")
    after = made(text, kind, lambda node: node.visit(Rename()))
    first = text.index("old", text.index("def")) if "def old" in text else text.index("old")
    assert after == text[:first] + "new" + text[first + 3 :]


def test_expressions() -> None:
    text = "x = (a\n  .b(\n1, gone=é)\n)"
    after = made(text, ast.Call, lambda node: node.visit(Drop()), whole=False)
    assert after == "x = (a\n  .b(\n1, )\n)"


def test_no_change_is_no_edit() -> None:
    assert made("x = 1\n", ast.Assign, lambda node: node) == "x = 1\n"
    assert (
        made("x = 1\n", ast.Constant, lambda node: node.visit(Rename()), whole=False) == "x = 1\n"
    )


def test_what_libcst_does_not_give_back_is_left() -> None:
    with pytest.raises(NotRewritable):
        made("if x:\r    y = (old,\r 1)\r", ast.Assign, lambda node: node.visit(Rename()))
