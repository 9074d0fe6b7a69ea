"""Structural changes to one statement with libcst, given back as a text edit.

Most rewrites are a swap of text; where a statement has to be rebuilt (arguments reordered, an item of a
``with`` taken out), libcst knows the commas, parentheses and comments. Only the statement is parsed, about a
millisecond, never the file::

    def change(node: cst.SimpleStatementLine) -> cst.SimpleStatementLine: ...
    edit = rewrite(module, statement, change)

The statement is parsed at its own indentation, inside ``if 1:``, so nothing is dedented and put back:
comments, continuation lines and strings over several lines come out as they went in. Of a statement with a
body only the header is parsed, with ``pass`` for its body, so that the body's text is not touched.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpushim.engine.syntax import Module
from hpushim.model import Edit, Span

if TYPE_CHECKING:
    import libcst as cst

Change = Callable[[Any], Any]


class NotRewritable(Exception):
    """libcst does not give the statement's text back unchanged, so it is left alone."""


def rewrite(module: Module, statement: ast.stmt, change: Change) -> Edit | None:
    """The edit that ``change`` makes to ``statement``; None when it makes none.

    ``change`` gets the libcst statement (``SimpleStatementLine``; ``With``, ``If``, ``FunctionDef`` … with ``pass``
    for a body) and returns its replacement. Raises :class:`NotRewritable`.
    """
    span = header(module, statement)
    compound = isinstance(getattr(statement, "body", None), list)
    return _edit(module, span, " pass" if compound else "", change)


def rewrite_expression(module: Module, node: ast.expr, change: Change) -> Edit | None:
    """The edit that ``change`` makes to an expression; it gets and returns a libcst expression."""
    import libcst as cst

    span = module.span(node)
    source = module.source(span)
    # Inside parentheses an expression may go over several lines.
    text = f"({source}\n)"
    try:
        tree = cst.parse_expression(text, config=_config(module))
    except cst.ParserSyntaxError as error:
        raise NotRewritable(str(error)) from None
    empty = cst.Module([])
    if empty.code_for_node(tree) != text:
        raise NotRewritable("libcst does not give this expression back as it is written")
    outer = tree.lpar, tree.rpar
    bare = tree.with_changes(lpar=outer[0][1:], rpar=outer[1][:-1])
    changed = change(bare)
    if changed.deep_equals(bare):
        return None
    return Edit(span, source, empty.code_for_node(changed))


def header(module: Module, statement: ast.stmt) -> Span:
    """The statement without its body: to the colon of ``with …:``, the whole of a simple statement."""
    span = module.span(statement)
    body = getattr(statement, "body", None)
    if not isinstance(body, list):
        return span
    first = min(
        (module.span(d).start for d in getattr(body[0], "decorator_list", ())),
        default=module.span(body[0]).start,
    )
    colon = _colon(module, span.start, first)
    return Span(span.start, colon + 1)


def _colon(module: Module, start: int, end: int) -> int:
    """The last colon before the body that is no part of a comment."""
    import io
    import tokenize

    from hpushim.engine.text import LINE_END

    text = LINE_END.sub(b"\n", module.data[start:end])
    starts = [m.end() for m in LINE_END.finditer(module.data[start:end])]
    found = -1
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.decode()).readline):
            if token.type == tokenize.OP and token.string == ":":
                row, column = token.start
                line = start + (starts[row - 2] if row > 1 else 0)
                found = line + len(token.line[:column].encode())
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass  # the text ends where a body is expected
    if found < 0:
        raise NotRewritable("its header has no end")
    return found


def _edit(module: Module, span: Span, tail: str, change: Change) -> Edit | None:
    import libcst as cst

    source = module.source(span)
    indent = module.text_at(
        Span(module.line_span(module.position(span.start)[0]).start, span.start)
    )
    indent = indent if indent and not indent.strip(" \t") else "    "
    lead = f"if 1:{module.newline}{indent}"
    text = f"{lead}{source}{tail}{module.newline}"
    try:
        tree = cst.parse_module(text, config=_config(module))
    except cst.ParserSyntaxError as error:
        raise NotRewritable(str(error)) from None
    if tree.code != text:
        raise NotRewritable("libcst does not give this statement back as it is written")
    frame: Any = tree.body[0]
    before = frame.body.body[0]
    after = change(before)
    if after is before or after.deep_equals(before):
        return None
    code = tree.with_changes(
        body=[frame.with_changes(body=frame.body.with_changes(body=[after]))]
    ).code
    end = f"{tail}{module.newline}"
    if not code.startswith(lead) or not code.endswith(end):
        raise NotRewritable("the change reaches beyond the statement")
    return Edit(span, source, code[len(lead) : len(code) - len(end)])


def _config(module: Module) -> cst.PartialParserConfig:
    import libcst as cst

    return cst.PartialParserConfig(encoding="utf-8", default_newline=module.newline)
