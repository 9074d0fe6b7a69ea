"""String literals rewritten in the quotes and with the prefix that they were written with."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hpushim.model import Edit, Span

from ._dual import dual, word

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_LITERAL = re.compile(
    r"""(?P<prefix>[A-Za-z]*)(?P<mark>\"{3}|'{3}|"|')(?P<inner>.*)(?P=mark)""", re.S
)


def retext(module: Module, node: ast.expr, new: str) -> Edit:
    """The edit that gives a string constant the value ``new``, which must need no escapes."""
    tokens = module.string_tokens(node)
    if dual(module) and word(new, '"') is not None:
        if isinstance(module.parent(node), ast.MatchValue):
            both = module.source(node)  # a pattern cannot name a constant
            return module.replace(node, f"{both.replace('cuda', 'hpu')} | {both}")
        return module.replace(node, quoted(module, new, node))
    if len(tokens) != 1:
        return module.replace(node, quoted(module, new))
    found = _LITERAL.fullmatch(module.source(tokens[0]))
    assert found is not None, "a string token is a prefix, quotes and what they hold"
    begin = tokens[0].start + len(found["prefix"]) + len(found["mark"])
    return module.replace(Span(begin, begin + len(found["inner"].encode())), new)


def quoted(module: Module, text: str, at: ast.AST | None = None) -> str:
    """``text`` as a string literal in the quotes that the file prefers.

    Inside an f-string (``at`` says where) in other quotes than its own, which Python needs before 3.12.
    """
    mark = "'" if module.data.count(b"'") > module.data.count(b'"') else '"'
    for above in module.ancestors(at) if at is not None else ():
        if isinstance(above, ast.JoinedStr):
            place = module.span(at).start  # type: ignore[arg-type]
            around = [t for t in module.string_tokens(above) if t.start <= place < t.end]
            if around:
                token = module.source(around[0]).lstrip("fFrRbBuU")
                mark = '"' if token.startswith("'") else "'"
    return (word(text, mark) if dual(module) else None) or f"{mark}{text}{mark}"
