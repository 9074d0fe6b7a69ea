"""Values read from the device in every step: ``loss.item()``, ``print(loss)``, ``if loss > 3:``, ``if mask.any():``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.names import foreign, word
from ..analysis.placement import DEVICES, reaches_a_device
from ..analysis.training_facts import STEP_CALLS
from ..analysis.verdict import ask, sentence
from ..values.tensors import (
    is_count,
    is_other,
    is_tensor,
    lies_on_host,
    may_be_on_device,
    proven,
    stays_on_host,
)
from ..values.training import (
    LOSS,
    in_every_step,
    in_forward,
    over_parameters,
    runs_in_step,
    runs_once,
    step_regions,
)

_READ = "torch.Tensor.item"
_BRANCH = "Python branches on tensor values"
_METHODS = ("item", "tolist", "cpu", "numpy")
#: What a condition requests from the values of a tensor.
_REDUCE = ("any", "all", "isnan", "isinf", "isfinite", "equal", "allclose", "sum", "max", "min", "mean", "norm", "item")  # fmt: skip
#: What shows the values that it is given.
_SHOWS = ("print", "log", "info", "debug", "warning", "write", "add_scalar", "add_scalars", "set_postfix", "set_postfix_str", "set_description", "format", "track", "record", "log_metric", "log_metrics")  # fmt: skip
#: A number that is written with so many digits.
_DIGITS = re.compile(r"\.\d*[efgEFG]")
#: The same as it is written, behind what a format begins with.
_FORMAT = re.compile(rb"[%:] ?[^\s\"'()]*\.\d*[efgEFG]")
#: Types that a tensor's value is read with.
_NUMBERS = ("float", "int")
#: What a file has that computes on a device, or in a project with one.
_SHOWS_IT = ("cuda", "hpu", "device", ".to(", "nn.Module", ".grad")
_SHOWN = (*_SHOWS_IT, "import torch", "from torch")
#: What Lightning logs with.
_LOGS = ("log", "log_dict")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TESTS = (ast.If, ast.While, ast.Assert)
#: What is given sizes or dimensions one by one.
_SIZED = ("permute", "view", "reshape", "expand", "repeat", "tile", "flip", "roll", "movedim", "zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty")  # fmt: skip


class StepRead(Rule):
    """A read of the device in a step of training, reported once for each statement."""

    HPU513 = Code("read-in-training-loop", severity="note", effect="speed")
    wants = Wants(
        calls=("item", "register_buffer"), required=_SHOWN, project=DEVICES, facts=(STEP_CALLS,)
    )
    also = Wants(
        calls=(*_METHODS, *_NUMBERS, *_SIZED, *_LOGS),
        words=("backward", "manual_backward"),
        texts=("if ", "while ", "assert "),
    )

    def __init__(self) -> None:
        self._reads: dict[ast.stmt, tuple[ast.expr, str]] = {}

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func, name = node.func, word(node.func)
        if name in _METHODS:
            read = isinstance(func, ast.Attribute) and _reads(module, func)
        elif name in _NUMBERS:
            read = _as_number(module, node)
        else:
            read = _spread(module, node) if name in _SIZED else _on_bar(module, node)
        if read:
            self._reads.setdefault(module.statement(node), (node, _READ))
        return ()

    def on_module(self, module: Module) -> Yield:
        if not (any(map(module.holds, _SHOWS_IT)) or reaches_a_device(module)):
            return
        for shows, value in _displayed(module):
            if is_tensor(module, value):
                self._reads.setdefault(module.statement(shows), (shows, _READ))
        for value in _formatted(module):
            if in_every_step(module, value) and is_tensor(module, value):
                self._reads.setdefault(module.statement(value), (value, _READ))
        for test in _questions(module):
            self._reads.setdefault(module.statement(test), (test, _BRANCH))
        for node, row in sorted(self._reads.values(), key=lambda read: module.span(read[0])):
            answer = ask(module, row)
            yield self.finding(
                node,
                f"`{_shown(module, node)}` needs a tensor's value on the host in every step. {sentence(answer.note)}",
                row=answer.row,
            )


def _as_number(module: Module, node: ast.Call) -> bool:
    """``float(loss)`` in a step; gradients, ``float(torch.norm(p.grad))``, are read in each step, wherever that is written."""
    if not isinstance(node.func, ast.Name) or len(node.args) != 1:
        return False
    given = node.args[0]
    if isinstance(given, ast.Call) and any(
        isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(given)
    ):
        return True
    return (
        not isinstance(given, ast.Constant)
        and module.holds("torch")
        and runs_in_step(module, node)
        and not (node.func.id == "int" and _is_share(module, given))
        and is_tensor(module, given)
        and not stays_on_host(module, given)
    )


def _on_bar(module: Module, node: ast.Call) -> bool:
    """``self.log("loss", loss, prog_bar=True)`` in a step of Lightning, whose progress bar shows the value."""
    shown = word(node.func) in _LOGS and any(k.arg == "prog_bar" and module.constant(k.value) is True for k in node.keywords)  # fmt: skip
    return shown and any(_holds_loss(module, each) for each in (*node.args, *(k.value for k in node.keywords))) and in_every_step(module, node)  # fmt: skip


def _holds_loss(module: Module, node: ast.expr) -> bool:
    """Is it a tensor of the step, or what holds such?"""
    return is_tensor(module, node) or any(isinstance(each, ast.Dict) for each in module.values(node)) or LOSS.search(word(node)) is not None  # fmt: skip


def _is_share(module: Module, given: ast.expr) -> bool:
    """``length * (1 - ratio)``: a share of a number, where that a module takes the ratio says nothing of it."""
    if not isinstance(given, ast.BinOp) or proven(module, given):
        return False
    counts = [side for side in (given.left, given.right) if is_count(module, side)]
    rest = [side for side in (given.left, given.right) if side not in counts]
    made = (ast.Call, ast.Attribute, ast.Subscript)
    return bool(counts) and not any(isinstance(p, made) for side in rest for p in walk(side))


def _spread(module: Module, node: ast.Call) -> bool:
    """``x.permute(*order)`` in a step, where the order is a tensor: each of its elements is read."""
    given = [arg.value for arg in node.args if isinstance(arg, ast.Starred) and "shape" not in word(arg.value)]  # fmt: skip
    return any(
        is_tensor(module, each) and not stays_on_host(module, each) and runs_in_step(module, node)
        for each in given
    )


def _shown(module: Module, node: ast.expr) -> str:
    lines = module.source(node).splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0].rstrip()} … {lines[-1].strip()}"


def _reads(module: Module, func: ast.Attribute) -> bool:
    """Does a method read a tensor of the device in every step?

    Where gradients are taken ``x.item()`` is about a tensor unless something else is seen: arrays of numpy are rarely read
    one by one there.
    """
    value = func.value
    if isinstance(value, ast.Attribute) and value.attr in ("shape", "queue"):
        return False
    of_gradients = func.attr == "item" and any(isinstance(p, ast.Attribute) and p.attr == "grad" for p in walk(value))  # fmt: skip
    if (
        foreign(module, func)
        or not (of_gradients or runs_in_step(module, func))
        or is_other(module, value)
        or lies_on_host(module, value)
    ):
        return False
    return func.attr == "item" or is_tensor(module, value) or _is_of_parameters(value)


def _is_of_parameters(node: ast.expr) -> bool:
    """``p.grad.norm()``, ``param.data.norm(2)``: a tensor by its attributes."""
    return any(isinstance(part, ast.Attribute) and part.attr in ("grad", "data") for part in walk(node))  # fmt: skip


def _questions(module: Module) -> Iterator[ast.expr]:
    """The conditions that request values of a tensor in every step."""
    kinds: tuple[type[ast.If | ast.While | ast.Assert], ...] = _TESTS
    for kind in kinds if module.holds("torch") else ():
        for statement in module.index.statements(kind):
            test = statement.test
            # What sizes are of is left out where it matters alone: kinds are dear.
            if _requests(module, test) and _requests(module, test, strict=True):
                yield test
    for call in (*module.index.calls("min"), *module.index.calls("max")):
        named = isinstance(call.func, ast.Name) and len(call.args) > 1
        if named and (module.qualified(call.func) or "").startswith("builtins.") and _holds_tensor(module, call.args):  # fmt: skip
            yield call


def _requests(module: Module, test: ast.expr, *, strict: bool = False) -> bool:
    """Does a condition request values of a tensor in every step?"""
    parts = [*_tested(module, test, strict=strict)]
    parts += [each for part in parts if isinstance(part, ast.Name) and part is not test for each in _unread(module, part)]  # fmt: skip
    for part in parts:
        if (
            isinstance(part, ast.Call)
            and word(part.func) in _REDUCE
            and _tests_tensor(module, part)
        ):
            return True
        # ``if count > 0:``, where that is a tensor.
        if isinstance(part, ast.Compare):
            of_loss = isinstance(part.ops[0], (ast.Eq, ast.NotEq)) and word(part.left) in module.view(_losses)  # fmt: skip
            if (of_loss or isinstance(part.ops[0], _ORDERS)) and _holds_tensor(module, (part.left, *part.comparators)):  # fmt: skip
                return True
    return False


def _holds_tensor(module: Module, parts: Iterable[ast.expr]) -> bool:
    """Is one of those that are compared in every step surely a tensor of the device, a loss, or worked out of gradients?"""
    return any(
        isinstance(each, (ast.Name, ast.Attribute))
        and runs_in_step(module, each)
        and (proven(module, each) or word(each) in module.view(_losses) or (over_parameters(module, each) and is_tensor(module, each)))
        and not stays_on_host(module, each)
        and not lies_on_host(module, each)
        for each in parts
    )  # fmt: skip


def _unread(module: Module, name: ast.Name) -> list[ast.expr]:
    """What a name is made of that is still on the device where a condition requests it: ``n = mask.sum().float()``."""
    made = [
        [*_tested(module, value)] for value in module.values(name) if isinstance(value, ast.Call)
    ]
    return [part for chain in made for part in chain if not any(word(getattr(c, "func", c)) in _METHODS for c in chain)]  # fmt: skip


def _tested(module: Module, test: ast.expr, *, strict: bool = False) -> Iterator[ast.expr]:
    """What a condition is joined of: the sides of ``and`` and of comparisons, what ``not`` is before, methods in a chain.

    Where it is ``strict``, what sizes are of is no part: the host knows them.
    """
    parts: list[ast.expr] = [test]
    while parts:
        part = parts.pop()
        yield part
        if isinstance(part, ast.BoolOp):
            parts += part.values
        elif isinstance(part, ast.UnaryOp):
            parts.append(part.operand)
        elif isinstance(part, ast.Compare):
            parts += [part.left, *part.comparators]
        elif isinstance(part, ast.BinOp):
            parts += [part.left, part.right]
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and not (strict and is_count(module, part)):  # fmt: skip
            parts.append(part.func.value)


def _tests_tensor(module: Module, node: ast.Call) -> bool:
    """Is it a tensor's value that is read in every step: ``mask.any()``, ``torch.isnan(loss)``?"""
    name = module.qualified(node.func)
    own = isinstance(node.func, ast.Attribute) if name is None else name.startswith("torch.")
    if not own or not (in_forward(module, node) or runs_in_step(module, node)):
        return False
    if name is not None:
        return may_be_on_device(module, node) and not any(lies_on_host(module, each) for each in node.args[:1])  # fmt: skip
    return isinstance(node.func, ast.Attribute) and is_tensor(module, node.func.value)


def _losses(module: Module) -> frozenset[str]:
    """The names whose gradients are taken."""
    calls = (call for call in module.index.calls("backward") if isinstance(call.func, ast.Attribute))  # fmt: skip
    given = (each for call in calls for each in (call.func.value, *call.args[:1]))  # type: ignore[attr-defined]
    return frozenset(each.id for each in given if isinstance(each, ast.Name))


def _displayed(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What shows values in every step, with each value: ``add_scalar("a", x.mean(), n)``, ``log({"a": x})``, ``print(f"{x}")``."""
    if not module.view(step_regions):
        return
    for call in [call for name in _SHOWS for call in module.index.calls(name)]:
        if not in_every_step(module, call) or runs_once(module, call) or (word(call.func) == "log" and _is_no_log(module, call.func)):  # fmt: skip
            continue
        given: list[tuple[ast.expr, ast.expr]] = [(call, each) for each in (*call.args, *(k.value for k in call.keywords))]  # fmt: skip
        for shows, value in given:  # grows
            match value:
                case ast.Dict(values=inner) | ast.Tuple(elts=inner) | ast.List(elts=inner) | ast.JoinedStr(values=inner):  # fmt: skip
                    given += [(shows, each) for each in inner]
                case ast.FormattedValue(value=inside):
                    given.append((inside, inside))
                case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=inside) | ast.Call(func=ast.Name(id="str"), args=[inside]):  # fmt: skip
                    given.append((shows, inside))
                case _:
                    yield shows, value


def _is_no_log(module: Module, func: ast.expr) -> bool:
    """``torch.log(x)``, and Lightning's ``self.log``, which keeps the tensor."""
    kept = isinstance(func, ast.Attribute) and word(func.value) == "self"
    return kept or (module.qualified(func) or "").startswith(("torch.", "numpy.", "math."))


def _formatted(module: Module) -> Iterator[ast.expr]:
    """What is written as a number: ``"%.4g" % x``, ``f"{x:.4f}"``, ``"{:.4f}".format(x)``, which reads the value of a tensor."""
    for unit in module.index.holding(_FORMAT) if module.view(step_regions) else ():
        for text in module.index.within(unit):
            if isinstance(text, ast.Constant) and _DIGITS.search(str(text.value)):
                for value in _filled_in(module, text):
                    yield value.value if isinstance(value, ast.Starred) else value


def _filled_in(module: Module, text: ast.Constant) -> Iterable[ast.expr]:
    """The values that are put into a text."""
    for inner, above in module.upwards(text):
        if isinstance(above, ast.FormattedValue):
            return (above.value,) if above.format_spec is inner else ()
        if isinstance(above, ast.Attribute) and above.attr == "format":
            call = module.parent(above)
            called = isinstance(call, ast.Call) and call.func is above
            return (*call.args, *(k.value for k in call.keywords)) if called else ()  # type: ignore[union-attr]
        if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mod) and above.left is inner:
            given = above.right
            return given.elts if isinstance(given, ast.Tuple) else (given,)
        if not isinstance(above, (ast.BinOp, ast.JoinedStr)):
            return ()
    return ()
