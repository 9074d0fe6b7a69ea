"""The number of devices as a factor: ``batch_size // torch.cuda.device_count()``, ``lr * args.n_gpu``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield
from hpushim.pycode.control import stops
from hpushim.pycode.walk import walk

from ..analysis.names import word
from ..analysis.project_facts import COUNTS
from ..analysis.verdict import ask, sentence
from ..edits.arguments import argument

_COUNTS = ("torch.cuda.device_count", "torch.hpu.device_count", "torch.accelerator.device_count")
#: Names for the devices of one process, whatever gives them their value.
_NAMED = re.compile(
    rb"\b(?:(?:n|num|number_of|ngpu)_?(?:gpu|cuda|device|device)s?(?:_per_node)?|(?:gpu|cuda|device)_?(?:count|num))\b",
    re.I,
)
_SCALED = re.compile(r"batch|(^|_)bsz?($|_)|(^|_)lr($|_)|learning_rate|accum|worker|samples|steps", re.I)  # fmt: skip
#: A file that says none of these has the numbers of devices that other files count.
_OF_DEVICES = ("cuda", "hpu", "nccl")
#: Each process has one device, so that their number is what it was.
_PROCESSES = "WORLD_SIZE"
_OPERATORS = (ast.Mult, ast.Div, ast.FloorDiv)


class DeviceCount(Rule):
    """A batch, a learning rate or a number of workers times or over the number of devices, or a multiple of it."""

    HPU323 = Code("device-count-as-factor", effect="numbers")
    wants = Wants(texts=("n_gpu", "ngpu", "num_gpu"), facts=(COUNTS,))
    also = Wants(words=("device_count",))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        answer = ask(module, "a batch scaled by the number of devices")
        reported: set[ast.stmt] = set()
        for count in sorted(_counts(module), key=module.span):
            scaled = _scaled(module, count)
            statement = module.statement(count)
            if scaled is None or statement in reported:
                continue
            reported.add(statement)
            what = "requires a multiple of" if _is_rest(scaled) else "scales with"
            yield self.finding(
                scaled,
                f"`{' '.join(module.source(scaled).split())}` {what} the number of devices. "
                f"{sentence(answer.note)}",
                row=answer.row,
            )


def _counts(module: Module) -> Iterator[ast.expr]:
    """The calls that count devices, and the names that hold such a count, unless so many processes are started: each has one device."""
    words: set[str] = set()
    started = {word(getattr(number, "func", number)) for call in module.index.calls("spawn") if (number := argument(call, "nprocs", 2)) is not None}  # fmt: skip
    for call in module.index.calls("device_count") if "device_count" not in started else ():
        if module.qualified(call.func) in _COUNTS:
            yield call
            words.update(_targets(module, call))
    named = {found[0].decode() for found in _NAMED.finditer(module.data)}
    here = any(map(module.holds, _OF_DEVICES))
    words.update(named if here else named & module.project.names(COUNTS.name))
    words -= {"device_count", *started}
    for each in sorted(words):
        yield from (
            n
            for n in module.index.names(each)
            if isinstance(n.ctx, ast.Load) and not _is_of_processes(module, n)
        )
        yield from (n for n in module.index.attributes(each) if isinstance(n.ctx, ast.Load))


def _is_of_processes(module: Module, name: ast.Name) -> bool:
    """Does a name hold the number of processes, whatever it is called: ``num_gpus = int(os.environ["WORLD_SIZE"])``?"""
    parts = [part for value in module.values(name) for part in walk(value)]
    if any(isinstance(part, ast.Call) and module.qualified(part.func) in _COUNTS for part in parts):
        return False
    return any(
        _PROCESSES in (getattr(part, "value", None), getattr(part, "attr", "").upper())
        or (isinstance(part, ast.Call) and word(part.func) == "get_world_size")
        for part in parts
    )


def _targets(module: Module, call: ast.Call) -> Iterator[str]:
    """The names that a statement gives the count to: ``n = torch.cuda.device_count()``, also under a condition."""
    statement = module.statement(call)
    factor = any(isinstance(above, ast.BinOp) for above in module.ancestors(call))
    if isinstance(statement, ast.Assign) and not factor:
        yield from (word(target) for target in statement.targets if word(target))


def _scaled(module: Module, count: ast.expr) -> ast.expr | None:
    """What is multiplied or divided by the count: ``batch_size * max(1, n_gpu)``."""
    for inner, above in module.upwards(count):
        if isinstance(above, ast.BinOp) and (isinstance(above.op, _OPERATORS) or _is_multiple(module, above, inner)):  # fmt: skip
            other = above.right if inner is above.left else above.left
            share = inner is above.left and isinstance(above.op, (ast.Div, ast.FloorDiv))
            words = [] if share else [word(part) for part in walk(other)]
            words += _kept_in(module, above)
            return above if any(_SCALED.search(each) for each in words) else None
        if isinstance(above, ast.AugAssign):
            by_factor = isinstance(above.op, _OPERATORS) and inner is above.value
            return above.target if by_factor and _SCALED.search(word(above.target)) else None
        if isinstance(above, ast.stmt) or not isinstance(above, (ast.Call, ast.IfExp, ast.BinOp, ast.BoolOp)):  # fmt: skip
            return None
        if isinstance(above, ast.Call) and word(above.func) not in ("max", "float", "int"):
            return None
    return None


def _is_rest(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _is_multiple(module: Module, rest: ast.BinOp, count: ast.AST) -> bool:
    """Does the program stop by what is left of a division by the count: ``assert batch_size % n == 0``?"""
    statement = module.statement(rest)
    stopped = isinstance(statement, ast.Assert) or (isinstance(statement, ast.If) and stops(statement.body))  # fmt: skip
    return _is_rest(rest) and rest.right is count and stopped


def _kept_in(module: Module, node: ast.AST) -> list[str]:
    """The names under which the product is kept: ``batch_size=…``, ``lr = …``."""
    for above in module.ancestors(node):
        if isinstance(above, ast.keyword):
            return [above.arg or ""]
        if isinstance(above, ast.Assign):
            return [word(target) for target in above.targets]
        if isinstance(above, ast.stmt):
            return []
    return []
