"""Loops that only compute: in lazy mode their steps are collected until something reads a result."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.batches import Loop, loop_at
from ..analysis.names import foreign, word
from ..analysis.placement import DEVICES, reaches_a_device
from ..analysis.training_facts import STEP_CALLS
from ..analysis.verdict import ask, sentence
from ..edits.arguments import argument
from ..values.changing import changes_each_step, counts
from ..values.tensors import is_model, is_tensor, lies_on_host
from ..values.training import own_method, runs_in_step

#: How models are called, and the steps of sampling.
_MODELS = re.compile(
    r"(.*_)?(model|net|unet|module|generator|encoder|decoder|vae|backbone|classifier)(_fn|_func|_function)?",
    re.I,
)
_SAMPLES = re.compile(r"sample|denois|^(model|net|unet|forward|decode)(_|$)", re.I)
#: Methods that run a model on the batch that they are handed.
_EVALUATES = re.compile(
    r"_?(model|net|module|forward\w*|generate|predict\w*|infer(ence)?(_\w+)?|encode\w*|decode\w*|embed\w*|(get|extract)_(\w+_)?(features?|layers?)|"
    r"(eval\w*|test|val(id\w*)?|predict\w*|inference)_(step|batch|one_batch|iter\w*))"
)
#: What is called on a batch and is no model.
_OTHERS = re.compile(r"token|process|extractor|codec$|callback|hook$|print|^log", re.I)
_BATCHES = re.compile(r"loader|batches|_dl$|^dl$|data_iter", re.I)
#: Methods that bring a value to the host, and so run what was collected; in a condition any that requests one.
_READS = frozenset(["item", "cpu", "tolist", "numpy"])
_REDUCE = frozenset(["any", "all", "min", "max", "sum", "mean", "equal", "isnan"])
_NO_GRADIENTS = ("torch.no_grad", "torch.inference_mode")
_FILLED = ("torch.full", "torch.full_like", "torch.tensor")
_COUNTED = "an index that a loop counts"
#: ``x[i] = y``, ``x[:, i : i + n] += y``.
_WRITES = re.compile(rb"\][ \t]*[-+*/]?=(?!=)")
_TRAINS = frozenset(["backward", "mark_step", "manual_backward", "grad"])


class InferenceLoop(Rule):
    """``for x in loader: model(x.cuda())`` without gradients."""

    HPU505 = Code("inference-loop-without-mark-step", severity="note", effect="speed")
    HPU528 = Code("index-of-a-counter", severity="note", effect="speed")
    wants = Wants(
        texts=("no_grad", "inference_mode", "synchronize"),
        words=("item", "register_buffer", "backward"),
        required=("cuda", ".to(", "device", "import torch", "from torch"),
        project=DEVICES,
        facts=(STEP_CALLS,),
    )

    def on_module(self, module: Module) -> Yield:
        if module.target.mode not in ("portable", "lazy"):
            return
        yield from (self._indexed(module, place) for place in _placed(module))
        whole: list[ast.For | ast.While] = [*module.index.statements(ast.For)]
        whole += module.index.statements(ast.While)
        trains = _around(module, _TRAINS)
        reported: set[ast.Call] = set()
        for timed in _timed(module, [loop for loop in whole if loop not in trains]):
            reported.add(timed)
            yield self._collected(module, timed)
        evaluation = _Evaluation(module)
        if not evaluation:
            return
        whole = [loop for loop in whole if loop not in trains and evaluation.may_be(loop)]
        yield from (
            self._indexed(module, index) for index in dict.fromkeys(_indexed(module, whole))
        )
        # A read runs what was collected.
        whole = [loop for loop in whole if not _reads_always(module, loop.body)]
        if not whole:
            return
        for node in sorted(whole, key=lambda loop: (loop.lineno, loop.col_offset)):
            call = next(_computing(module, node), None)
            if call is None or call in reported or not evaluation.runs(node, call):
                continue  # or it is seen in the loop around this one
            reported.update(part for part in walk(node) if isinstance(part, ast.Call))
            yield self._collected(module, call)

    def _collected(self, module: Module, call: ast.Call) -> Found:
        return self.finding(
            call,
            f"in lazy mode Gaudi only collects the operations of `{module.source(call.func)}` until the host reads a result; "
            "if the loop around this call reads none, call `htcore.mark_step()` in each iteration",
        )

    def _indexed(self, module: Module, index: ast.expr) -> Found:
        answer = ask(module, _COUNTED)
        return self.finding(
            index,
            f"`{module.source(index).splitlines()[0]}` has an index that changes in each iteration. {sentence(answer.note)}",
            row=answer.row,
            code="HPU528",
        )


def _placed(module: Module) -> Iterator[ast.Subscript]:
    """Where a step writes into a tensor at a number that is another one in each step: ``self.queue[:, start : start + n] = keys.T``."""
    units = module.index.holding(_WRITES) if module.view(reaches_a_device) else ()
    for part in (part for unit in units for part in module.index.within(unit)):
        if not isinstance(part, ast.Subscript) or not isinstance(part.ctx, ast.Store):
            continue
        written: ast.expr = part
        places: list[ast.expr | None] = []
        while isinstance(written, ast.Subscript):
            index = written.slice.elts if isinstance(written.slice, ast.Tuple) else [written.slice]
            places += [each.lower if isinstance(each, ast.Slice) else each for each in index]
            written = written.value
        changing = (each for each in places if each is not None and not isinstance(each, ast.Constant))  # fmt: skip
        if runs_in_step(module, part) and any(changes_each_step(module, each) for each in changing) and is_tensor(module, written) and not lies_on_host(module, written):  # fmt: skip
            yield part


def _timed(module: Module, whole: Sequence[ast.For | ast.While]) -> Iterator[ast.Call]:
    """What runs first in each loop that the program then waits for, to time it: ``for _ in range(n): x = torch.mm(x, a)``, ``torch.cuda.synchronize()``."""
    waits: set[ast.stmt] = {module.statement(call) for call in module.index.calls("synchronize")}
    on_device = bool(waits) and module.view(reaches_a_device)
    for loop in whole if on_device else ():
        block, place = module.place(loop)
        if waits.isdisjoint(block[place + 1 : place + 2]) or _reads_always(module, loop.body):
            continue
        calls = (part for part in walk(loop) if isinstance(part, ast.Call))
        yield from itertools.islice((call for call in calls if _computes(module, call)), 1)


def _computes(module: Module, call: ast.Call) -> bool:
    """Is it a model that is called, or a function of torch that gives a tensor?"""
    name = module.qualified(call.func) or ""
    return _runs(module, call) or (name.startswith("torch.") and is_tensor(module, call))


def _indexed(module: Module, whole: list[ast.For | ast.While]) -> Iterator[ast.expr]:
    """Where a loop that runs a model, or a function that it calls, first puts the number of the turn into what the device computes."""
    for loop in whole if module.view(reaches_a_device) else ():
        counted = _counted(module, loop)
        if not counted:
            continue
        calls = [part for part in walk(loop) if isinstance(part, ast.Call)]
        regions: list[tuple[ast.AST, set[str]]] = [(loop, counted)]
        handed = [call for call in calls if any(_mentions(a, counted) for a in (*call.args, *call.keywords))]  # fmt: skip
        values = module.view(Values)
        for call in handed:
            for function in values.callees(call):
                given = values.bind(call, function).items()
                regions.append(
                    (function, {name for name, value in given if _mentions(value, counted)})
                )
        # Few loops compute by their number, and which calls run a model is the dearer question.
        places = [each for region, names in regions if (each := list(_candidates(region, names)))]
        if places and any(_is_run(module, call) for call in calls):
            for each in places:
                yield from itertools.islice((part for part in each if _is_use(module, part)), 1)


def _is_run(module: Module, call: ast.Call) -> bool:
    """Is it a model that is called, or a step of sampling, or what takes a model?"""
    if _SAMPLES.search(word(call.func)) or any(_MODELS.fullmatch(word(a)) for a in _plain(call)):
        return True
    return _runs(module, call)


def _counted(module: Module, loop: ast.For | ast.While) -> set[str]:
    """The names that hold the number of a turn: ``i`` of ``for i in range(n)``, both of ``enumerate``, and what is worked out of them."""
    if isinstance(loop, ast.While) or not any(counts(value) for value in (loop.iter, *module.values(loop.iter))):  # fmt: skip
        return set()
    found = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    for part in walk(loop):
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.BinOp) and _mentions(part.value, found):  # fmt: skip
            found |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return found


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(node))


def _candidates(region: ast.AST, names: set[str]) -> Iterator[ast.Subscript | ast.Call]:
    """``times[i]``, ``torch.full((n,), i, device=device)``, ``torch.tensor([i], device=device)``."""
    for part in walk(region) if names else ():
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
            if isinstance(part.slice, ast.Name) and part.slice.id in names:
                yield part
        elif isinstance(part, ast.Call) and any(k.arg == "device" for k in part.keywords):
            filled = argument(part, "fill_value", 1) or argument(part, "data", 0)
            if filled is not None and _mentions(filled, names):
                yield part


def _is_use(module: Module, part: ast.Subscript | ast.Call) -> bool:
    """Is it a tensor that is indexed, or one that is made?"""
    if isinstance(part, ast.Call):
        return module.qualified(part.func) in _FILLED
    return is_tensor(module, part.value)


def _computing(module: Module, node: ast.For | ast.While) -> Iterator[ast.Call]:
    """The calls that run a model in each turn: on what the turn before made, for what is kept, on the batch that is moved there."""
    on_device = module.view(reaches_a_device)
    carried = _carried(module, node) if on_device else ()
    keeps = on_device and _keeps(node)
    for call in walk(node) if on_device else ():
        if isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute)):
            given = (part for arg in (*call.args, *call.keywords) for part in walk(arg))
            fed = any(isinstance(part, ast.Name) and part.id in carried for part in given)
            sampled = _SAMPLES.search(word(call.func)) or any(_MODELS.fullmatch(word(a)) for a in _plain(call))  # fmt: skip
            if ((fed or keeps) and _runs(module, call)) or (
                sampled and fed and _is_assigned(module, call)
            ):
                yield call
    loop = loop_at(module, node) if isinstance(node, ast.For) else None
    if loop is not None and loop.always:
        yield from (call for call, _ in loop.calls if _is_model(module, call))
    if loop is not None and on_device:
        yield from _by_method(module, loop)


def _carried(module: Module, loop: ast.For | ast.While) -> set[str]:
    """The names that each turn takes from the one before: given a value here, and another one before the loop."""
    inside = set(walk(loop))
    given = {part for each in loop.body for part in walk(each) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip
    return {n.id for n in given if any(b.node not in inside for b in module.bindings(n))}


def _runs(module: Module, call: ast.Call) -> bool:
    """Is it a model that is called?"""
    if _is_others(module, call) or _OTHERS.search(word(call.func)):
        return False
    return _MODELS.fullmatch(word(call.func)) is not None or is_model(module, call.func)


def _plain(call: ast.Call) -> Iterator[ast.expr]:
    yield from (arg for arg in call.args if isinstance(arg, (ast.Name, ast.Attribute)))
    yield from (k.value for k in call.keywords if isinstance(k.value, (ast.Name, ast.Attribute)))


def _is_assigned(module: Module, call: ast.Call) -> bool:
    """``x = f(x)``, ``x, y = f(x)``: what is made is not only shown or stored away."""
    statement = module.parent(call)
    return isinstance(statement, ast.Assign) and not _is_others(module, call)


def _keeps(loop: ast.AST) -> bool:
    """Does the loop put anything by: ``found.append(y)``, ``found[i] = y``, ``yield y``?"""
    return any(
        isinstance(part, (ast.Yield, ast.AugAssign))
        or (isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store))
        or (isinstance(part, ast.Call) and word(part.func) in ("append", "extend"))
        for part in walk(loop)
    )


def _reads_always(module: Module, parts: Sequence[ast.AST]) -> bool:
    """Does each turn of the loop, or of one inside, read a value to the host: ``losses.update(loss.item())``?"""
    may = (part for each in parts for part in walk(each) if isinstance(part, ast.Attribute))
    if not any(part.attr in _READS or part.attr in _REDUCE for part in may):
        return False
    return any(_reads(module, part) for part in parts)


def _reads(module: Module, part: ast.AST) -> bool:
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
        if part.func.attr in _READS:
            return True
        if part.func.attr in _REDUCE and isinstance(module.statement(part), (ast.Assert, ast.If)):
            return is_tensor(module, part.func.value)
    if isinstance(part, ast.If):  # what is read now and then leaves the other turns collected
        both = _reads_always(module, part.body) and _reads_always(module, part.orelse)
        return both or _reads(module, part.test)
    if isinstance(part, ast.IfExp):
        return _reads(module, part.test)
    if isinstance(part, (ast.Lambda, ast.FunctionDef)):
        return False
    return any(_reads(module, each) for each in ast.iter_child_nodes(part))


def _by_method(module: Module, loop: Loop) -> Iterator[ast.Call]:
    """The calls that hand the batch to a method which moves it and runs the model."""
    if not _BATCHES.search(module.source(loop.node.iter)):
        return
    for call, _ in loop.calls:
        if (
            isinstance(call.func, ast.Attribute)
            and _EVALUATES.fullmatch(call.func.attr)
            and not _OTHERS.search(word(call.func.value))
            and not _is_others(module, call)
        ):
            yield call


def _is_model(module: Module, call: ast.Call) -> bool:
    if _is_others(module, call) or _OTHERS.search(word(call.func)):
        return False
    return isinstance(call.func, ast.Name) or word(call.func) in ("model", "net", "forward", "module")  # fmt: skip


def _is_others(module: Module, call: ast.Call) -> bool:
    return foreign(module, call.func) or module.qualified(call.func) is not None


class _Evaluation:
    """What of a file runs without gradients. Most loops do not, and are not looked at further."""

    def __init__(self, module: Module) -> None:
        self._module = module
        index = module.index
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [
            *index.statements(ast.FunctionDef),
            *index.statements(ast.AsyncFunctionDef),
        ]
        regions = [each for each in index.statements(ast.With) if self._is_region(each)]
        #: What holds such a region, the whole of it.
        self._holding = {above for region in regions for above in module.ancestors(region)}
        self._regions: set[ast.AST] = {
            *regions,
            *filter(self._is_region, index.statements(ast.AsyncWith)),
            *filter(self._is_region, functions),
        }
        methods = {f.name for f in functions if self._is_without(f)} if self._regions else ()
        self._calling = _around(module, methods)

    def __bool__(self) -> bool:
        return bool(self._regions)

    def may_be(self, loop: ast.For | ast.While) -> bool:
        """Is the loop without gradients, or may it call a method that is?"""
        return self._is_without(loop) or loop in self._calling

    def runs(self, loop: ast.For | ast.While, call: ast.Call) -> bool:
        """Is the loop without gradients, or what it calls?"""
        if self._is_without(loop):
            return True
        method = own_method(self._module, call.func)
        return method is not None and self._is_without(method)

    def _is_without(self, node: ast.stmt) -> bool:
        """Is it under ``with torch.no_grad():``, in a function so decorated, or does it hold such a region?"""
        regions = self._regions
        return (
            node in regions
            or node in self._holding
            or any(above in regions for above in self._module.ancestors(node))
        )

    def _is_region(self, node: ast.stmt) -> bool:
        around: list[ast.expr] = []
        if isinstance(node, (ast.With, ast.AsyncWith)):
            around = [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            around = node.decorator_list
        named = (each.func if isinstance(each, ast.Call) else each for each in around)
        return any(self._module.qualified(each) in _NO_GRADIENTS for each in named)


def _around(module: Module, words: Iterable[str]) -> set[ast.AST]:
    """What holds an attribute of one of these names."""
    named = (each for name in words for each in module.index.attributes(name))
    return {above for each in named for above in module.ancestors(each)}
