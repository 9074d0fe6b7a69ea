"""The proof that a rewrite changed nothing else."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from hpushim.engine.base.edits import Places
from hpushim.model import Edit

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


def unproven(
    before: Module, after: Module, edits: Sequence[Edit], touched: Collection[ast.AST]
) -> str | None:
    """Why a changed text that parses cannot be trusted; None when all is well.

    Every statement that no change touches, by itself or inside, must be there as before: a quote or bracket that swallows its
    surroundings moves statements even where it parses.
    """
    places = Places(edits)
    there = set(_statements(after, ()))
    for kind, start, end in _statements(before, touched):
        # By its last byte: what is put right behind a statement is no part of it.
        if (kind, places.after(start), places.after(end - 1) + 1) not in there:
            line = before.position(start)[0]
            return f"a statement that no change touches ({kind.__name__}, line {line}) changed"
    return None


def _statements(module: Module, without: Collection[ast.AST]) -> list[tuple[type, int, int]]:
    """Class, start and end of every statement."""
    lines = module.line_starts
    return [
        (
            node.__class__,
            lines[node.lineno - 1] + node.col_offset,
            lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
        )
        for node in module.index.units
        if isinstance(node, ast.stmt) and node not in without
    ]
