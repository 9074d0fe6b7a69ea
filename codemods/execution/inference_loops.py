"""Loops that only compute: in lazy mode their steps are collected until something reads a result."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.pycode.walk import walk

from ..analysis.batches import Loop, loops
from ..analysis.names import foreign, word
from ..analysis.placement import is_on_device
from ..values.training import own_method

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_SAMPLES = re.compile(r"sample|denois|^(model|net|unet|forward|generate|decoder?)(_|$)", re.I)
#: Methods that run a model on the batch that they are handed.
_EVALUATES = re.compile(
    r"_?(model|net|module|forward\w*|generate|predict\w*|infer(ence)?(_\w+)?|encode\w*|decode\w*|embed\w*|"
    r"(eval\w*|test|val(id\w*)?|predict\w*|inference)_(step|batch|one_batch|iter\w*))"
)
_TEXT = re.compile(r"token|process|extractor|codec$", re.I)
_BATCHES = re.compile(r"loader|batches|_dl$|^dl$|data_iter", re.I)
#: Methods that bring a value to the host, and so run what was collected.
_READS = frozenset(["item", "cpu", "tolist", "numpy"])
_NO_GRADIENTS = ("torch.no_grad", "torch.inference_mode")
_TRAINS = frozenset(["backward", "mark_step", "manual_backward", "grad"])


class InferenceLoop(Rule):
    """``for x in loader: model(x.cuda())`` without gradients."""

    HPU505 = Code("inference-loop-without-mark-step", severity="info", effect="speed")
    also = Wants(texts=("no_grad", "inference_mode"), beside=(".cuda(", ".to(", "device"))

    def on_module(self, module: Module) -> Yield:
        if module.target.mode not in ("portable", "lazy"):
            return
        told: set[ast.Call] = set()
        for loop in module.view(loops):
            node = loop.node
            called = [call for call, _ in loop.calls if _is_model(module, call)]
            if not called or not loop.always:
                called = [*_by_method(module, loop), *_feeding(node)]
            if not called or _trains(node) or not _is_evaluation(module, node, called[0]):
                continue
            if called[0] in told or _reads_always(node):
                continue  # seen in the loop around this one; or the read runs what was collected
            told.add(called[0])
            yield self.finding(
                module,
                called[0],
                f"in lazy mode what `{module.source(called[0].func)}` does here is collected until a result is read; "
                "call `htcore.mark_step()` after it where the loop keeps results on the device",
            )


def _reads_always(loop: ast.For) -> bool:
    """Does each turn of the loop, or of one inside, read a value to the host: ``losses.update(loss.item())``?"""
    parts: list[ast.AST] = list(loop.body)
    while parts:
        part = parts.pop()
        if (
            isinstance(part, ast.Call)
            and word(part.func) in _READS
            and isinstance(part.func, ast.Attribute)
        ):
            return True
        if isinstance(part, (ast.If, ast.IfExp)):
            parts.append(part.test)  # what is read now and then leaves the other turns collected
        elif not isinstance(part, (ast.Lambda, ast.FunctionDef)):
            parts += ast.iter_child_nodes(part)
    return False


def _feeding(loop: ast.For) -> Iterator[ast.Call]:
    """The calls of a sampling loop: ``x = self.p_sample(x, t)``, which take what the loop has made."""
    calls = [
        part.value
        for part in walk(loop)
        if isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Call)
        and isinstance(part.value.func, (ast.Name, ast.Attribute))
        and _SAMPLES.search(word(part.value.func))
    ]
    if not calls:
        return
    made = {
        part.id
        for part in walk(loop)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    } - {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    for call in calls:
        if {arg.id for arg in call.args if isinstance(arg, ast.Name)} & made:
            yield call


def _by_method(module: Module, loop: Loop) -> Iterator[ast.Call]:
    """The calls that hand the batch to a method which moves it and runs the model."""
    if not _BATCHES.search(module.source(loop.node.iter)) or not is_on_device(module):
        return
    for call, _ in loop.calls:
        if (
            isinstance(call.func, ast.Attribute)
            and _EVALUATES.fullmatch(call.func.attr)
            and not _TEXT.search(word(call.func.value))
            and not _is_others(module, call)
        ):
            yield call


def _is_model(module: Module, call: ast.Call) -> bool:
    named = word(call.func) in ("model", "net", "forward", "module")
    return not _is_others(module, call) and (isinstance(call.func, ast.Name) or named)


def _is_others(module: Module, call: ast.Call) -> bool:
    return foreign(module, call.func) or module.qualified(call.func) is not None


def _is_evaluation(module: Module, loop: ast.AST, call: ast.Call) -> bool:
    """Is the loop without gradients, or what it calls?"""
    if _without_gradients(module, loop):
        return True
    method = own_method(module, call.func)
    return method is not None and (
        any(_is_region(module, each) for each in method.decorator_list)
        or _without_gradients(module, method)
    )


def _trains(loop: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in _TRAINS for part in walk(loop))


def _without_gradients(module: Module, node: ast.AST) -> bool:
    """Is the loop under ``with torch.no_grad():``, in a function so decorated, or does it hold such a region?"""
    for above in module.ancestors(node):
        around: list[ast.expr] = []
        if isinstance(above, (ast.With, ast.AsyncWith)):
            around = [item.context_expr for item in above.items]
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            around = above.decorator_list
        if any(_is_region(module, expression) for expression in around):
            return True
    return any(
        isinstance(part, ast.With) and any(_is_region(module, i.context_expr) for i in part.items)
        for part in walk(node)
    )


def _is_region(module: Module, node: ast.expr) -> bool:
    return module.qualified(node.func if isinstance(node, ast.Call) else node) in _NO_GRADIENTS
