"""Checkpoints read onto a CUDA device: torch.load(map_location=…)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices, _text
from ._claims import claim, claimed
from ._strings import quoted
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_LOADS = ("torch.load", "torch.jit.load")
_ROW = "torch.load(map_location=)"


class MapLocation(Rule):
    """``torch.load(path, map_location="cuda:0")``."""

    code = "HPU612"
    name = "map-location-cuda"
    severity = "error"
    markers = (b"map_location", b".load(")
    also: ClassVar[dict[str, str]] = {"HPU613": "load-without-map-location"}

    def __init__(self) -> None:
        self._maps: list[tuple[ast.expr, str]] = []
        self._bare: list[ast.Call] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if b"cuda" in module.markers:
            _devices.of(module)
        yield from ()

    def on_Dict(self, module: Module, node: ast.Dict) -> Iterator[Finding]:
        """``{"cuda:0": "cuda:1"}``: where the file's storages were, and where they go."""
        if len(node.keys) == 1 and node.keys[0] is not None and _text.read(node.keys[0]):
            value = node.values[0]
            text = _text.read(value)
            if (text is not None or _text.other_device(value)) and not claimed(module, node):
                claim(module, node)
                new = quoted(module, _text.HPU) if text is not None else module.source(value)
                self._maps.append((node, new))
        yield from ()

    def on_Lambda(self, module: Module, node: ast.Lambda) -> Iterator[Finding]:
        """``lambda storage, loc: storage.cuda(rank)``."""
        body = node.body
        names = [arg.arg for arg in node.args.args]
        if (
            len(names) == 2
            and isinstance(body, ast.Call)
            and isinstance(body.func, ast.Attribute)
            and body.func.attr == "cuda"
            and isinstance(body.func.value, ast.Name)
            and body.func.value.id == names[0]
            and not claimed(module, node)
        ):
            claim(module, node)
            self._maps.append((node, quoted(module, _text.HPU)))
        yield from ()

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        if b"cuda" in module.markers and dotted(module, node.func) in _LOADS:
            named = any(k.arg in ("map_location", None) for k in node.keywords)
            plain = len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
            if plain and not named and not claimed(module, node):
                self._bare.append(node)
        return ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        row = ask(module, _ROW).row
        for node, new in self._maps:
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` sends storages to CUDA cards; a process on Gaudi has one, `hpu`",
                fix=Fix(f"map to {new}", "safe", (module.replace(node, new),)),
                row=row,
            )
        if b"cuda" in module.markers:
            devices = _devices.of(module)
            for site in devices.of_kind("load"):
                yield self.finding(
                    module,
                    site.node,
                    f"`{module.source(site.node)}` is no place to load to on Gaudi; load to `hpu`",
                    fix=Fix("load to hpu", "safe", site.edits, devices.group(site.node)),
                    row=row,
                )
        for call in self._bare:
            yield self._without(module, call)

    def _without(self, module: Module, call: ast.Call) -> Finding:
        end = module.span(call.args[0] if not call.keywords else call.keywords[-1]).end
        edit = module.insert(end, f", map_location={quoted(module, 'cpu')}")
        return self.finding(
            module,
            call,
            f"`{module.source(call.func)}` puts storages back where they were saved, "
            "and a checkpoint from CUDA has no such place on Gaudi",
            fix=Fix("load to the CPU", "unsafe", (edit,)),
            row=ask(module, "torch.load").row,
            code="HPU613",
            severity="warning",
        )
