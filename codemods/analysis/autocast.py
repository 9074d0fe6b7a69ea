"""Regions of autocast: what a call of it gets, in every spelling."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from hpushim.engine.python.module import Module

from .names import called, partial_of

CUDA_ONLY = frozenset(
    {
        "torch.cuda.amp.autocast",
        "torch.cuda.amp.autocast_mode.autocast",
        "torch.cuda.amp.common.autocast",
    }
)
GENERIC = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})


@dataclass(frozen=True, slots=True, eq=False)
class AutocastSite:
    """One call of autocast, or one ``partial`` of it: ``args`` are what autocast itself gets."""

    call: ast.Call
    func: ast.expr
    args: list[ast.expr]
    generic: bool

    def argument(self, name: str, position: int) -> ast.expr | None:
        """The value given for a parameter; None when it is not given, or hidden by ``*args``."""
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        hidden = any(isinstance(arg, ast.Starred) for arg in self.args[: position + 1])
        return None if hidden or position >= len(self.args) else self.args[position]

    @property
    def device(self) -> ast.expr | None:
        return self.argument("device_type", 0) if self.generic else None

    @property
    def dtype(self) -> ast.expr | None:
        return self.argument("dtype", 1)

    @property
    def enabled(self) -> ast.expr | None:
        return self.argument("enabled", 2 if self.generic else 0)

    @property
    def is_off(self) -> bool:
        """Whether the region switches autocast off for good, so that no dtype matters."""
        enabled = self.enabled
        return isinstance(enabled, ast.Constant) and enabled.value is False


def site(module: Module, node: ast.expr) -> AutocastSite | None:
    """The use of autocast that ``node``, a name of it, is the function of; None where it is no call."""
    names = module.possible_names(node)
    if not names or not names <= CUDA_ONLY | GENERIC:
        return None
    # A name that is either of the two takes what both take: the keywords of the generic one.
    generic = bool(names & GENERIC)
    call, later = called(module, node), partial_of(module, node)
    if call is not None:
        return AutocastSite(call, node, call.args, generic)
    return AutocastSite(later, node, later.args[1:], generic) if later is not None else None
