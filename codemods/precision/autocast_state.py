"""Functions around autocast that mean CUDA without saying so."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix

from . import _imports
from ._claims import kept_whole
from ._strings import quoted
from ._verdict import Answer, ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: Questions about CUDA's autocast, and the function that takes a device type instead.
_STATE = {
    "torch.get_autocast_gpu_dtype": "torch.get_autocast_dtype",
    "torch.set_autocast_gpu_dtype": "torch.set_autocast_dtype",
    "torch.is_autocast_enabled": "torch.is_autocast_enabled",
    "torch.set_autocast_enabled": "torch.set_autocast_enabled",
}
_ARGUMENTS = {"set_autocast_gpu_dtype": 1, "set_autocast_enabled": 1}
_CUSTOM = {
    f"torch.cuda.amp.{part}{name}": f"torch.amp.{name}"
    for name in ("custom_fwd", "custom_bwd")
    for part in ("", "autocast_mode.")
}


class AutocastState(Rule):
    """``torch.cuda.amp.custom_fwd``, ``torch.get_autocast_gpu_dtype`` and their like."""

    code = "HPU207"
    name = "custom-fwd-cuda"
    markers = (b"custom_fwd", b"custom_bwd", b"autocast")
    also: ClassVar[dict[str, str]] = {"HPU211": "autocast-state-cuda"}

    def __init__(self) -> None:
        self._sites: list[tuple[ast.expr, str, str]] = []

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        self._mention(module, node)
        return ()

    def on_Name(self, module: Module, node: ast.Name) -> Iterable[Finding]:
        self._mention(module, node)
        return ()

    def _mention(self, module: Module, node: ast.expr) -> None:
        old = module.qualified(node)
        if old is None or kept_whole(module):
            return
        if old in _STATE and self._is_bare(module, node, old):
            self._sites.append((node, old, _STATE[old]))
        elif old in _CUSTOM:
            self._sites.append((node, old, _CUSTOM[old]))
            if ask(module, old).safety == "safe":
                _imports.of(module).want(node, _CUSTOM[old])

    def _is_bare(self, module: Module, node: ast.expr, old: str) -> bool:
        """Whether the call does not name a device type yet."""
        call = module.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node or call.keywords:
            return False
        return len(call.args) == _ARGUMENTS.get(old.rpartition(".")[2], 0)

    def on_module(self, module: Module) -> Iterator[Finding]:
        for node, old, new in self._sites:
            answer = ask(module, old)
            custom = old in _CUSTOM
            shown = module.source(node)
            yield self.finding(
                module,
                node,
                f"`{shown}` is about CUDA's autocast; `{new}` takes the device type",
                fix=self._fix(module, node, new, custom, answer),
                row=answer.row,
                code="HPU207" if custom else "HPU211",
            )

    def _fix(
        self, module: Module, node: ast.expr, new: str, custom: bool, answer: Answer
    ) -> Fix | None:
        if not answer.fixable:
            return None
        imports = _imports.of(module)
        name, needed = imports.spell(node, new)
        edits: list[Edit] = list(needed)
        if name != module.source(node):
            edits.append(module.replace(node, name))
        device = quoted(module, "hpu")
        if custom:
            device = f"device_type={device}"
        edits.append(self._device(module, node, device))
        return Fix("name the device type", answer.safety, tuple(edits), imports.group(node))

    def _device(self, module: Module, node: ast.expr, device: str) -> Edit:
        call = module.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            if call.args and device.startswith("device_type="):
                return module.insert(module.span(call.args[-1]).end, f", {device}")
            parts = [*call.args, *call.keywords]
            if not parts:
                return module.insert(module.span(call).end - 1, device)
            return module.insert(module.span(parts[0]).start, f"{device}, ")
        return module.insert(module.span(node).end, f"({device})")  # @custom_fwd
