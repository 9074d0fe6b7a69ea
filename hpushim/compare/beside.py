"""Does the code beside a comparison know ``hpu`` already: another branch, another member, another case?"""

from __future__ import annotations

import ast

from hpushim.compare import texts
from hpushim.compare.scopes import Scopes


def handles_hpu(scopes: Scopes, node: ast.expr | ast.Match) -> bool:
    """Whether the comparison, or the chain of conditions that it is a part of, names ``hpu``."""
    if isinstance(node, ast.Match):
        return any(_mentions(part.pattern) for part in node.cases)
    if _mentions(node):
        return True
    child: ast.AST = node
    for above in scopes.ancestors(node):
        if isinstance(above, ast.BoolOp):
            if any(_mentions(one) for one in above.values if one is not child):
                return True
        elif isinstance(above, ast.If | ast.IfExp):
            if child is above.test and (
                _chain_mentions(scopes, above) or _sibling_mentions(scopes, above)
            ):
                return True
            if isinstance(above, ast.If):
                return False
        elif isinstance(above, ast.stmt):
            return False
        child = above
    return False


def _chain_mentions(scopes: Scopes, found: ast.If | ast.IfExp) -> bool:
    """Whether one of the conditions of ``if … elif … else`` names ``hpu``, before or after this one."""
    top: ast.If | ast.IfExp = found
    while True:
        outer = scopes.parents.get(top)
        if (isinstance(top, ast.If) and isinstance(outer, ast.If) and outer.orelse == [top]) or (
            isinstance(top, ast.IfExp) and isinstance(outer, ast.IfExp) and top is outer.orelse
        ):
            top = outer
        else:
            break
    link: ast.AST | None = top
    while isinstance(link, ast.If | ast.IfExp):
        if _mentions(link.test):
            return True
        if isinstance(link, ast.IfExp):
            if texts.is_hpu(link.orelse) or texts.is_hpu(link.body):
                return True
            link = link.orelse
        else:
            link = link.orelse[0] if len(link.orelse) == 1 else None
    return False


def _sibling_mentions(scopes: Scopes, found: ast.AST) -> bool:
    """Whether another ``if`` of the same block names ``hpu``: branches that return instead of ``elif``."""
    block = scopes.parents.get(found)
    body = getattr(block, "body", None)
    return isinstance(body, list) and any(
        isinstance(one, ast.If) and one is not found and _mentions(one.test) for one in body
    )


def _mentions(node: ast.AST) -> bool:
    return any(
        texts.is_hpu(part)
        or (isinstance(part, ast.Name) and "hpu" in part.id.lower())
        or (isinstance(part, ast.Attribute) and "hpu" in part.attr.lower())
        for part in ast.walk(node)
    )
