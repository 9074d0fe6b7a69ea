"""A check whose branches do the same once the device is neutral: one of them stays, without the check.

``if torch.cuda.is_available(): net.cuda()`` is ``net.to(device)``, which does nothing on the CPU.
"""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Insert, Remove, Replace
from hpushim.engine.python.module import Module
from hpushim.pycode.walk import walk

from . import neutral

_LOAD = "torch.load"


def merged(module: Module, check: ast.expr) -> tuple[Change, ...]:
    """The statements behind the check in place of the whole ``if``; nothing where its branches differ in more than the device."""
    guard = module.parent(check)
    if not isinstance(guard, ast.If) or guard.test is not check or not _is_alone(module, guard):
        return ()
    moves = {
        call: call.func
        for statement in guard.body
        for call in walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "cuda"
        if not call.args and all(keyword.arg == "non_blocking" for keyword in call.keywords)
    }  # fmt: skip
    given = neutral.device(module, next(iter(moves))) if moves else neutral.NONE
    if given == neutral.NONE:
        return ()
    others = [ast.dump(_Plain(module).visit(_copy(module, one))) for one in guard.orelse]
    lines: list[str] = []
    for statement in guard.body:
        plain = ast.dump(_Plain(module).visit(_copy(module, statement)))
        loads: list[ast.Call] = []
        if plain in others:
            del others[: others.index(plain) + 1]
            loads = _loads(module, statement) if "map_location" in _branch(module, guard) else []
        elif not _only_moves(module, statement):
            return ()
        lines += _written(module, statement, given, moves, loads)
    code = "\n".join(lines)
    if others or "cuda" in code:
        return ()
    return Remove(guard), Insert(guard, code, after=False)


def assigned(module: Module, check: ast.expr) -> tuple[Change, ...]:
    """``device = "cpu"`` and ``if torch.cuda.is_available(): device = "cuda"`` as one assignment, where a function of the project chooses.

    The CPU may be in the other branch, or right above.
    """
    guard = module.parent(check)
    if not neutral.has_function(module) or not isinstance(guard, ast.If) or guard.test is not check or not _is_alone(module, guard):  # fmt: skip
        return ()
    block = module.block(guard)
    above = block[block.index(guard) - 1] if not guard.orelse and guard is not block[0] else None
    other = guard.orelse if guard.orelse else [above]
    if len(guard.body) != 1 or len(other) != 1:
        return ()
    one, two = guard.body[0], other[0]
    if not isinstance(one, ast.Assign) or not isinstance(two, ast.Assign) or _targets(module, one) != _targets(module, two):  # fmt: skip
        return ()
    kinds = {neutral.named(module, each.value)[1] for each in (one, two)}
    devices = [neutral.named(module, each.value)[0] for each in (one, two)]
    if devices not in (["cuda", "cpu"], ["cuda:0", "cpu"]) or len(kinds) != 1 or neutral.keeps_number(module, one.value):  # fmt: skip
        return ()
    given = neutral.chosen_by_function(module, check)
    if given == neutral.NONE:
        return ()
    given = f"{given}{'.type' if kinds == {'text'} else ''}"
    if above is not None:
        return Replace(two.value, given), Remove(guard)
    return Remove(guard), Insert(guard, f"{_targets(module, one)} = {given}", after=False)


def _targets(module: Module, statement: ast.Assign) -> str:
    return " = ".join(map(module.source, statement.targets))


def _is_alone(module: Module, guard: ast.If) -> bool:
    """Is it a whole statement beside others, without comments that would be lost?"""
    block = module.block(guard)
    chained = len(guard.orelse) == 1 and isinstance(guard.orelse[0], ast.If)
    first = module.source(guard)
    return (
        len(block) > 1
        and not chained
        and first.startswith("if")
        and "#" not in first
        and all(isinstance(s, (ast.Expr, ast.Assign)) for s in (*guard.body, *guard.orelse))
        and guard.body[0].lineno > guard.lineno
    )


def _branch(module: Module, guard: ast.If) -> str:
    return " ".join(module.source(one) for one in guard.orelse)


def _copy(module: Module, statement: ast.stmt) -> ast.stmt:
    text = module.source(statement)
    return ast.parse(f"(\n{text}\n)" if isinstance(statement, ast.Expr) else text).body[0]


class _Plain(ast.NodeTransformer):
    """A statement without moves, and with loads that name no place."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "cpu"):
            return node.func.value
        node.keywords = [
            each
            for each in node.keywords
            if each.arg != "map_location" or "cpu" not in ast.dump(each.value)
        ]
        return node


def _loads(module: Module, statement: ast.stmt) -> list[ast.Call]:
    return [
        call
        for call in walk(statement)
        if isinstance(call, ast.Call) and module.qualified(call.func) == _LOAD
        if not any(keyword.arg == "map_location" for keyword in call.keywords)
    ]


def _only_moves(module: Module, statement: ast.stmt) -> bool:
    """``net.cuda()``, ``x, y = x.cuda(), y.cuda()``: what changes nothing on the CPU."""
    plain = _Plain(module).visit(_copy(module, statement))
    if isinstance(plain, ast.Expr):
        return isinstance(plain.value, (ast.Name, ast.Attribute))
    if not isinstance(plain, ast.Assign) or len(plain.targets) != 1:
        return False
    return ast.unparse(plain.targets[0]) == ast.unparse(plain.value)


def _written(
    module: Module,
    statement: ast.stmt,
    given: str,
    moves: dict[ast.Call, ast.Attribute],
    loads: list[ast.Call],
) -> list[str]:
    """The lines of a statement with the device in place of CUDA, without its indentation."""
    start = module.span(statement).start
    data = module.source(statement).encode()
    edits: list[tuple[int, int, str]] = []
    for call, func in moves.items():
        if statement in (call, *module.ancestors(call)):
            keywords = "".join(f", {module.source(keyword)}" for keyword in call.keywords)
            end = module.span(func).end
            edits.append((end - len("cuda"), module.span(call).end, f"to({given}{keywords})"))
    for call in loads:
        end = module.span(call).end - 1
        edits.append((end, end, f", map_location={given}"))
    for begin, end, new in sorted(edits, reverse=True):
        data = data[: begin - start] + new.encode() + data[end - start :]
    indent = module.indent(statement)
    first, *rest = data.decode().split("\n")
    return [first, *(line.removeprefix(indent) for line in rest)]
