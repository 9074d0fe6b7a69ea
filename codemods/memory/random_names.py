"""Seeds, random states and generators of the card."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding, Fix

from . import _devices
from ._claims import claimed
from ._names import NameRule
from ._strings import quoted
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_FORKS = ("torch.random.fork_rng",)


class RandomName(NameRule):
    """``torch.cuda.manual_seed_all`` and its neighbours."""

    code = "HPU407"
    name = "cuda-seed"
    severity = "error"
    codes: ClassVar[dict[str, str]] = {
        "manual_seed": "HPU407",
        "manual_seed_all": "HPU407",
        "seed": "HPU407",
        "seed_all": "HPU407",
        "initial_seed": "HPU407",
        "get_rng_state": "HPU408",
        "set_rng_state": "HPU408",
        "get_rng_state_all": "HPU408",
        "set_rng_state_all": "HPU408",
        "default_generators": "HPU409",
    }
    card: ClassVar[dict[str, int]] = {"get_rng_state": 0, "set_rng_state": 1}
    also: ClassVar[dict[str, str]] = {
        "HPU408": "cuda-random-state",
        "HPU409": "cuda-generator",
    }

    def on_module(self, module: Module) -> Iterator[Finding]:
        yield from super().on_module(module)
        row = module.matrix.row("torch.Generator")
        for site in _devices.of(module).of_kind("generator"):
            note = f": {row.note.rstrip('.')}" if row else ""
            yield self.finding(
                module,
                site.node,
                f"`torch.Generator` on `hpu` is not established{note}",
                fix=Fix("write hpu", "unsafe", site.edits),
                row=row.name if row else None,
                code="HPU409",
                severity="warning",
            )

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        """``fork_rng(devices=[…])`` saves the states of CUDA cards."""
        if not node.keywords or dotted(module, node.func) not in _FORKS:
            return ()
        return self._forked(module, node)

    def _forked(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if claimed(module, node):
            return
        devices = next((k for k in node.keywords if k.arg == "devices"), None)
        if devices is None or any(k.arg == "device_type" for k in node.keywords):
            return
        if isinstance(devices.value, (ast.List, ast.Tuple)) and not devices.value.elts:
            return  # the host's alone
        edit = module.replace(devices, f"device_type={quoted(module, 'hpu')}")
        yield self.finding(
            module,
            devices,
            f"`{module.source(devices)}` numbers CUDA cards; the card of the process is `hpu`",
            fix=Fix("fork the card's state", "safe", (edit,)),
            row=ask(module, "torch.random.fork_rng").row,
            code="HPU408",
        )
