"""What runs behind a condition: its branches, and what follows a branch that leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from hpushim.pycode.places import last_name

#: Calls behind which nothing of the block runs.
_EXITS = frozenset(["exit", "_exit", "quit", "abort", "error"])
_ENDS = _EXITS | {"skip", "skipTest", "SkipTest", "fail", "xfail"}


def branches(choice: ast.If | ast.While | ast.IfExp, *, true: bool) -> tuple[Sequence[ast.AST], Sequence[ast.AST]]:  # fmt: skip
    """What runs where the test has this answer, and what runs where it has the other one."""
    if isinstance(choice, ast.IfExp):
        chosen, other = [choice.body], [choice.orelse]
        return (chosen, other) if true else (other, chosen)
    return (choice.body, choice.orelse) if true else (choice.orelse, choice.body)


def behind(block: Sequence[ast.AST], node: object) -> Iterator[ast.AST]:
    """What follows ``node`` in its block."""
    place = next((i for i, other in enumerate(block) if other is node), len(block))
    return iter(block[place + 1 :])


def ends(block: Sequence[ast.stmt]) -> bool:
    """Does nothing behind the block run after it?"""
    last = block[-1]
    if isinstance(last, ast.If) and last.orelse:
        return ends(last.body) and ends(last.orelse)
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return _leaves(last, _ENDS)


def stops(block: Sequence[ast.stmt]) -> bool:
    """Does the program stop in the block, where a test is not merely skipped?"""
    last = block[-1]
    if isinstance(last, ast.Raise):
        return "skip" not in ast.dump(last).lower()
    return _leaves(last, _EXITS)


def _leaves(statement: ast.stmt, names: frozenset[str]) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_name(call.func) in names
