"""Loss scaling goes: bfloat16 has the exponent range of float32, so nothing underflows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix

from . import _imports
from ._claims import claim, kept_whole
from ._entry import is_entry
from ._optimizers import is_scaler
from ._statements import delete, delete_guarded, unwrap
from ._strings import quoted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.scope import Binding
    from hpushim.engine.syntax import Module

CUDA_ONLY = frozenset({"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})
GENERIC = frozenset({"torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"})
SHARDED = frozenset(
    {
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
    }
)
_NEW = "torch.amp.GradScaler"


@dataclass(slots=True)
class _Scaler:
    """One variable that holds scalers, or one creation that no variable of its own holds."""

    creations: list[ast.Call]
    #: The statements that create it and every use, when all of them are of the known kinds.
    assigned: list[ast.stmt] = field(default_factory=list)
    uses: list[ast.Call] = field(default_factory=list)
    removable: bool = False


class GradScaler(Rule):
    """The creation of a scaler, and with it its calls."""

    code = "HPU204"
    name = "grad-scaler"
    markers = (b"GradScaler", b'["scale"]', b"['scale']")
    also: ClassVar[dict[str, str]] = {
        "HPU205": "grad-scaler-call",
        "HPU206": "grad-scaler-state",
        "HPU310": "sharded-grad-scaler",
    }

    def __init__(self) -> None:
        self._scalers: list[_Scaler] = []
        self._types: list[ast.expr] = []
        self._manual: list[ast.expr] = []

    # -- finding them -----------------------------------------------------------------------

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        done: set[ast.Call] = set()
        for part in module.nodes:
            if isinstance(part, ast.Call) and part not in done and _creates(module, part):
                scaler = _scaler(module, part)
                done.update(scaler.creations)
                self._scalers.append(scaler)
            elif isinstance(part, (ast.Name, ast.Attribute)) and self._is_reference(module, part):
                self._reference(module, part)
        for scaler in self._scalers:
            self._ask(module, scaler)
        yield from ()

    def _is_reference(self, module: Module, node: ast.expr) -> bool:
        parent = module.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        names = module.possible_names(node)
        return not called and bool(names) and names <= CUDA_ONLY

    def _reference(self, module: Module, node: ast.expr) -> None:
        """A mention of the class: in an annotation or a type test it may be the general class."""
        parent = module.parent(node)
        test = (
            isinstance(parent, ast.Call) and module.qualified(parent.func) == "builtins.isinstance"
        )
        if test or _in_annotation(module, node):
            self._types.append(node)
            _imports.of(module).want(node, _NEW)
        else:
            self._manual.append(node)

    def _ask(self, module: Module, scaler: _Scaler) -> None:
        if not ask(module, "torch.cuda.amp.GradScaler").fixable:
            return
        imports = _imports.of(module)
        for call in scaler.creations:
            claim(module, call)
            imports.want(call.func, None if scaler.removable else _NEW, _group(scaler))

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if kept_whole(module):
            return
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr in ("state_dict", "load_state_dict")
            and not isinstance(module.parent(node), ast.Subscript)
            and is_scaler(module, func.value)
        ):
            yield self.finding(
                module,
                func,
                f"`{module.source(func)}` holds nothing while loss scaling is off; "
                "old checkpoints still load",
                row=ask(module, "torch.amp.GradScaler.state_dict").row,
                code="HPU206",
                severity="info",
            )

    def on_Subscript(self, module: Module, node: ast.Subscript) -> Iterator[Finding]:
        """``loss_scaler.state_dict()["scale"]``: a scaler that is off has no such entry, and scales by one."""
        call = node.value
        if (
            kept_whole(module)
            or not isinstance(node.ctx, ast.Load)
            or not isinstance(node.slice, ast.Constant)
            or node.slice.value != "scale"
            or not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != "state_dict"
        ):
            return
        holder = call.func.value
        if is_scaler(module, holder) or "scaler" in module.source(holder).lower():
            shown = f"{module.source(call)}.get({module.source(node.slice)}, 1.0)"
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` is not there while loss scaling is off; the scale is one",
                fix=Fix("take one where none is kept", "safe", (module.replace(node, shown),)),
                row=ask(module, "torch.amp.GradScaler.state_dict").row,
                code="HPU206",
            )

    # -- saying so --------------------------------------------------------------------------

    def on_module(self, module: Module) -> Iterator[Finding]:
        for scaler in self._scalers:
            yield from (
                self._removed(module, scaler) if scaler.removable else self._kept(module, scaler)
            )
        imports = _imports.of(module)
        for node in self._types:
            text, needed = imports.spell(node, _NEW)
            edits = (
                [*needed] if text == module.source(node) else [module.replace(node, text), *needed]
            )
            if edits:
                fix = Fix("name the general class", "safe", tuple(edits), imports.group(node))
                yield self.finding(
                    module, node, f"`{module.source(node)}` is a class for CUDA alone", fix=fix
                )
        for node in self._manual:
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` is handed on here; loss scaling has no use with bfloat16, "
                'create `torch.amp.GradScaler("hpu", enabled=False)` instead',
            )

    def _removed(self, module: Module, scaler: _Scaler) -> Iterator[Finding]:
        answer = ask(module, "torch.cuda.amp.GradScaler")
        imports = _imports.of(module)
        group = imports.group(*(c.func for c in scaler.creations), group=_group(scaler))
        gone = [
            *scaler.assigned,
            *(s for s in map(module.statement, scaler.uses) if _is_call_of(s, scaler)),
        ]
        deleted = _deletions(module, gone)
        for call, statement in zip(scaler.creations, scaler.assigned, strict=True):
            edits = [*deleted[statement], *imports.edits(call.func)]
            fix = Fix("remove loss scaling", answer.safety, tuple(edits), group)
            yield self.finding(
                module,
                call,
                f"`{_shown(module, call)}` scales the loss for float16; "
                "bfloat16 on Gaudi needs none, the numbers differ a little",
                fix=fix,
                row=answer.row,
            )
        for use in scaler.uses:
            statement = module.statement(use)
            changes = deleted[statement] if statement in deleted else _without_scaler(module, use)
            fix = Fix("remove loss scaling", answer.safety, tuple(changes), group)
            yield self.finding(
                module,
                use,
                f"`{module.source(use.func)}` does nothing without loss scaling",
                fix=fix,
                row=answer.row,
                code="HPU205",
            )

    def _kept(self, module: Module, scaler: _Scaler) -> Iterator[Finding]:
        answer = ask(module, "torch.cuda.amp.GradScaler")
        imports = _imports.of(module)
        for call in scaler.creations:
            sharded = bool(module.possible_names(call.func) & SHARDED)
            fix = None
            if answer.fixable:
                edits = self._switched_off(module, call, sharded)
                fix = Fix("switch loss scaling off", answer.safety, edits, imports.group(call.func))
            yield self.finding(
                module,
                call,
                f"`{_shown(module, call)}` scales the loss for float16; bfloat16 on Gaudi needs none: "
                "a disabled scaler passes everything through",
                fix=fix,
                row=answer.row,
                code="HPU310" if sharded else "HPU204",
            )

    def _switched_off(self, module: Module, call: ast.Call, sharded: bool) -> tuple[Edit, ...]:
        if sharded:
            return (module.replace(call, f"{module.source(call.func)}(enabled=False)"),)
        name, needed = _imports.of(module).spell(call.func, _NEW)
        new = f"{name}({quoted(module, 'hpu')}, enabled=False)"
        return (module.replace(call, new), *needed)


# -- what is a scaler, and what is done with it ---------------------------------------------


def _creates(module: Module, call: ast.Call) -> bool:
    """Whether ``call`` makes a scaler that is not yet what it should be."""
    names = module.possible_names(call.func)
    if not names or not names <= CUDA_ONLY | GENERIC | SHARDED:
        return False
    if names & CUDA_ONLY:
        return True
    given = {k.arg: module.constant(k.value) for k in call.keywords}
    device = module.constant(call.args[0]) if call.args else given.get("device")
    off = any(k.arg == "enabled" and module.constant(k.value) is False for k in call.keywords)
    if names & SHARDED:
        return not off
    return device not in ("cpu", "hpu") and not (off and device != "cuda")


def _scaler(module: Module, call: ast.Call) -> _Scaler:
    statement = module.parent(call)
    name = _single_name(statement)
    if name is None or module.possible_names(call.func) & SHARDED:
        return _Scaler([call])
    scope = module.scope(name)
    bindings = scope.lookup(name.id)
    created = [b for b in bindings if _is_creation(module, b)]
    if len(created) != len(bindings) or not created:
        return _Scaler([call])
    creations = [b.value for b in created if isinstance(b.value, ast.Call)]
    scaler = _Scaler(creations, [module.statement(c) for c in creations])
    top_level = scope is module.global_scope
    if module.scope_of(scope.node) is not None and scope.is_class:
        return scaler
    uses = _uses(module, bindings)
    if uses is None or not uses or (top_level and not is_entry(module)):
        return scaler
    called = {u.func.attr for u in uses if isinstance(u.func, ast.Attribute)}
    scaler.uses = uses
    scaler.removable = bool(called & {"scale", "step"}) and module.target.style == "native"
    return scaler


def _single_name(statement: ast.AST | None) -> ast.Name | None:
    """The variable of ``name = …`` or ``name: T = …``."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target if isinstance(target, ast.Name) else None


def _is_creation(module: Module, binding: Binding) -> bool:
    return (
        binding.kind == "assign"
        and isinstance(binding.value, ast.Call)
        and _single_name(binding.node) is not None
        and module.parent(binding.value) is binding.node
        and _creates(module, binding.value)
    )


def _uses(module: Module, bindings: list[Binding]) -> list[ast.Call] | None:
    """Every call on the scaler, or None when something else is done with it."""
    calls: list[ast.Call] = []
    name = bindings[0].name
    for node in module.nodes:
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        if module.bindings(node) is not bindings:
            continue
        attribute = module.parent(node)
        call = module.parent(attribute) if isinstance(attribute, ast.Attribute) else None
        if not isinstance(call, ast.Call) or call.func is not attribute or not _known(module, call):
            return None
        calls.append(call)
    return calls


def _known(module: Module, call: ast.Call) -> bool:
    """Whether it is clear what remains of a call without its scaler."""
    assert isinstance(call.func, ast.Attribute)
    alone = isinstance(module.parent(call), ast.Expr)
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    match call.func.attr:
        case "scale":
            return plain and len(call.args) == 1 and not call.keywords
        case "step":
            return plain and len(call.args) >= 1
        case "unscale_" | "update":
            return alone
    return False


def _is_call_of(statement: ast.stmt, scaler: _Scaler) -> bool:
    """Whether the whole statement goes with the scaler: ``scaler.update()``, ``scaler.unscale_(…)``."""
    if not isinstance(statement, ast.Expr) or statement.value not in scaler.uses:
        return False
    call = statement.value
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("update", "unscale_")
    )


def _without_scaler(module: Module, call: ast.Call) -> list[Edit]:
    """``scaler.scale(loss)`` becomes ``loss``, ``scaler.step(opt, …)`` becomes ``opt.step(…)``."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "scale":
        return unwrap(module, call, call.args[0])
    rest = [*call.args[1:], *call.keywords]
    if not rest:
        return unwrap(module, call, call.args[0], ".step()")
    arguments = ", ".join(module.source(part) for part in rest)
    return unwrap(module, call, call.args[0], f".step({arguments})")


def _in_annotation(module: Module, node: ast.AST) -> bool:
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (ast.arg, ast.AnnAssign)) and above.annotation is child:
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and above.returns is child:
            return True
        if isinstance(above, ast.stmt):
            return False
        child = above
    return False


def _group(scaler: _Scaler) -> str:
    return f"scaler:{scaler.creations[0].lineno}"


def _deletions(module: Module, gone: list[ast.stmt]) -> dict[ast.stmt, list[Edit]]:
    """The edits that take each statement out, with the ``if`` that stands there for it alone."""
    edits = {s: [edit] for s, edit in zip(gone, delete(module, gone), strict=True)}
    for statement in gone:
        if len(module.block(statement)) == 1:
            edits[statement] = delete_guarded(module, statement)
    return edits


def _shown(module: Module, call: ast.Call) -> str:
    return f"{module.source(call.func)}()"
