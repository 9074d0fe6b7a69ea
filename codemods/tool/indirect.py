"""CUDA reached by a string: getattr, import_module, mock.patch, exec."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from ._claims import claimed
from ._names import known, respell, uses
from ._strings import retext
from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_ATTRIBUTES = ("builtins.getattr", "builtins.hasattr", "builtins.setattr")
_IMPORTERS = ("importlib.import_module", "builtins.__import__", "importlib.util.find_spec")
_RUNNERS = ("builtins.exec", "builtins.eval")
_READERS = frozenset((*_ATTRIBUTES, *_IMPORTERS, *_RUNNERS))
_PATCHERS = ("patch", "setattr", "delattr", "object")


class Indirect(Rule):
    """``getattr(torch, "cuda")``."""

    code = "HPU016"
    name = "cuda-module-as-value"
    severity = "warning"
    also: ClassVar[dict[str, str]] = {
        "HPU008": "star-import-of-cuda",
        "HPU017": "cuda-by-module-name",
        "HPU018": "cuda-in-mock-target",
        "HPU019": "cuda-in-code-text",
    }

    def on_ImportFrom(self, module: Module, node: ast.ImportFrom) -> Iterator[Finding]:
        source = node.module or ""
        if node.names[0].name == "*" and (
            source == "torch.cuda" or source.startswith("torch.cuda.")
        ):
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` hides which names come from CUDA; import them by name",
                code="HPU008",
            )

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        name = dotted(module, node.func) or ""
        if not node.args or not (name in _READERS or self._patches(node)):
            return ()
        return self._reached(module, node, name)

    def _reached(self, module: Module, node: ast.Call, name: str) -> Iterator[Finding]:
        if claimed(module, node):
            return
        if name in _ATTRIBUTES and len(node.args) > 1:
            yield from self._attribute(module, node)
        elif name in _IMPORTERS and node.args:
            yield from self._import(module, node)
        elif name in _RUNNERS and node.args:
            text = module.constant(node.args[0])
            if isinstance(text, str) and ("cuda" in text or "nccl" in text):
                yield self.finding(
                    module,
                    node,
                    "code in a string speaks of CUDA; it is not rewritten",
                    code="HPU019",
                )
        elif self._patches(node) and node.args:
            yield from self._target(module, node.args[0])

    def on_module(self, module: Module) -> Iterator[Finding]:
        for use in uses(module):
            parent = module.parent(use.node)
            if use.name != "torch.cuda" or claimed(module, use.node):
                continue
            if isinstance(parent, ast.Call) and dotted(module, parent.func) in _ATTRIBUTES:
                continue
            yield self.finding(
                module,
                use.node,
                f"`{module.source(use.node)}` is used as a value; "
                "what is read from it has to exist in `torch.hpu`",
            )

    def _attribute(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        owner = dotted(module, node.args[0]) or ""
        text = module.constant(node.args[1])
        if owner == "torch" and text == "cuda" and isinstance(node.args[1], ast.Constant):
            yield self.finding(
                module,
                node.args[1],
                f"`{module.source(node)}` reaches `torch.cuda` by its name; the counterpart is `torch.hpu`",
                fix=Fix("name hpu", "unsafe", (retext(module, node.args[1], "hpu"),)),
            )
        elif owner.startswith("torch.cuda") and not owner.startswith("torch.cuda.amp"):
            yield from self._below(module, node, owner, text)

    def _below(self, module: Module, node: ast.Call, owner: str, text: object) -> Iterator[Finding]:
        shown = module.source(node)
        if isinstance(text, str):
            part, verdict = known(module, f"{owner}.{text}")
            if verdict is not None and verdict.target:
                fix = None
                if owner == "torch.cuda" and verdict.target == f"torch.hpu.{text}":
                    new, needed = respell(module, node.args[0], "torch.hpu")
                    fix = Fix(
                        "look at torch.hpu", "safe", (module.replace(node.args[0], new), *needed)
                    )
                yield self.finding(
                    module,
                    node,
                    f"`{shown}` reaches `{part}`, which is `{verdict.target}` on Gaudi",
                    fix=fix,
                    row=part,
                )
                return
        yield self.finding(
            module, node, f"`{shown}` reaches below `{owner}` by a name that is not seen here"
        )

    def _import(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        text = module.constant(node.args[0])
        if isinstance(text, str) and (text == "torch.cuda" or text.startswith("torch.cuda.")):
            new = text.replace("torch.cuda", "torch.hpu", 1)
            fix = None
            if isinstance(node.args[0], ast.Constant) and text.count(".") == 1:
                fix = Fix(f"import {new}", "unsafe", (retext(module, node.args[0], new),))
            yield self.finding(
                module,
                node.args[0],
                f"`{module.source(node.args[0])}` is imported by its name; Gaudi's is `{new}`",
                fix=fix,
                code="HPU017",
            )

    def _patches(self, node: ast.Call) -> bool:
        func = node.func
        called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        return called in _PATCHERS

    def _target(self, module: Module, node: ast.expr) -> Iterator[Finding]:
        text = module.constant(node)
        if not isinstance(text, str) or "torch.cuda." not in text:
            return
        at = text.index("torch.cuda.")
        part, verdict = known(module, text[at:])
        fix = None
        if (
            verdict is not None
            and verdict.target.startswith("torch.")
            and isinstance(node, ast.Constant)
        ):
            new = text[:at] + verdict.target + text[at + len(part) :]
            fix = Fix(f"patch {new}", "unsafe", (retext(module, node, new),))
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` is patched by its name; the code under test no longer asks for it",
            fix=fix,
            code="HPU018",
        )
