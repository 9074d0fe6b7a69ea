"""Lazy mode collects operations until it is told to run them: after backward, after the optimizer's step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _imports
from ._claims import kept_whole
from ._entry import is_entry
from ._optimizers import is_optimizer, is_scaler
from ._statements import after, delete
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_MARKS = ("mark_step", "iter_mark_step")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)
#: Things with a ``backward`` of their own that also place the marks, or do not run on the device.
_FRAMEWORKS = re.compile(
    r"accelerator|^accel$|fabric|engine|strategy|deepspeed|ds_model|manager", re.I
)
_FRAMEWORK_MODULES = (
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "lightning_fabric",
    "deepspeed",
)
_LIGHTNING = re.compile(
    r"(Lightning|L\.|pl\.)?(LightningModule|LightningLite|LightningDataModule)$"
)
_COMPILED = re.compile(r"(^|\.)(compile|script|graph)$")
_HOOKS = re.compile(r"register_\w*hook$")

#: What wrappers of optimizers call the method that steps and does something else besides.
_STEPS = re.compile(r"step|step_and_\w+|\w+_and_step")
_LOSS = re.compile(r"loss|cost|^err(or)?$", re.I)
_TESTS = re.compile(r"[Tt]est(_|[A-Z]|$)")
_DEVICES = re.compile(r"(cuda|hpu|gpu)(:\d+)?")
_DEVICE_LABELS = re.compile(r"dev|gpu|rank", re.I)

Kind = Literal["backward", "step"]


class MarkStep(Rule):
    """``htcore.mark_step()`` where lazy mode needs it."""

    code = "HPU501"
    name = "backward-without-mark-step"
    markers = (b"backward", b".step(", b"mark_step")
    also: ClassVar[dict[str, str]] = {
        "HPU502": "optimizer-step-without-mark-step",
        "HPU508": "mark-step-without-lazy-mode",
    }

    def __init__(self) -> None:
        self._sites: list[tuple[ast.stmt, ast.Call, Kind]] = []
        self._seen: set[ast.stmt] = set()

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        if module.target.mode in ("eager", "compile"):
            return self._idle(module, node) if _has_mark(node) else ()
        kind = _kind(module, node)
        if kind is None or module.target.mode not in ("portable", "lazy"):
            return ()
        statement = module.statement(node)
        if statement not in self._seen and _may_follow(module, statement, node):
            self._seen.add(statement)
            self._sites.append((statement, node, kind))
        return ()

    def _idle(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        statement = module.parent(call)
        name = module.qualified(call.func) or ""
        if isinstance(statement, ast.Expr) and name.startswith("habana_frameworks."):
            yield self.finding(
                module,
                call,
                f"`{module.source(call)}` does nothing in {module.target.mode} mode",
                fix=Fix("remove the mark", "unsafe", tuple(delete(module, [statement]))),
                row=ask(module, "habana_frameworks.torch.core.mark_step").row,
                code="HPU508",
                severity="info",
            )

    def on_module(self, module: Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        plain = [statement for statement, _, kind in self._sites if kind == "backward"]
        self._sites = [
            site
            for site in self._sites
            if site[2] == "backward" or not _framework_drives(module, site[0], plain)
        ]
        steps = any(kind == "step" for _, _, kind in self._sites)
        if not _on_device(module) and (is_entry(module) or not plain or not steps):
            return
        if not steps:
            self._sites = [
                site
                for site in self._sites
                if _in_loop(module, site[0]) or _trains(module) or _is_loss(module, site[1])
            ]
        sites = {statement for statement, _, _ in self._sites}
        for statement, call, kind in self._sites:
            if _marked(module, statement, sites):
                continue
            yield self._site(module, statement, call, kind)

    def _site(self, module: Module, statement: ast.stmt, call: ast.Call, kind: Kind) -> Finding:
        answer = ask(module, "habana_frameworks.torch.core.mark_step")
        name, imported = _imports.of(module).add(_imports.CORE, _imports.CORE_ALIAS)
        edits = (after(module, statement, f"{name}.mark_step()"), *imported)
        func = module.source(call.func).split("\n")[0]
        what = "gradients" if kind == "backward" else "update"
        return self.finding(
            module,
            call.func,
            f"lazy mode runs the {what} of `{func}` only at the next mark; "
            f"add `{name}.mark_step()`, which does nothing in eager mode",
            fix=Fix("mark the step", answer.safety, edits),
            row=answer.row,
            code="HPU501" if kind == "backward" else "HPU502",
        )


def _kind(module: Module, call: ast.Call) -> Kind | None:
    """Whether ``call`` runs a backward pass or steps an optimizer."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    if func.attr == "backward":
        return "backward" if _is_backward(module, call, func) else None
    if _STEPS.fullmatch(func.attr):
        return "step" if _is_step(module, call, func) else None
    return None


def _is_loss(module: Module, call: ast.Call) -> bool:
    """Is it a loss whose gradients are taken: ``(loss_d * gain).mean().backward()``?"""
    assert isinstance(call.func, ast.Attribute)
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and _LOSS.search(_label(part)) is not None
        for part in ast.walk(call.func.value)
    )


def _hands_loss(call: ast.Call) -> bool:
    """``engine.backward(loss)``: a tensor's own method takes a gradient, not a loss."""
    return any(_LOSS.search(_label(arg)) for arg in call.args)


def _label(node: ast.expr) -> str:
    """The last name in an expression: ``loss`` for ``self.loss / n``."""
    while isinstance(node, (ast.BinOp, ast.Subscript)):
        node = node.left if isinstance(node, ast.BinOp) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_backward(module: Module, call: ast.Call, func: ast.Attribute) -> bool:
    if _hands_loss(call) and module.qualified(func) is None:
        return is_optimizer(module, func.value)  # the wrapper of apex: `optimizer.backward(loss)`
    name = module.qualified(func)
    if name is not None:
        if name == "torch.autograd.backward":
            return True
        if name.split(".")[0] not in ("builtins",) and _imported(module, func):
            return False
    base = func.value
    if isinstance(base, ast.Name) and base.id in ("self", "cls", "ctx", "accelerator"):
        return False
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super":
        return False
    if _FRAMEWORKS.search(_label(base)) or _of_framework(module, base):
        return False
    return not _is_class(module, base)


def _imported(module: Module, func: ast.Attribute) -> bool:
    base = _imports.root(func)
    return base is not None and any(b.kind == "import" for b in module.bindings(base))


def _is_class(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and any(
        isinstance(b.node, ast.ClassDef) for b in module.bindings(node)
    )


def _is_step(module: Module, call: ast.Call, func: ast.Attribute) -> bool:
    if _of_framework(module, func.value):
        return False
    if call.args and is_scaler(module, func.value):
        return True
    return is_optimizer(module, func.value)


def _of_framework(module: Module, node: ast.expr) -> bool:
    """Does ``node`` come from a framework that marks its steps itself, or has none?"""
    for value in module.values(node):
        called = module.qualified(value.func) if isinstance(value, ast.Call) else None
        if called is not None and called.split(".")[0] in _FRAMEWORK_MODULES:
            return True
    return False


def _may_follow(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a mark can stand behind ``statement`` and belongs there."""
    if not isinstance(statement, _SIMPLE):
        return False
    child: ast.AST = call
    for above in module.ancestors(call):
        if isinstance(above, ast.Lambda):
            return False
        if isinstance(above, _FUNCTIONS) and not _plain_function(module, above):
            return False
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)) and _TESTS.match(
            getattr(above, "name", "")
        ):
            return False
        if isinstance(above, ast.ClassDef) and _places_its_own(module, above, child):
            return False
        child = above
    return not _TESTS.match(PurePath(module.path).name)


def _plain_function(module: Module, function: ast.AST) -> bool:
    """Not compiled, not a hook of autograd, not the backward of an autograd function."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if function.name in ("forward", "backward") and _in_autograd_function(module, function):
        return False
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = module.qualified(target) or ""
        if name.startswith("torch.") and _COMPILED.search(name):
            return False
    return function.name not in _hooked(module)


def _hooked(module: Module) -> set[str]:
    """Names of functions that the file registers as hooks: they run inside a backward pass."""
    found: set[str] | None = module.notes.get("hooks")
    if found is None:
        found = module.notes["hooks"] = {
            arg.attr if isinstance(arg, ast.Attribute) else arg.id
            for node in module.of_type(ast.Call)
            if isinstance(node.func, ast.Attribute) and _HOOKS.search(node.func.attr)
            for arg in node.args
            if isinstance(arg, (ast.Name, ast.Attribute))
        }
    return found


def _in_autograd_function(module: Module, function: ast.AST) -> bool:
    owner = module.parent(function)
    return isinstance(owner, ast.ClassDef) and any(
        (module.qualified(base) or "").endswith("autograd.Function")
        or (module.qualified(base) or "").endswith("autograd.function.Function")
        for base in owner.bases
    )


def _places_its_own(module: Module, owner: ast.ClassDef, method: ast.AST) -> bool:
    """A Lightning module, whose trainer steps; or an optimizer around another one."""
    for base in owner.bases:
        name = module.qualified(base) or module.source(base)
        if _LIGHTNING.search(name):
            return True
        if name.rpartition(".")[2] == "Optimizer" and getattr(method, "name", "") == "step":
            return True
    return False


def _framework_drives(module: Module, site: ast.stmt, plain: list[ast.stmt]) -> bool:
    """Is the backward pass that goes with a step a framework's (``accelerator.backward(loss)``)?

    What stands in the same function decides; without any backward there, the whole file.
    """
    driven = _framework_backwards(module)
    if not driven:
        return False
    around = module.function(site)
    if any(module.function(other) is around for other in plain):
        return False
    return any(module.function(call) is around for call in driven) or not plain


def _framework_backwards(module: Module) -> list[ast.Call]:
    """Every call of a framework's ``backward`` in the file."""
    found: list[ast.Call] | None = module.notes.get("framework backwards")
    if found is None:
        found = module.notes["framework backwards"] = [
            node
            for node in module.of_type(ast.Call)
            if isinstance(node.func, ast.Attribute)
            and node.func.attr == "backward"
            and (
                _of_framework(module, node.func.value)
                or (_hands_loss(node) and module.qualified(node.func) is None)
            )
            and not _is_backward(module, node, node.func)
        ]
    return found


def _in_loop(module: Module, statement: ast.stmt) -> bool:
    for above in module.ancestors(statement):
        if isinstance(above, (ast.For, ast.While, ast.AsyncFor)):
            return True
        if isinstance(above, _FUNCTIONS):
            return False
    return False


def _on_device(module: Module) -> bool:
    """Does the file put anything on a device that is not surely the CPU?"""
    kinds = (ast.Attribute, ast.Constant, ast.keyword, ast.Call)
    return any(_places_on_device(module, node) for kind in kinds for node in module.of_type(kind))


def _places_on_device(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _DEVICES.fullmatch(node.value) is not None
    if isinstance(node, ast.Attribute):
        return node.attr in ("cuda", "is_cuda", "hpu")
    if isinstance(node, ast.keyword) and node.arg == "device":
        return _may_be_device(module, node.value)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
    ):
        return bool(node.args) and _may_be_device(module, node.args[0])
    return False


def _may_be_device(module: Module, node: ast.expr) -> bool:
    """Is ``node`` something called a device whose value the file does not fix?"""
    for value in module.values(node):
        if _DEVICE_LABELS.search(_label(value)):
            return True
        if (
            isinstance(value, ast.Call)
            and value.args
            and module.qualified(value.func) == "torch.device"
            and module.constant(value.args[0]) is None
        ):
            return True
    return False


def _trains(module: Module) -> bool:
    """Is there any sign of training in the file: gradients cleared, an optimizer, a model in train mode?"""
    return b"zero_grad" in module.markers or b"optim" in module.markers


def _marked(module: Module, statement: ast.stmt, sites: set[ast.stmt]) -> bool:
    """Does a mark follow before anything else is to be marked?"""
    while True:
        block = module.block(statement)
        place = next(i for i, other in enumerate(block) if other is statement)
        for later in block[place + 1 :]:
            if _has_mark(later):
                return True
            if any(isinstance(part, ast.stmt) and part in sites for part in ast.walk(later)):
                return False
        parent = module.parent(statement)
        if not isinstance(parent, (ast.With, ast.AsyncWith, ast.If, ast.Try)):
            return False
        statement = parent


def _has_mark(statement: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call)
        and (
            (isinstance(part.func, ast.Attribute) and part.func.attr in _MARKS)
            or (isinstance(part.func, ast.Name) and part.func.id in _MARKS)
        )
        for part in ast.walk(statement)
    )
