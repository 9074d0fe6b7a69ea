"""CUDA autocast becomes autocast on hpu, in bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix

from . import _imports
from ._arguments import argument
from ._claims import claim, kept_whole
from ._strings import quoted, retext
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

CUDA_ONLY = frozenset(
    {
        "torch.cuda.amp.autocast",
        "torch.cuda.amp.autocast_mode.autocast",
        "torch.cuda.amp.common.autocast",
    }
)
GENERIC = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})
_PARTIAL = frozenset({"functools.partial", "functools.partialmethod"})
#: The parameters that may be given by position to the CUDA-only spelling, in order.
_POSITIONAL = ("enabled", "dtype", "cache_enabled")


@dataclass(slots=True)
class _Site:
    """One call of autocast, or one ``partial`` of it: ``args`` are what autocast itself gets."""

    call: ast.Call
    func: ast.expr
    args: list[ast.expr]
    generic: bool


def site(module: Module, call: ast.Call) -> _Site | None:
    """The use of autocast that ``call`` is, if it is one."""
    for func, args in ((call.func, call.args), _through_partial(module, call)):
        if func is None:
            continue
        names = module.possible_names(func)
        if names and names <= CUDA_ONLY | GENERIC:
            # A name that is either of the two takes what both take: the keywords of the generic one.
            return _Site(call, func, args, generic=bool(names & GENERIC))
    return None


def _through_partial(module: Module, call: ast.Call) -> tuple[ast.expr | None, list[ast.expr]]:
    if call.args and module.qualified(call.func) in _PARTIAL:
        return call.args[0], call.args[1:]
    return None, []


class CudaAutocast(Rule):
    """``torch.cuda.amp.autocast`` and ``torch.autocast("cuda")``."""

    code = "HPU201"
    name = "cuda-amp-autocast"
    severity = "error"
    markers = (b"autocast",)
    also: ClassVar[dict[str, str]] = {"HPU202": "autocast-device-cuda"}

    def __init__(self) -> None:
        self._sites: list[_Site] = []
        self._handed: list[ast.expr] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        for part in module.nodes:
            if isinstance(part, (ast.Name, ast.Attribute)) and _handed_on(module, part):
                self._handed.append(part)
            found = site(module, part) if isinstance(part, ast.Call) else None
            if found is None:
                continue
            self._sites.append(found)
            if found.generic:
                device = self._device(found)
                if device is not None and _is_cuda(device):
                    claim(module, device)
            elif self._fixable(module, found):
                _imports.of(module).want(found.func, self._new_name(module, found))
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        for node in self._handed:
            yield self._partial(module, node)
        for found in self._sites:
            yield from self._generic(module, found) if found.generic else self._cuda(module, found)

    # -- torch.cuda.amp.autocast ------------------------------------------------------------

    def _new_name(self, module: Module, found: _Site) -> str:
        """``torch.autocast`` is what people write; an imported name can only come from torch.amp."""
        root = _imports.root(found.func)
        bound = module.bindings(root) if root is not None else []
        through_torch = any(b.qualified == "torch" for b in bound)
        return "torch.autocast" if through_torch else "torch.amp.autocast"

    def _fixable(self, module: Module, found: _Site) -> bool:
        if any(isinstance(arg, ast.Starred) for arg in found.args):
            return False
        return (
            len(found.args) <= len(_POSITIONAL) and ask(module, "torch.cuda.amp.autocast").fixable
        )

    def _cuda(self, module: Module, found: _Site) -> Iterator[Finding]:
        answer = ask(module, "torch.cuda.amp.autocast")
        shown = module.source(found.func)
        message = (
            f"`{shown}` casts on CUDA only, to float16; Gaudi autocasts to bfloat16 "
            'with `torch.autocast(device_type="hpu")`'
        )
        if not self._fixable(module, found):
            yield self.finding(module, found.func, message, row=answer.row)
            return
        imports = _imports.of(module)
        new = self._new_name(module, found)
        name, needed = imports.spell(found.func, new)
        if isinstance(found.func, ast.Name) and "." in name:  # the import stays as it is
            name, needed = imports.through(found.func, "torch.autocast")
        edits = [] if name == shown else [module.replace(found.func, name)]
        edits += [*needed, *self._arguments(module, found)]
        fix = Fix(
            "autocast on hpu in bfloat16", answer.safety, tuple(edits), imports.group(found.func)
        )
        yield self.finding(module, found.func, message, fix=fix, row=answer.row)

    def _arguments(self, module: Module, found: _Site) -> list[Edit]:
        """In front the device and the dtype, and keywords for what was positional."""
        given = {keyword.arg for keyword in found.call.keywords}
        front = f"device_type={quoted(module, 'hpu')}"
        edits: list[Edit] = []
        off = _is_off(found, 0)
        if "dtype" not in given and None not in given and len(found.args) < 2 and not off:
            bfloat16, edits = _bfloat16(module, found.call)
            front += f", dtype={bfloat16}"
        places = [_opening(module, arg) for arg in found.args]
        for at, name in zip(places, _POSITIONAL, strict=False):
            lead = f"{front}, " if at == places[0] else ""
            edits.append(module.insert(at, f"{lead}{name}="))
        if not places:
            edits.append(_in_front(module, found, front))
        return edits

    def _partial(self, module: Module, node: ast.expr) -> Finding:
        """The class itself as a value: a ``partial`` of the general one stands in for it."""
        answer = ask(module, "torch.cuda.amp.autocast")
        imports = _imports.of(module)
        name, needed = imports.through(node, "torch.autocast")
        bfloat16, _ = imports.through(node, "torch.bfloat16")
        tools, added = imports.add("functools")
        device = f"device_type={quoted(module, 'hpu')}"
        new = f"{tools}.partial({name}, {device}, dtype={bfloat16})"
        edits = (module.replace(node, new), *needed, *added)
        safe = answer.safety if _called_plainly(module, node) else "unsafe"
        return self.finding(
            module,
            node,
            f"`{module.source(node)}` is handed on here and casts on CUDA only; "
            "a `partial` of `torch.autocast` takes its place",
            fix=Fix("hand on autocast for hpu", safe, edits) if answer.fixable else None,
            row=answer.row,
        )

    # -- torch.autocast("cuda") -------------------------------------------------------------

    def _device(self, found: _Site) -> ast.expr | None:
        if found.args and not isinstance(found.args[0], ast.Starred):
            return found.args[0]
        return next((k.value for k in found.call.keywords if k.arg == "device_type"), None)

    def _generic(self, module: Module, found: _Site) -> Iterator[Finding]:
        device = self._device(found)
        if device is None or not _is_cuda(device):
            return
        answer = ask(module, "torch.autocast")
        edits = [retext(module, device, "hpu")]
        given = {keyword.arg for keyword in found.call.keywords}
        if len(found.args) < 2 and not given & {"dtype", None} and not _is_off(found, 2):
            bfloat16, needed = _bfloat16(module, found.call)
            edits += [module.insert(module.span(device).end, f", dtype={bfloat16}"), *needed]
        yield self.finding(
            module,
            device,
            "autocast for `cuda` does nothing on Gaudi; it is `hpu`, in bfloat16",
            fix=Fix("autocast on hpu in bfloat16", answer.safety, tuple(edits)),
            row=answer.row,
            code="HPU202",
        )


def _handed_on(module: Module, node: ast.expr) -> bool:
    """Is the CUDA-only class a value here: assigned, chosen, a default, an argument?"""
    names = module.possible_names(node)
    if not names or not names <= CUDA_ONLY:
        return False
    parent = module.parent(node)
    if isinstance(parent, (ast.Attribute, ast.Compare, ast.ClassDef)):
        return False
    if isinstance(parent, ast.Call) and (parent.func is node or site(module, parent) is not None):
        return False
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    if isinstance(parent, ast.Call) and module.qualified(parent.func) == "builtins.isinstance":
        return False
    if _is_alias(module, node, parent):
        return False
    root = _imports.root(node)
    bound = module.bindings(root) if root is not None else []
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


def _called_plainly(module: Module, node: ast.expr) -> bool:
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
    for use in module.nodes:
        if isinstance(use, ast.Name) and use.id == target.id and isinstance(use.ctx, ast.Load):
            call = module.parent(use)
            if module.bindings(use) is bound and not (
                isinstance(call, ast.Call) and call.func is use and not call.args
            ):
                return False
    return True


def _is_cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("cuda", "cuda:0")


def _is_off(found: _Site, position: int) -> bool:
    """Whether the region switches autocast off for good, so that no dtype matters."""
    enabled = argument(ast.Call(found.func, found.args, found.call.keywords), "enabled", position)
    return isinstance(enabled, ast.Constant) and enabled.value is False


def _bfloat16(module: Module, node: ast.AST) -> tuple[str, list[Edit]]:
    text, needed = _imports.of(module).through(node, "torch.bfloat16")
    return text, list(needed)


def _in_front(module: Module, found: _Site, text: str) -> Edit:
    """The edit that makes ``text`` the first arguments of an autocast without positional ones."""
    if found.func is not found.call.func:  # partial(autocast, …)
        return module.insert(module.span(found.func).end, f", {text}")
    if found.call.keywords:
        return module.insert(module.span(found.call.keywords[0]).start, f"{text}, ")
    return module.insert(module.span(found.call).end - 1, text)


def _opening(module: Module, node: ast.expr) -> int:
    """Where an argument starts, with the parentheses written around it."""
    at = module.span(node).start
    parent = module.parent(node)
    assert isinstance(parent, ast.Call)
    first = module.span(parent.func).end
    while True:
        before = module.data[first:at].rstrip()
        if not before.endswith(b"(") or not before[:-1].strip():
            return at
        at = first + len(before) - 1
