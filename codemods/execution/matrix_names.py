"""Names that need no rewriting rule of their own: the matrix says what Gaudi does with them."""

from __future__ import annotations

import ast

from hpushim.engine.base.code import Code
from hpushim.engine.python.changes import Remove, Replace, Rewrite
from hpushim.engine.python.module import Module
from hpushim.engine.rules.rule import Wants, Yield
from hpushim.matrix import Row
from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words, enclosing_class, is_in_module, said
from ..analysis.load_places import is_host
from ..analysis.names import called, word
from ..analysis.placement import DEVICES, is_on_device, reaches_a_device
from ..analysis.project_facts import GROUP_MAKERS
from ..analysis.training_facts import STEP_CALLS
from ..bases.row_argument import by_row
from ..bases.row_name import RowNameRule
from ..edits.arguments import argument
from ..values.changing import SCHEDULES, changes_each_step
from ..values.tensors import stays_on_host
from ..values.training import runs_in_step, runs_once

_SCRIPT = "torch.jit.script"
_GLOO_ONLY = "torch.distributed.monitored_barrier"
_START = "torch.multiprocessing.set_start_method"
#: What starts processes of any kind.
_PROCESSES = ("os.fork", "multiprocessing.Process", "torch.multiprocessing.Process")
_GROUP = "torch.distributed.init_process_group"
_LOAD = "torch.utils.cpp_extension.load"
_PLAIN = "setuptools.Extension"
_CUDA_EXTENSION = "torch.utils.cpp_extension.CUDAExtension"


#: A number that is a part of the compiled graph, and what takes one: the option, and how many arguments there are where it is the first.
_NUMBERS = "numbers given to operators"
_TAKE_NUMBERS = {"add_": ("alpha", 2), "sub_": ("alpha", 2), "addcdiv_": ("value", 3), "addcmul_": ("value", 3)}  # fmt: skip


class MatrixName(RowNameRule):
    """A use of a name whose row carries one of these codes."""

    wants = Wants(
        calls=tuple(_TAKE_NUMBERS), project=(*DEVICES, *SCHEDULES), facts=(GROUP_MAKERS, STEP_CALLS)
    )

    HPU512 = Code(
        "torchscript-or-export",
        severity="error",
        fix=("unsafe", "manual"),
        effort="hours",
        effect="speed",
    )
    HPU210 = Code("tf32-switch", severity="error", effect="numbers", lower=by_row("note"))
    HPU212 = Code(
        "apex-amp", severity="error", effort="hours", effect="numbers", lower=by_row("warning")
    )
    HPU216 = Code("eight-bit-optimizer", severity="error", effort="hours", effect="numbers")
    HPU307 = Code("ddp-buckets", effect="speed")
    HPU313 = Code("collective-limit", severity="error", lower=by_row("warning", "note"))
    HPU316 = Code("process-start")
    HPU318 = Code("sync-batch-norm", severity="error", lower=by_row("note"))
    HPU319 = Code("deepspeed-accelerator", effort="hours")
    HPU504 = Code("optimizer-with-closure", severity="note", effect="speed")
    HPU514 = Code("dynamic-shape", effect="speed")
    HPU516 = Code("in-place-on-view", severity="error", lower=by_row("warning", "note"))
    HPU517 = Code("unused-parameters", effect="speed")
    HPU519 = Code("memory-layout", effect="speed")
    HPU521 = Code(
        "without-kernel-of-its-own",
        severity="error",
        effect="speed",
        lower=by_row("warning"),
    )
    HPU602 = Code(
        "apex-optimizer",
        severity="error",
        effort="hours",
        effect="speed",
        lower=by_row("warning"),
    )
    HPU603 = Code("clip-grad-norm", effect="numbers")
    HPU604 = Code("foreach-option", severity="error", fix=("safe", "manual"), effect="speed", lower=by_row("warning"))  # fmt: skip
    HPU614 = Code("device-checkpoint")
    HPU711 = Code(
        "cuda-extension", severity="error", effort="none", effect="kernel", lower=by_row("warning")
    )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``p.addcdiv_(-step_size, mean, denominator)`` in an optimizer of the project, ``ema.add_(p, alpha=1 - decay)`` in a step."""
        row = module.matrix.row(_NUMBERS)
        if row is not None and module.target.mode != "lazy" and word(node.func) in _TAKE_NUMBERS and _changes_in_steps(module, node):  # fmt: skip
            self._uses.append((node, row))
        return ()

    def rewrite(self, module: Module, node: ast.expr, row: Row) -> Rewrite | None:
        """``@torch.jit.script`` and ``torch.jit.script(function)`` go: Python runs the function itself."""
        above = module.parent(node)
        if row.name != _SCRIPT:
            return None
        if isinstance(above, ast.FunctionDef) and node in above.decorator_list:
            return Rewrite("drop the decorator", "unsafe", (Remove(node),))
        if isinstance(above, ast.Call) and above.func is node and _is_function(module, above):
            function = module.source(above.args[0])
            return Rewrite("call the function itself", "unsafe", (Replace(above, function),))
        return None

    def nearer(self, module: Module, node: ast.expr, row: Row) -> Row | None:
        """``load("ops", sources=["ops.cpp", "ops.cu"])`` builds what cannot be built; what stays on the host has any size."""
        if row.rule == "HPU514" and not (is_in_module(module, node) or module.view(is_on_device)):
            return None
        call = called(module, node)
        if (
            row.name == _GLOO_ONLY
            and call
            and (call.args or any(k.arg == "group" for k in call.keywords))
        ):
            return None  # a group that it worked with on CUDA is one of gloo
        if row.name == _START and call and _starts_anew(module, argument(call, "method", 0)):
            return None
        if module.qualified(node) in _PROCESSES and not _starts_ranks(module, call):
            return None
        if row.rule == "HPU512" and call and call.args and (_is_on_cpu(module, call) or _loads_to_cpu(module, call)):  # fmt: skip
            return None
        if row.rule == "HPU514" and runs_once(module, node):
            return None
        if row.rule == "HPU514" and call and call.args and stays_on_host(module, call.args[0]):
            return None
        if row.name not in (_LOAD, _PLAIN) or call is None or not _builds_cuda(module, call):
            return row if row.name != _PLAIN else None
        return module.matrix.row(_CUDA_EXTENSION) or row


def _changes_in_steps(module: Module, call: ast.Call) -> bool:
    """Is a method, in a step or in an optimizer's own, given a number that is another one each time?"""
    option, count = _TAKE_NUMBERS[word(call.func)]
    given = [k.value for k in call.keywords if k.arg == option]
    given += call.args[:1] if len(call.args) == count else []
    owner = enclosing_class(module, call) if given and reaches_a_device(module) else None
    steps = owner is not None and any(base.endswith("Optimizer") for base in base_words(module, owner.name))  # fmt: skip
    return any(changes_each_step(module, each) for each in given) and (steps or runs_in_step(module, call))  # fmt: skip


def _is_on_cpu(module: Module, call: ast.Call) -> bool:
    """Was the first argument last moved to the CPU: ``model.cpu()``, or ``model.to("cpu")`` as a statement before?"""
    exported = call.args[0]
    shown, function = module.source(exported), module.function(call)
    moves = [
        each
        for method in ("to", "cpu", "cuda")
        for each in module.index.calls(method)
        if isinstance(each.func, ast.Attribute)
        and (
            each is exported
            or (
                module.source(each.func.value) == shown
                and module.function(each) is function
                and each.lineno < call.lineno
            )
        )
    ]
    last = max(moves, key=lambda each: each.lineno, default=None)
    return last is not None and (
        word(last.func) == "cpu" or is_host(module, argument(last, "device", 0))
    )


def _loads_to_cpu(module: Module, call: ast.Call) -> bool:
    """``torch.jit.load(path, map_location="cpu")``, or so by the default of a parameter: ``device if jit else "cpu"`` with ``jit=False``."""
    place = argument(call, "map_location", 1) if word(call.func) == "load" else None
    if isinstance(place, ast.IfExp) and isinstance(place.test, ast.Name):
        given = [binding.value for binding in module.bindings(place.test)]
        off = bool(given) and all(isinstance(v, ast.Constant) and not v.value for v in given)
        place = place.orelse if off else None
    return place is not None and is_host(module, place)


def _starts_anew(module: Module, method: ast.expr | None) -> bool:
    """Is it another start method than a fork: ``"spawn"``, ``"forkserver"``?"""
    words = [module.constant(value) for value in module.values(method)] if method else []
    return bool(words) and all(isinstance(each, str) and each != "fork" for each in words)


def _starts_ranks(module: Module, call: ast.Call | None) -> bool:
    """Do the processes of the file, or what a call starts, form a group: each would take a device?"""
    target = argument(call, "target", 1) if call is not None else None
    if target is not None and word(target) in said(module, GROUP_MAKERS):
        return True
    return any(module.qualified(call.func) == _GROUP for call in module.index.calls("init_process_group"))  # fmt: skip


def _is_function(module: Module, call: ast.Call) -> bool:
    """Is a call given the name of a function of the file, and nothing else?"""
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    found = module.bindings(given) if isinstance(given, ast.Name) else []
    return bool(found) and all(isinstance(one.node, ast.FunctionDef) for one in found)


def _builds_cuda(module: Module, call: ast.Call) -> bool:
    """Is a source of CUDA among what a call is given, as far as the file shows?"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(keyword.arg == "cuda_sources" for keyword in call.keywords):
        return True
    return any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and (part.value.endswith(".cu") or part.value == "nvcc")
        for each in given
        for value in module.values(each)
        for part in walk(value)
    )
