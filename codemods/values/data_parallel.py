"""Models that DataParallel wraps, or DDP with a device named, and the batches that nothing else moves for them."""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.engine.rules.references import find
from hpushim.pycode.places import TRIES
from hpushim.pycode.stores import assigned, last_store
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.batches import Loop, loader_moves, loops, moved
from ..analysis.names import called, is_none, word
from ..edits.arguments import argument
from .tensors import makes_on_host, used_as_torch
from .unchosen import Defaults

ROW = "torch.nn.DataParallel"
#: The code of what uses several devices in one process.
SPREADS = "HPU308"
DDP = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    }
)
NAMES = frozenset({ROW, "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel"})  # fmt: skip


class LeftBehind:
    """The batches that nothing moves for the models which are wrapped: ``module.view(LeftBehind)``.

    DataParallel scatters what a model is called with, and DDP moves it to the device in ``device_ids``.
    """

    def __init__(self, module: Module) -> None:
        #: The loop, the call of a wrapped model, and its arguments that nothing moves.
        self.calls: list[tuple[Loop, ast.Call, list[ast.expr]]] = []
        #: A call of a wrapped model, and what it is given that the code before it has made on the host.
        self.made: list[tuple[ast.Call, list[ast.expr]]] = []
        #: Of these those that DDP would not move either.
        self.scattered: set[ast.Call] = set()
        #: Is any call of a wrapped model seen at all?
        self.seen = False
        scattered, spread = _wrapped(module, NAMES)
        wrapped, statements = _wrapped(module, NAMES | DDP)
        sure, _ = _wrapped(module, NAMES | DDP, by_default=True)
        reported: set[ast.Call] = set()
        for loop in module.view(loops):
            supplied: bool | None = None
            for call, left in loop.calls:
                passed = _passed_on(module, loop, call, left) if spread else None
                if passed is not None:
                    self.seen, left = True, passed
                named = word(call.func) in wrapped
                ours = passed is not None or (named and not _is_another(module, call.func, statements))  # fmt: skip
                self.seen |= ours
                if (
                    ours
                    and passed is None
                    and word(call.func) not in scattered
                    and _moves_some(module, loop, call)
                ):
                    continue  # under DDP: who moves one part has moved what has to go, and texts stay
                if ours and passed is None and word(call.func) not in sure and loop.sometimes.isdisjoint(map(word, left)):  # fmt: skip
                    continue  # the model takes it as it is where nothing wraps it
                if not left or call in reported or not (ours or _beside_moves(module, loop, call, left)):  # fmt: skip
                    continue
                if supplied is None:
                    supplied = loader_moves(module, loop) or _cut_by_project(module, loop)
                if not supplied:
                    reported.add(call)
                    self.calls.append((loop, call, left))
                    if not ours or passed is not None or word(call.func) in scattered:
                        self.scattered.add(call)
        for name in sorted(sure):
            for call in module.index.calls(name):
                if call not in reported and not _is_another(module, call.func, statements):
                    given = [*call.args, *(keyword.value for keyword in call.keywords)]
                    made: list[ast.expr] = [part for part in given if isinstance(part, ast.Name) and _is_host_made(module, part)]  # fmt: skip
                    if made:
                        self.made.append((call, made))


def _is_host_made(module: Module, name: ast.Name) -> bool:
    """Has the last statement before the call that gives the name its value made a tensor, and named no device for it?"""
    value = assigned(last_store(module, name, (ast.With, ast.AsyncWith, ast.If, *TRIES)), name)
    return value is not None and makes_on_host(module, value)


def _passed_on(
    module: Module, loop: Loop, call: ast.Call, left: list[ast.expr]
) -> list[ast.expr] | None:
    """Of what nothing has moved, what a function of the file calls a model with that it is given, too: ``step(model, x, y)``; None where none does."""
    if not loop.always:
        return None
    values, found = module.view(Values), None
    for function in values.callees(call):
        given = values.bind(call, function)
        moves = {word(target) for s in module.index.statements(ast.Assign) if module.function(s) is function and moved(module, s.value) for target in s.targets}  # fmt: skip
        for inner in walk(function):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in given:  # fmt: skip
                taken = {word(part) for part in inner.args} - moves
                found = [*(found or ()), *(given[name] for name in given if name in taken and given[name] in left)]  # fmt: skip
    return found


def _cut_by_project(module: Module, loop: Loop) -> bool:
    """Does the loop go over parts of a batch, which something else may have moved?

    Of an outer loop's batch, as a function of the project gives them; or ``zip(batch["ids"], batch["mask"])``.
    """
    rows = loop.node.iter
    if isinstance(rows, ast.Call) and word(rows.func) == "zip":
        keyed = [part.value for part in rows.args if isinstance(part, ast.Subscript)]
        if len(keyed) == len(rows.args) > 1 and len({module.source(each) for each in keyed}) == 1:
            return True
    outer = {
        part.id
        for above in module.ancestors(loop.node)
        if isinstance(above, ast.For)
        for part in walk(above.target)
        if isinstance(part, ast.Name)
    }
    given_by = [name for name in walk(loop.node.iter) if isinstance(name, ast.Name)]
    for value in (rows, *(value for name in given_by for value in module.values(name))):
        if not isinstance(value, ast.Call):
            continue
        if not (module.qualified(value.func) or "").startswith(("torch.", "builtins.")):
            given = {part.id for arg in value.args for part in walk(arg) if isinstance(part, ast.Name)}  # fmt: skip
            if given & outer or _moves_before(module, value, given):
                return True
    return False


def _moves_before(module: Module, call: ast.Call, names: set[str]) -> bool:
    """Does the function around a call move what is in one of the names: ``batch["x"] = batch["x"].cuda()``?"""
    around = module.function(call)
    for statement in module.index.statements(ast.Assign):
        if statement.lineno < call.lineno and module.function(statement) is around:
            roots = {part.id for each in statement.targets for part in walk(each) if isinstance(part, ast.Name)}  # fmt: skip
            if roots & names and moved(module, statement.value) is not None:
                return True
    return False


def _is_another(module: Module, node: ast.expr, statements: set[ast.AST]) -> bool:
    """Is the name bound here, to something else than what was wrapped? A parameter may get that."""
    bound = module.bindings(node) if isinstance(node, ast.Name) else []
    return bool(bound) and not any(
        binding.kind == "param" or binding.node in statements for binding in bound
    )


def _moves_some(module: Module, loop: Loop, call: ast.Call) -> bool:
    """Is any argument of the call moved, there or before?"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        moved(module, part) is not None or word(part) in loop.always | loop.sometimes
        for part in given
    )


def _wrapped(
    module: Module, wrappers: frozenset[str], *, by_default: bool = False
) -> tuple[set[str], set[ast.AST]]:
    """The names under which the file keeps what it has wrapped (``model``, ``self.model``, ``model.features``), and where.

    ``by_default``: only what is also wrapped on one device, where nobody sets an option.
    """
    names: set[str] = set()
    statements: set[ast.AST] = set()
    for node, _ in find(module, *sorted(wrappers)):
        call = called(module, node)
        if call is None or (module.possible_names(node) & DDP and not names_device(call)):
            continue
        statement = module.statement(call)
        if by_default and module.view(Defaults).is_skipped(call):
            continue
        statements.add(statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            while isinstance(target, ast.Attribute):
                names.add(target.attr)
                target = target.value
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names - {"self", "cls"}, statements


def names_device(call: ast.Call) -> bool:
    """Does a call of DDP name the device, so that it moves what the model is called with?"""
    given = argument(call, "device_ids", 1)
    return given is not None and not is_none(given)


def _beside_moves(module: Module, loop: Loop, call: ast.Call, left: list[ast.expr]) -> bool:
    """Is a model that another file made called with nothing moved, beside parts of the batch that are moved?

    On CUDA that works only where something moves what the model is given.
    """
    batch = {part.id for part in walk(loop.node.target) if isinstance(part, ast.Name)}
    names = {part.id for part in left if isinstance(part, ast.Name)}
    return (
        len(left) == len(names) == len(call.args) + len(call.keywords)
        and names <= batch - loop.sometimes
        and bool(loop.always & batch - names)
        and isinstance(module.parent(call), ast.Assign)
        and used_as_torch(module, call.func)
    )
