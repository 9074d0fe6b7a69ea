"""The device that new tensors are made on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _devices, _imports
from ._claims import claimed
from ._names import DTYPES, sets_default_type
from ._strings import quoted
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class DefaultDevice(Rule):
    """``torch.set_default_tensor_type("torch.cuda.FloatTensor")``, ``torch.set_default_device("cuda")``."""

    code = "HPU115"
    name = "cuda-default-device"
    severity = "error"
    markers = (b"set_default_tensor_type", b"set_default_device")

    def __init__(self) -> None:
        self._calls: list[ast.Call] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if b"cuda" in module.markers:
            _devices.of(module)
        yield from ()

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        if (
            sets_default_type(module, node)
            and len(node.args) == 1
            and not node.keywords
            and not claimed(module, node)
        ):
            self._calls.append(node)
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        if b"cuda" not in module.markers:
            return
        devices = _devices.of(module)
        for site in devices.of_kind("default"):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.node)}` is no home for new tensors on Gaudi; it is `hpu`",
                fix=Fix("write hpu", "safe", site.edits, devices.group(site.node)),
                row="cuda",
            )
        kinds = [self._kinds(module, call.args[0]) for call in self._calls]
        if not any(cuda for found in kinds for _, cuda in found or ()):
            return
        # One that is not understood could be the one that takes the others back.
        whole = all(kinds)
        for call, found in zip(self._calls, kinds, strict=True):
            yield self._judge(module, call, found if whole else [])

    def _kinds(self, module: Module, node: ast.expr) -> list[tuple[str, bool]]:
        """The types that an argument may be, with whether each is CUDA's; empty when not seen."""
        parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
        found: list[tuple[str, bool]] = []
        for part in parts:
            text = module.constant(part)
            name = text if isinstance(text, str) else dotted(module, part)
            kind = (name or "").rpartition(".")[2]
            if kind not in DTYPES:
                return []
            found.append((kind, (name or "").startswith("torch.cuda.")))
        return found

    def _judge(self, module: Module, call: ast.Call, kinds: list[tuple[str, bool]]) -> Finding:
        message = (
            f"`{module.source(call)}` makes CUDA or the CPU the home of new tensors; "
            "on Gaudi the default device does that"
        )
        statement = module.parent(call)
        types = {kind for kind, _ in kinds}
        if len(types) != 1 or not isinstance(statement, ast.Expr):
            return self.finding(module, call, message)
        words = [quoted(module, "hpu" if cuda else "cpu") for _, cuda in kinds]
        argument = call.args[0]
        device = words[0]
        if isinstance(argument, ast.IfExp):
            device = f"{words[0]} if {module.source(argument.test)} else {words[1]}"
        imports = _imports.of(module)
        set_device, needed = imports.through(call, "torch.set_default_device")
        text = f"{set_device}({device})"
        kind = types.pop()
        every = {k for other in self._calls for k, _ in self._kinds(module, other.args[0])}
        if every != {"FloatTensor"}:
            set_dtype, _ = imports.through(call, "torch.set_default_dtype")
            dtype, _ = imports.through(call, f"torch.{DTYPES[kind]}")
            text += f"{module.newline}{module.indent(statement)}{set_dtype}({dtype})"
        edits = (module.replace(call, text), *needed)
        return self.finding(
            module, call, message, fix=Fix("set the default device", "safe", edits, "default device"),
            row=ask(module, "torch.set_default_tensor_type").row,
        )  # fmt: skip
