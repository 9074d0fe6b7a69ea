"""Arguments of calls: found by name or position, taken out without tearing the list."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.model import Edit, Span

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value given for a parameter; None when it is not given, or hidden by ``*args``."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or position >= len(call.args):
        return None
    hidden = any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1])
    return None if hidden else call.args[position]


def drop(module: Module, call: ast.Call, *names: str, positional: int | None = None) -> list[Edit]:
    """The edits that take keywords out of ``call``, and every positional argument from ``positional`` on."""
    parts: list[ast.expr | ast.keyword] = sorted(
        [*call.args, *call.keywords], key=lambda part: module.span(part).start
    )
    gone = [
        part
        for part in parts
        if (isinstance(part, ast.keyword) and part.arg in names)
        or (positional is not None and part in call.args[positional:])
    ]
    edits: list[Edit] = []
    for place, part in enumerate(parts):
        if part in gone:
            edits.append(module.replace(_with_separator(module, call, parts, place, gone), ""))
    return edits


def _with_separator(
    module: Module,
    call: ast.Call,
    parts: list[ast.expr | ast.keyword],
    place: int,
    gone: list[ast.expr | ast.keyword],
) -> Span:
    """An argument and the comma that goes with it: the one in front, or behind the first argument."""
    start, end = _outer(module, call, parts[place])
    kept_before = any(part not in gone for part in parts[:place])
    if kept_before:
        return Span(_comma_before(module, start), end)
    following = parts[place + 1] if place + 1 < len(parts) else None
    if following is not None:
        return Span(start, _outer(module, call, following)[0])
    closing = module.span(call).end - 1
    return Span(start, closing if not module.data[end:closing].strip(b", \t\r\n") else end)


def _outer(module: Module, call: ast.Call, part: ast.expr | ast.keyword) -> tuple[int, int]:
    """Where an argument starts and ends with the parentheses written around it."""
    span = module.span(part)
    start, end = span.start, span.end
    opening = module.span(call.func).end
    while True:
        before = module.data[opening:start].rstrip()
        after = module.data[end : module.span(call).end].lstrip()
        if not before.endswith(b"(") or not before[:-1].strip() or not after.startswith(b")"):
            return start, end
        start = opening + len(before) - 1
        end = module.span(call).end - len(after) + 1


def _comma_before(module: Module, at: int) -> int:
    """The comma that separates the argument at ``at`` from the one before; a comment may stand between."""
    line = module.data.rfind(b"\n", 0, at) + 1
    if module.data[line:at].strip():  # on a line with what stands before it
        return module.data.rindex(b",", 0, at)
    plain = module.data[:at].rstrip()
    return len(plain) - 1 if plain.endswith(b",") else at
