"""Does the code beside a comparison know ``hpu`` already: another branch, another member, another case?"""

from __future__ import annotations

import ast

from hpushim.compare import texts
from hpushim.pycode.source import Source


class Beside:
    """The parts of a file that name ``hpu``: looked for once, and requested by node."""

    def __init__(self, source: Source) -> None:
        #: Every node in which ``hpu`` is a text or part of a name, and those with the text alone.
        self.names: set[ast.AST] = set()
        self.texts: set[ast.AST] = set()
        self._branches: dict[int, list[ast.If]] = {}
        index = source.index
        for text in filter(texts.is_hpu, index.strings(texts.HPU)):
            _mark(source, text, self.texts)
            _mark(source, text, self.names)
        for word in index.spellings(texts.HPU):
            for name in (*index.names(word), *index.attributes(word)):
                _mark(source, name, self.names)

    def branches(self, block: list[ast.stmt]) -> list[ast.If]:
        """The ``if`` statements of a block whose conditions name ``hpu``."""
        known = self._branches.get(id(block))
        if known is None:
            known = [one for one in block if isinstance(one, ast.If) and one.test in self.names]
            self._branches[id(block)] = known
        return known


def _mark(source: Source, node: ast.AST, marked: set[ast.AST]) -> None:
    """Marks a node and those around it."""
    marked.add(node)
    for above in source.ancestors(node):
        if above in marked:
            return
        marked.add(above)


def handles_hpu(source: Source, node: ast.expr | ast.Match) -> bool:
    """Whether the comparison, or the chain of conditions that it is a part of, names ``hpu``."""
    beside = source.view(Beside)
    mentions = beside.names
    if not mentions:
        return False
    if isinstance(node, ast.Match):
        return any(part.pattern in mentions for part in node.cases)
    if node in mentions:
        return True
    for child, above in source.upwards(node):
        if isinstance(above, ast.BoolOp):
            if any(one in mentions for one in above.values if one is not child):
                return True
        elif isinstance(above, ast.If | ast.IfExp):
            if child is above.test and (
                chain_mentions(source, above, mentions) or _sibling_mentions(source, above, beside)
            ):
                return True
            if isinstance(above, ast.If):
                return False
        elif isinstance(above, ast.stmt):
            return False
    return False


def chain_mentions(source: Source, found: ast.If | ast.IfExp, mentions: set[ast.AST]) -> bool:
    """Whether one of the conditions of ``if … elif … else`` names ``hpu``, before or after this one."""
    top: ast.If | ast.IfExp = found
    while True:
        outer = source.parent(top)
        if (isinstance(top, ast.If) and isinstance(outer, ast.If) and outer.orelse == [top]) or (
            isinstance(top, ast.IfExp) and isinstance(outer, ast.IfExp) and top is outer.orelse
        ):
            top = outer
        else:
            break
    link: ast.AST | None = top
    while isinstance(link, ast.If | ast.IfExp):
        if link.test in mentions:
            return True
        if isinstance(link, ast.IfExp):
            if texts.is_hpu(link.orelse) or texts.is_hpu(link.body):
                return True
            link = link.orelse
        else:
            link = link.orelse[0] if len(link.orelse) == 1 else None
    return False


def _sibling_mentions(source: Source, found: ast.AST, beside: Beside) -> bool:
    """Whether another ``if`` of the same block names ``hpu``: branches that return instead of ``elif``."""
    body = getattr(source.parent(found), "body", None)
    return isinstance(body, list) and any(one is not found for one in beside.branches(body))
