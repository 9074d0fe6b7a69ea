"""Taking statements out and putting lines in, without leaving a block empty or a line torn."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hpushim.model import Edit, Span

from ._comments import first_line

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: Calls that only look.
_QUESTIONS = ("is_available", "device_count", "is_initialized", "isinstance", "hasattr", "str", "len", "startswith")  # fmt: skip
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def unwrap(module: Module, outer: ast.expr, inner: ast.expr, tail: str = "") -> list[Edit]:
    """The edits that leave of ``outer`` only its part ``inner``, followed by ``tail``.

    What stands inside ``inner`` is not touched, so that other fixes may change it.
    """
    whole, part = module.span(outer), module.span(inner)
    bare = isinstance(inner, _ATOMS) or not _binds(module, outer, tail)
    return [
        module.replace(Span(whole.start, part.start), "" if bare else "("),
        module.replace(Span(part.end, whole.end), tail if bare else f"){tail}"),
    ]


def _binds(module: Module, outer: ast.expr, tail: str) -> bool:
    """Whether an expression in the place of ``outer`` needs parentheses unless it is an atom."""
    parent = module.parent(outer)
    plain = isinstance(parent, (ast.Assign, ast.Return, ast.Expr, ast.keyword))
    return bool(tail) or not plain


def delete(module: Module, statements: Iterable[ast.stmt]) -> list[Edit]:
    """The edits that take ``statements`` out; a block that would be left empty gets ``pass``.

    Rules of one file share what went before: the last statement of a block to go leaves ``pass``.
    """
    gone = list(statements)
    before: list[ast.stmt] = module.notes.setdefault("deleted statements", [])
    before += gone
    edits: list[Edit] = []
    for statement in gone:
        block = module.block(statement)
        last = statement is next(s for s in reversed(before) if any(s is other for other in block))
        if (
            last
            and all(any(s is g for g in before) for s in block)
            and _needs_body(module, statement)
        ):
            edits.append(module.replace(statement, "pass"))
        else:
            edits.append(module.replace(_reach(module, statement, block, gone), ""))
    return edits


def delete_guarded(module: Module, statement: ast.stmt) -> list[Edit]:
    """The edits that take ``statement`` out, with the ``if`` that is there for nothing else."""
    outer = statement
    while (guard := _guard_of(module, outer)) is not None:
        outer = guard
    if outer is statement:
        return delete(module, [statement])
    if module.source(outer).startswith("elif") and alone(module, outer):
        end = outer.end_lineno or outer.lineno
        lines = Span(module.line_span(outer.lineno).start, module.line_span(end).end)
        return [module.replace(lines, "")]
    return delete(module, [outer])


def _guard_of(module: Module, statement: ast.stmt) -> ast.If | None:
    """The ``if`` without ``else`` whose body is left empty, when its test computes nothing."""
    parent = module.parent(statement)
    if not isinstance(parent, ast.If) or parent.orelse:
        return None
    before = module.notes.get("deleted statements", [])
    if not all(s is statement or any(s is other for other in before) for s in parent.body):
        return None
    for part in ast.walk(parent.test):
        if isinstance(part, ast.Call):
            called = getattr(part.func, "attr", getattr(part.func, "id", ""))
            if called not in _QUESTIONS:
                return None
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return None
    return parent


def _needs_body(module: Module, statement: ast.stmt) -> bool:
    return not isinstance(module.parent(statement), ast.Module)


def alone(module: Module, statement: ast.stmt) -> bool:
    """Whether nothing but white space and a comment shares the lines of ``statement``."""
    before, after = _beside(module, statement)
    return not before.strip() and (
        not after.strip(" \t\f;") or after.lstrip(" \t\f;")[0] in "#\r\n"
    )


def _beside(module: Module, statement: ast.stmt) -> tuple[str, str]:
    span = module.span(statement)
    end = statement.end_lineno or statement.lineno
    before = module.source(Span(module.line_span(statement.lineno).start, span.start))
    return before, module.source(Span(span.end, module.line_span(end).end))


def _reach(
    module: Module, statement: ast.stmt, block: list[ast.stmt], gone: list[ast.stmt]
) -> Span:
    """What goes with a statement: its lines when it has them to itself, else its separator."""
    span = module.span(statement)
    if alone(module, statement):
        end = statement.end_lineno or statement.lineno
        end += _doubled(module, statement, end)
        start = first_line(module, statement, end)
        return Span(module.line_span(start).start, module.line_span(end).end)
    place = next(i for i, other in enumerate(block) if other is statement)
    following = block[place + 1] if place + 1 < len(block) else None
    if following is not None and following.lineno == statement.end_lineno:
        return Span(span.start, module.span(following).start)
    # Last on its line: the separator before it goes, with those of its neighbours that go as well.
    while place and any(block[place - 1] is g for g in gone):
        place -= 1
    return Span(module.span(block[place - 1]).end, span.end) if place else span


def _doubled(module: Module, statement: ast.stmt, end: int) -> int:
    """How many of the blank lines behind ``statement`` there would be twice once it is gone."""
    gone = {
        line
        for other in module.notes.get("deleted statements", [])
        for line in range(other.lineno, (other.end_lineno or other.lineno) + 1)
    }
    start = statement.lineno - 1
    while start in gone:
        start -= 1
    above = below = 0
    while _blank(module, start - above):
        above += 1
    opens = not above and _opens_block(module, statement, start)
    while (below < above or opens) and _blank(module, end + below + 1):
        below += 1
    return below


def _opens_block(module: Module, statement: ast.stmt, line: int) -> bool:
    """Would a blank line behind ``statement`` come right under the ``def``, ``for`` or ``if`` around it?

    ``line`` is the last line above that stays.
    """
    parent = module.parent(statement)
    start = first_line(module, statement, statement.end_lineno or statement.lineno)
    above = line - (statement.lineno - start)
    text = module.source(module.line_span(above)) if above > 0 else ""
    return not isinstance(parent, ast.Module) and text.split("#")[0].rstrip().endswith(":")


def _blank(module: Module, line: int) -> bool:
    if not 0 < line <= len(module.line_starts):
        return False
    span = module.line_span(line)
    return span.start < span.end and not module.source(span).strip()


def after(module: Module, statement: ast.stmt, line: str) -> Edit:
    """The edit that puts ``line`` behind ``statement``: on a line of its own where that is possible."""
    if not alone(module, statement):
        return module.insert(module.span(statement).end, f"; {line}")
    end = module.line_span(statement.end_lineno or statement.lineno)
    text = module.source(end)
    at = end.start + len(text.rstrip("\r\n").encode())
    return module.insert(at, f"{module.newline}{module.indent(statement)}{line}")
