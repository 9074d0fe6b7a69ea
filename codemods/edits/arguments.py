"""Arguments of calls: found by name or position, added, renamed, taken out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hpushim.engine.python.changes import Remove, Replace
from hpushim.engine.python.slots import order

if TYPE_CHECKING:
    import libcst as cst  # loaded where something is written, which `check` never does


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value given for a parameter; None when it is not given, or hidden by ``*args``."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or position >= len(call.args):
        return None
    hidden = any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1])
    return None if hidden else call.args[position]


def drop(call: ast.Call, *names: str, positional: int | None = None) -> tuple[Remove, ...]:
    """Takes keywords out of ``call``, and every positional argument from ``positional`` on."""
    gone: list[ast.AST] = [keyword for keyword in call.keywords if keyword.arg in names]
    if positional is not None:
        gone += call.args[positional:]
    return tuple(map(Remove, gone))


def add(
    call: ast.Call, text: str, *, first: bool = False, behind: ast.expr | None = None
) -> Replace:
    """Gives ``call`` further arguments, written as in a call: at its end, before all others or behind the value of one."""
    given = [part.value if isinstance(part, ast.keyword) else part for part in order(call)]
    place = given.index(behind) if behind is not None else -1

    def added(node: cst.Call) -> cst.Call:
        return with_arguments(node, text, first=first, behind=place)

    return Replace(call, added, text)


def with_arguments(node: cst.Call, text: str, *, first: bool = False, behind: int = -1) -> cst.Call:
    """A libcst call with further arguments: before all others, or behind the one at a place."""
    import libcst as cst

    new = arguments(text)
    old = list(node.args)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if not old:
        return node.with_changes(args=new)
    if first:
        new[-1] = new[-1].with_changes(comma=comma)
        return node.with_changes(args=[*new, *old])
    place = behind % len(old)
    before = old[place]
    old[place] = before.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    new[-1] = new[-1].with_changes(
        comma=before.comma, whitespace_after_arg=before.whitespace_after_arg
    )
    return node.with_changes(args=[*old[: place + 1], *new, *old[place + 1 :]])


def arguments(text: str) -> list[cst.Arg]:
    """The libcst arguments of ``f(text)``."""
    import libcst as cst

    call = cst.parse_expression(f"f({text})")
    assert isinstance(call, cst.Call)
    return list(call.args)


def only(call: ast.Call, text: str) -> Replace:
    """Gives ``call`` these arguments in place of all that it has."""

    def changed(node: cst.Call) -> cst.Call:
        import libcst as cst

        return node.with_changes(
            args=arguments(text), whitespace_before_args=cst.SimpleWhitespace("")
        )

    return Replace(call, changed, text)


def by_place(keyword: ast.keyword) -> Replace:
    """``name=value`` of a call as ``value``."""
    import libcst as cst

    return Replace(
        keyword, lambda there: there.with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
    )


def rename(keyword: ast.keyword, name: str) -> Replace:
    """Gives an argument by keyword another name."""

    def renamed(node: cst.Arg) -> cst.Arg:
        import libcst as cst

        return node.with_changes(keyword=cst.Name(name))

    return Replace(keyword, renamed)


def by_keyword(node: cst.Arg, name: str) -> cst.Arg:
    """A positional libcst argument as one by keyword."""
    import libcst as cst

    return node.with_changes(
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )


# -- what is called -------------------------------------------------------------------------


def called(node: ast.expr, text: str) -> Replace:
    """``x`` becomes ``x(text)``, or ``x.name(text)`` for a text with a dot in front."""

    def made(there: Any) -> Any:
        return call_of(there, text)

    return Replace(node, made, text)


def call_of(node: Any, text: str) -> Any:
    """A libcst expression with ``.name(…)`` or ``(…)`` behind it, in parentheses where it needs them."""
    import libcst as cst

    from hpushim.engine.python.precedence import ATOM, level

    inner = node
    if level(node) < ATOM:
        inner = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    made: Any = cst.parse_expression(f"x{text}")
    return _with_root(made, inner)


def unwrapped(node: Any, inner: Any) -> Any:
    """A part of a libcst expression in its place, inside the parentheses that are around it."""
    return inner.with_changes(lpar=[*node.lpar, *inner.lpar], rpar=[*inner.rpar, *node.rpar])


def _with_root(node: Any, root: Any) -> Any:
    """An expression whose first name is another expression."""
    import libcst as cst

    if isinstance(node, cst.Call):
        return node.with_changes(func=_with_root(node.func, root))
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        return node.with_changes(value=_with_root(node.value, root))
    return root


def renamed_method(node: cst.Call, name: str) -> cst.Call:
    """A libcst call of ``x.name`` instead of ``x.other``."""
    import libcst as cst

    func = node.func
    assert isinstance(func, cst.Attribute)
    return node.with_changes(func=func.with_changes(attr=cst.Name(name)))


def attribute(node: ast.Attribute, name: str) -> Replace:
    """``x.other`` becomes ``x.name``."""

    def made(there: cst.Attribute) -> cst.Attribute:
        import libcst as cst

        return there.with_changes(attr=cst.Name(name))

    return Replace(node, made)
