"""CUDA autocast becomes autocast on hpu, in bfloat16."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Change, Import, Rename, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.autocast import CUDA_ONLY, GENERIC, AutocastSite, site
from ..analysis.verdict import ask
from ..edits import neutral
from ..edits.arguments import add, by_keyword, with_arguments
from ..edits.imports import root, through, torch
from ..edits.spelling import agnostic, and_not_cpu, device_type, half, retext
from ..values.beside import kind_beside
from ..values.checks import Regions

#: The parameters that may be given by position to the CUDA-only spelling, in order.
_POSITIONAL = ("enabled", "dtype", "cache_enabled")


class CudaAutocast(Rule):
    """``torch.cuda.amp.autocast`` and ``torch.autocast("cuda")``."""

    HPU201 = Code("cuda-amp-autocast", severity="error", fix=("safe", "unsafe", "manual"))
    HPU202 = Code("autocast-device-cuda", severity="error", fix=("safe", "manual"))
    wants = Wants(names=(*sorted(CUDA_ONLY), *sorted(GENERIC)))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        found = site(module, node)
        if found is None:
            if _is_handed_on(module, node):
                yield self._handed_on(module, node)
        elif found.generic:
            yield from self._generic(module, found)
        else:
            yield self._cuda(module, found)

    # -- torch.cuda.amp.autocast ------------------------------------------------------------

    def _cuda(self, module: Module, found: AutocastSite) -> Found:
        answer = ask(module, "torch.cuda.amp.autocast")
        message = (
            f"`{module.source(found.func)}` runs CUDA operators in float16; use "
            '`torch.autocast(device_type="hpu")` with bfloat16'
        )
        seen = not any(isinstance(arg, ast.Starred) for arg in found.args)
        if not seen or len(found.args) > len(_POSITIONAL) or not answer.fixable:
            return self.finding(found.func, message, row=answer.row)
        changes = (
            _renamed(module, found.func),
            *self._arguments(module, found),
        )
        fix = Rewrite("autocast to bfloat16 on hpu", answer.safety, changes, harmless=True)
        return self.finding(found.func, message, fix=fix, row=answer.row)

    def _arguments(self, module: Module, found: AutocastSite) -> tuple[Change, ...]:
        """In front the device and the dtype, and keywords for what was positional."""
        given = {keyword.arg for keyword in found.call.keywords}
        kind = kind_beside(module, found.call)
        front = f"device_type={kind}"
        if agnostic(module):
            return self._neutral(module, found, front, kind)
        needed: tuple[Import, ...] = ()
        if "dtype" not in given and None not in given and len(found.args) < 2 and not found.is_off:
            bfloat16, needed = half(module, found.call)
            front += f", dtype={bfloat16}"
        return (_spelled(found, front), *needed)

    def _neutral(
        self, module: Module, found: AutocastSite, front: str, kind: str
    ) -> tuple[Change, ...]:
        """The dtype is left to the device: float16 on CUDA, bfloat16 elsewhere. On the CPU autocast stays off."""
        return (*_enabled(module, found, kind), _spelled(found, front))

    def _handed_on(self, module: Module, node: ast.expr) -> Found:
        """The class itself as a value: a ``partial`` of the general one replaces it."""
        answer = ask(module, "torch.cuda.amp.autocast")
        name, needed = torch(module, node, "autocast")
        bfloat16, _ = half(module, node)
        partial, imported = through(module, node, "functools.partial")
        device = f"device_type={device_type(module, node)}"
        new = f"{partial}({name}, {device}, dtype={bfloat16})"
        if agnostic(module):
            new = neutral.NONE  # it would be on for the CPU as well
        changes: tuple[Change, ...] = (Replace(node, new), *needed, *imported)
        safety = answer.safety if _is_called_plainly(module, node) else "unsafe"
        return self.finding(
            node,
            f"`{module.source(node)}` is passed as a value, and has no effect on Gaudi; use a "
            "`partial` of `torch.autocast`",
            fix=Rewrite("pass autocast for hpu", safety, changes, harmless=True)
            if answer.fixable
            else None,
            row=answer.row,
        )

    # -- torch.autocast("cuda") -------------------------------------------------------------

    def _generic(self, module: Module, found: AutocastSite) -> Yield:
        device = found.device
        if device is None or module.constant(device) not in ("cuda", "cuda:0"):
            return
        answer = ask(module, "torch.autocast")
        changes: list[Change] = [retext(module, device, "hpu")]
        if agnostic(module):
            kind = kind_beside(module, found.call)
            changes = [Replace(device, kind), *_enabled(module, found, kind)]
        given = {keyword.arg for keyword in found.call.keywords}
        needs = len(found.args) < 2 and not given & {"dtype", None} and not found.is_off
        if needs and not agnostic(module):
            bfloat16, needed = half(module, found.call)
            changes += [add(found.call, f"dtype={bfloat16}", behind=device), *needed]
        yield self.finding(
            device,
            "autocast for `cuda` has no effect on Gaudi; use `hpu` and bfloat16",
            fix=Rewrite("autocast to bfloat16 on hpu", answer.safety, tuple(changes)),
            row=answer.row,
            code="HPU202",
            claims=(device,),
        )


def _enabled(module: Module, found: AutocastSite, kind: str) -> tuple[Change, ...]:
    """Autocast for CUDA is off on the CPU, and stays off there."""
    if found.is_off or module.view(Regions).owners(found.call):
        return ()
    given = found.enabled
    text = and_not_cpu(module, given, kind)
    if given is not None:
        return (Replace(given, text),)
    if any(keyword.arg is None for keyword in found.call.keywords):
        return ()
    return (add(found.call, f"enabled={text}"),)


def _spelled(found: AutocastSite, front: str) -> Replace:
    """``front`` before all arguments, and keywords for what was positional."""
    lead = 0 if found.func is found.call.func else 1  # partial(autocast, …)
    count = len(found.args)

    def spelled(node: Any) -> Any:
        old = list(node.args)
        for place, name in zip(range(lead, lead + count), _POSITIONAL, strict=False):
            old[place] = by_keyword(old[place], name)
        node = node.with_changes(args=old[lead:])
        if not lead:
            return with_arguments(node, front, first=True)
        if not old[lead:]:
            return with_arguments(node.with_changes(args=old), front)
        node = with_arguments(node, front, first=True)
        return node.with_changes(args=[old[0], *node.args])

    return Replace(found.call, spelled, front)


def _renamed(module: Module, func: ast.expr) -> Rename:
    """``torch.autocast`` is what people write; an imported name can only come from torch.amp."""
    first = root(func)
    if "torch" in module.possible_names(first):
        return Rename(func, "torch.autocast")
    short = "torch.autocast" if isinstance(func, ast.Name) else ""
    return Rename(func, "torch.amp.autocast", short=short)


def _is_handed_on(module: Module, node: ast.expr) -> bool:
    """Is the CUDA-only class a value here: assigned, chosen, a default, an argument?"""
    if not module.possible_names(node) <= CUDA_ONLY:
        return False
    parent = module.parent(node)
    if isinstance(parent, (ast.Attribute, ast.Compare, ast.ClassDef)):
        return False
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    if isinstance(parent, ast.Call) and module.qualified(parent.func) == "builtins.isinstance":
        return False
    if _is_alias(module, node, parent):
        return False
    first = root(node)
    bound = module.bindings(first) if first is not None else []
    return all(b.kind == "import" for b in bound)


def _is_alias(module: Module, node: ast.expr, parent: ast.AST | None) -> bool:
    """``autocast = torch.cuda.amp.autocast``: its calls are rewritten as calls of the class."""
    return (
        isinstance(parent, ast.Assign)
        and parent.value is node
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
        and len(module.bindings(parent.targets[0])) == 1
    )


def _is_called_plainly(module: Module, node: ast.expr) -> bool:
    """Is the value only bound to a name that the file calls without positional arguments?"""
    above = module.parent(node)
    while isinstance(above, (ast.IfExp, ast.BoolOp)):
        above = module.parent(above)
    if not isinstance(above, ast.Assign) or len(above.targets) != 1:
        return False
    target = above.targets[0]
    if not isinstance(target, ast.Name):
        return False
    bound = module.bindings(target)
    for use in module.index.names(target.id):
        if isinstance(use.ctx, ast.Load) and module.bindings(use) is bound:
            call = module.parent(use)
            if not (isinstance(call, ast.Call) and call.func is use and not call.args):
                return False
    return True
