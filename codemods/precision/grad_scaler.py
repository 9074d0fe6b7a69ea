"""Loss scaling goes: bfloat16 has the exponent range of float32, so nothing underflows."""

from __future__ import annotations

import ast
import re
from typing import Any

from hpushim.engine.python.changes import Change, Remove, Rename, Replace, Rewrite
from hpushim.engine.rules.references import find
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.places import last_name

from ..analysis import autocast
from ..analysis.autocast import site
from ..analysis.devices import may_be_cuda
from ..analysis.names import called
from ..analysis.scalers import (
    CUDA_ONLY,
    GENERIC,
    SHARDED,
    Scaler,
    creates,
    device_of,
    enabled_by,
    is_generic,
    scaler_of,
)
from ..analysis.verdict import ask
from ..edits import neutral
from ..edits.arguments import add, argument, arguments, call_of, only, unwrapped
from ..edits.imports import torch
from ..edits.spelling import (
    ACCELERATOR,
    ELSEWHERE,
    agnostic,
    and_not_cpu,
    chosen,
    device_type,
    grouped,
    quoted,
    shared,
)
from ..values.checks import Regions

#: What a scaler's method does without loss scaling, and what to write.
_WITHOUT = {
    "scale": "returns the loss unchanged without loss scaling; use the loss itself",
    "step": "only calls the optimizer's `step()` where there is no loss scaling; call `step()` directly",
}
_IDLE = "has no effect without loss scaling; remove the call"
_ROW = "torch.cuda.amp.GradScaler"
_NEW = "torch.amp.GradScaler"
_DTYPE = re.compile(r"float16|dtype|precision")
_FLOAT16 = re.compile(r"(?<!b)float16|fp16|half")


class GradScaler(Rule):
    """The creation of a scaler, and with it its calls."""

    HPU204 = Code("grad-scaler", fix=("safe", "unsafe", "manual"), effect="numbers")
    HPU205 = Code("grad-scaler-call", fix="safe")
    HPU310 = Code("sharded-grad-scaler", fix="safe", effect="numbers")
    wants = Wants(names=tuple(sorted(CUDA_ONLY | GENERIC | SHARDED)))

    def __init__(self) -> None:
        self._reported: set[ast.Call] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if call is None:
            above = module.parent(node)
            if isinstance(above, ast.ClassDef) and node in above.bases:
                yield self._built_on(module, node, above)
            elif module.possible_names(node) <= CUDA_ONLY:
                yield self._mentioned(module, node)
        elif call not in self._reported and creates(module, call):
            scaler = scaler_of(module, call)
            self._reported.update(scaler.creations)
            sure = all(_is_for_cuda(module, creation) for creation in scaler.creations)
            if scaler.uses and sure:
                yield from self._removed(module, scaler)
            else:
                yield from self._kept(module, scaler, sure)

    # -- a scaler that goes -----------------------------------------------------------------

    def _removed(self, module: Module, scaler: Scaler) -> Yield:
        answer = ask(module, _ROW)
        group = f"scaler:{scaler.creations[0].lineno}"
        for call in scaler.creations:
            gone = Remove(module.statement(call))
            yield self.finding(
                call,
                f"`{_shown(module, call)}` scales the loss for float16; bfloat16 on Gaudi needs no "
                "loss scaling, and results differ slightly",
                fix=Rewrite("remove loss scaling", answer.safety, (gone,), group),
                row=answer.row,
                claims=(call,),
            )
        for use in scaler.uses:
            yield self.finding(
                use,
                f"`{module.source(use.func)}` {_WITHOUT.get(last_name(use.func), _IDLE)}",
                fix=Rewrite("remove loss scaling", answer.safety, (_unscaled(module, use),), group),
                row=answer.row,
                code="HPU205",
            )

    # -- a scaler that stays ----------------------------------------------------------------

    def _kept(self, module: Module, scaler: Scaler, sure: bool) -> Yield:
        """A scaler for a device that nothing in the file ties to CUDA may be right as it is."""
        answer = ask(module, _ROW)
        safety = answer.safety if sure else "unsafe"
        for call in scaler.creations:
            sharded = bool(module.possible_names(call.func) & SHARDED)
            device = None if sharded else device_of(module, call)
            if agnostic(module) and device is not None and module.constant(device) is None:
                continue  # for whatever device that is
            changes = _switched_off(module, call, sharded)
            fix = Rewrite("disable loss scaling", safety, changes, harmless=True)
            yield self.finding(
                call,
                f"`{_shown(module, call)}` scales the loss for float16; bfloat16 on Gaudi needs no "
                "loss scaling: pass `enabled=False`",
                fix=fix if answer.fixable else None,
                row=answer.row,
                code="HPU310" if sharded else "HPU204",
                claims=_gone(module, call, sharded) if answer.fixable else (),
            )

    def _built_on(self, module: Module, node: ast.expr, own: ast.ClassDef) -> Found:
        return self.finding(
            node,
            f"`{own.name}` scales the loss for float16 as `{module.source(node)}` does; bfloat16 on Gaudi needs none: "
            'pass `device="hpu", enabled=False` to its `__init__`',
            row=ask(module, _ROW).row,
        )

    def _mentioned(self, module: Module, node: ast.expr) -> Found:
        """The class itself: in an annotation or a type test it may be the general one."""
        shown = module.source(node)
        if _is_type_test(module, node) or _in_annotation(module, node):
            return self.finding(
                node,
                f"`{shown}` works on CUDA only; use `torch.amp.GradScaler`",
                fix=Rewrite("use the general class", "safe", (Rename(node, _NEW),), harmless=True),
            )
        return self.finding(
            node,
            f"`{shown}` is passed as a value; bfloat16 needs no loss scaling: pass "
            '`torch.amp.GradScaler("hpu", enabled=False)`',
        )


def _is_for_cuda(module: Module, call: ast.Call) -> bool:
    """Also a worked out device is, beside a scaler for CUDA alone, as where old torch lacks the general one."""
    device = device_of(module, call)
    if device is None or may_be_cuda(module, device):
        return True
    return any(True for _ in find(module, *sorted(CUDA_ONLY)))


def _shown(module: Module, call: ast.Call) -> str:
    return f"{module.source(call.func)}()"


def _gone(module: Module, call: ast.Call, sharded: bool) -> tuple[ast.AST, ...]:
    """What of the call is written anew: all of it, or all but a device that is worked out."""
    kept = None if sharded else device_of(module, call)
    if kept is None:
        return (call,)
    return tuple(a for a in (*call.args, *call.keywords) if kept not in (a, getattr(a, "value", a)))


def _switched_off(module: Module, call: ast.Call, sharded: bool) -> tuple[Change, ...]:
    if shared(module):
        return _off_on_gaudi(module, call, sharded)
    if sharded:
        return (only(call, "enabled=False"),)
    device = device_of(module, call)
    if device is not None:
        place = next((n for n, arg in enumerate(call.args) if arg is device), None)
        return (Replace(call, lambda node: _disabled(node, place)),)
    general = isinstance(call.func, ast.Name) and not module.possible_names(call.func) & CUDA_ONLY
    renamed = () if general else (Rename(call.func, _NEW),)
    return (*renamed, only(call, f"{quoted(module, 'hpu')}, enabled=False"))


def _off_on_gaudi(module: Module, call: ast.Call, sharded: bool) -> tuple[Change, ...]:
    """The scaler of CUDA, with all that it is given, which is off on Gaudi."""
    if agnostic(module):
        return _neutral(module, call, sharded)
    enabled = enabled_by(module, call)
    off: Change
    if enabled is None:
        off = add(call, f"enabled={ELSEWHERE}")
    elif module.constant(enabled) is True:
        off = Replace(enabled, ELSEWHERE)
    else:
        off = Replace(enabled, chosen(module, enabled, "False"))
    if sharded:
        return (off,)
    device = argument(call, "device", 0) if is_generic(module, call) else None
    if device is not None:
        return (Rename(call.func, _NEW), off, Replace(device, ACCELERATOR))
    return (Rename(call.func, _NEW), off, add(call, ACCELERATOR, first=True))


def _neutral(module: Module, call: ast.Call, sharded: bool) -> tuple[Change, ...]:
    """A scaler of the device, which is on where autocast computes in float16, and off on the CPU as before."""
    device = argument(call, "device", 0) if is_generic(module, call) else None
    names = module.possible_names(call.func)
    either = not (names <= CUDA_ONLY or names <= GENERIC)
    if sharded or either or (device is not None and module.constant(device) != "cuda"):
        return (Replace(call.func, neutral.NONE),)
    kind = device_type(module, call)
    enabled = enabled_by(module, call)
    half = any(_FLOAT16.search(module.source(k.value)) for k in module.index.keywords("dtype"))
    says = enabled is not None and _FLOAT16.search(module.source(enabled)) and not module.view(_takes_default)  # fmt: skip
    if half or _is_decided(module, call) or says:
        text = and_not_cpu(module, enabled, kind)
    else:
        dtype_of, _ = torch(module, call, "get_autocast_dtype")
        float16, _ = torch(module, call, "float16")
        text = f"{dtype_of}({_of_autocast(module, call, kind)}) == {float16}"
        if enabled is not None and module.constant(enabled) is not True:
            text = f"{grouped(module, enabled)} and {text}"
    off = add(call, f"enabled={text}") if enabled is None else Replace(enabled, text)
    if enabled is not None and module.constant(enabled) is False:
        off = Replace(enabled, "False")
    named = Replace(device, kind) if device is not None else add(call, kind, first=True)
    return (Rename(call.func, _NEW), off, named)


def _of_autocast(module: Module, call: ast.Call, kind: str) -> str:
    """What the function gives its autocast for a device of this type: ``device.type if device.type != "mps" else "cpu"``."""
    given = {
        module.source(type_)
        for each in module.index.calls("autocast")
        if module.function(each) is module.function(call)
        if (type_ := argument(each, "device_type", 0)) is not None
    }
    only = given.pop() if len(given) == 1 else kind
    return only if kind in only else kind


def _takes_default(module: Module) -> bool:
    """Does an autocast of the file name no dtype, so that each device takes its own, whatever the switch is called?"""
    sites = (
        site(module, node)
        for node, _ in find(module, *sorted(autocast.CUDA_ONLY | autocast.GENERIC))
    )
    return any(one is not None and one.dtype is None for one in sites)


def _is_decided(module: Module, call: ast.Call) -> bool:
    """Is the scaler made only where the program says so, by its own knowledge of the dtype?"""
    tests = [a.test for a in module.ancestors(call) if isinstance(a, (ast.If, ast.IfExp))]
    known = any(_DTYPE.search(module.source(test)) for test in tests)
    return known and not module.view(Regions).owners(call)


def _keyword(given: Any) -> str:
    return given.keyword.value if given.keyword is not None else ""


def _disabled(node: Any, place: int | None) -> Any:
    """A libcst call of a scaler with its device, given at a place or by keyword, and ``enabled=False``."""
    import libcst as cst

    kept = next(
        given
        for n, given in enumerate(node.args)
        if (n == place if place is not None else _keyword(given) == "device")
    )
    space = cst.SimpleWhitespace(" ")
    kept = kept.with_changes(
        comma=cst.Comma(whitespace_after=space), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    return node.with_changes(
        args=[kept, *arguments("enabled=False")], whitespace_before_args=cst.SimpleWhitespace("")
    )


def _unscaled(module: Module, use: ast.Call) -> Change:
    """``scaler.scale(loss)`` becomes ``loss``, ``scaler.step(opt, …)`` becomes ``opt.step(…)``, the others go."""
    assert isinstance(use.func, ast.Attribute)
    match use.func.attr:
        case "scale":
            return Replace(use, _argument)
        case "step":
            return Replace(use, _step_of_argument)
    return Remove(module.statement(use))


def _argument(node: Any) -> Any:
    return unwrapped(node, node.args[0].value)


def _step_of_argument(node: Any) -> Any:
    step = call_of(node.args[0].value, ".step()")
    rest = node.args[1:]
    return unwrapped(node, step.with_changes(args=rest) if rest else step)


def _is_type_test(module: Module, node: ast.expr) -> bool:
    parent = module.parent(node)
    return isinstance(parent, ast.Call) and module.qualified(parent.func) == "builtins.isinstance"


def _in_annotation(module: Module, node: ast.AST) -> bool:
    for child, above in module.upwards(node):
        if isinstance(above, (ast.arg, ast.AnnAssign)) and above.annotation is child:
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and above.returns is child:
            return True
        if isinstance(above, ast.stmt):
            return False
    return False
