"""Functions around autocast that mean CUDA without saying so."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Rename, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.names import called
from ..analysis.verdict import ask
from ..edits.arguments import add
from ..edits.spelling import device_type
from ..values.beside import kind_beside

#: Questions about CUDA's autocast, and the function that takes a device type instead.
_STATE = {
    "torch.get_autocast_gpu_dtype": "torch.get_autocast_dtype",
    "torch.set_autocast_gpu_dtype": "torch.set_autocast_dtype",
    "torch.is_autocast_enabled": "torch.is_autocast_enabled",
    "torch.set_autocast_enabled": "torch.set_autocast_enabled",
}
_ARGUMENTS = {"torch.set_autocast_gpu_dtype": 1, "torch.set_autocast_enabled": 1}
_CUSTOM = {
    f"torch.cuda.amp.{part}{name}": f"torch.amp.{name}"
    for name in ("custom_fwd", "custom_bwd")
    for part in ("", "autocast_mode.")
}


class AutocastState(Rule):
    """``torch.cuda.amp.custom_fwd``, ``torch.get_autocast_gpu_dtype`` and their like."""

    HPU207 = Code("custom-fwd-cuda", fix="safe")
    HPU211 = Code("autocast-state-cuda", fix="safe")
    wants = Wants(names=(*_STATE, *_CUSTOM))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        custom = name in _CUSTOM
        if module.qualified(node) != name or not (custom or _is_bare(call, name)):
            return
        answer = ask(module, name)
        new = _CUSTOM[name] if custom else _STATE[name]
        kind = device_type(module, node) if call is None or custom else kind_beside(module, call)
        changes = _changes(node, call, new, kind, custom)
        fix = (
            Rewrite("pass the device type", answer.safety, changes, harmless=True)
            if answer.fixable
            else None
        )
        use = "pass" if name == new else f"use `{new}` with"
        yield self.finding(
            node,
            f"`{module.source(node)}` refers to autocast on CUDA; {use} the device type",
            fix=fix,
            row=answer.row,
            code="HPU207" if custom else "HPU211",
        )


def _is_bare(call: ast.Call | None, name: str) -> bool:
    """Is it a call that does not name a device type yet?"""
    if call is None or call.keywords:
        return False
    return len(call.args) == _ARGUMENTS.get(name, 0)


def _changes(
    node: ast.expr, call: ast.Call | None, new: str, device: str, custom: bool
) -> tuple[Change, ...]:
    """The new name with the device type: ``@custom_fwd``, ``@custom_fwd(cast_inputs=…)``, ``custom_fwd(function)``."""
    given = f"device_type={device}" if custom else device
    if call is None:
        return (Rename(node, new, tail=f"({given})"),)
    behind = call.args[-1] if custom and call.args else None
    return (Rename(node, new), add(call, given, first=behind is None, behind=behind))
