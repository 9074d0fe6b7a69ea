"""The constant of the dual style: which accelerator this machine has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _imports
from ._dual import NAME, dual

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


class DualConstant(Rule):
    """``ACCELERATOR`` where the file uses it and nothing gives it a value."""

    code = "HPU023"
    name = "accelerator-constant"
    severity = "info"
    markers = (NAME.encode(),)

    def on_module(self, module: Module) -> Iterator[Finding]:
        if not dual(module) or NAME in module.global_scope.bindings:
            return
        use = next(
            (
                n
                for n in module.nodes
                if isinstance(n, ast.Name) and n.id == NAME and not module.bindings(n)
            ),
            None,
        )
        if use is None:
            return
        imports = _imports.of(module)
        at, ends = imports.place()
        bound = self._torch(module)
        torch, needed = (bound, ()) if bound else imports.add("torch")
        newline = module.newline
        line = (
            f'{NAME} = "hpu" if hasattr({torch}, "hpu") and {torch}.hpu.is_available() else "cuda"'
        )
        text = f"{newline}{newline}{line}" if ends else f"{newline}{line}{newline}"
        edits = (*needed, module.insert(at, text))
        yield self.finding(
            module,
            use,
            f"`{NAME}` is the device that this machine has, `hpu` or `cuda`; it is defined behind the imports",
            fix=Fix(f"define {NAME}", "safe", edits),
        )

    def _torch(self, module: Module) -> str:
        """The name that the file has torch under; "" without one."""
        for name, found in module.global_scope.bindings.items():
            if any(binding.qualified == "torch" for binding in found):
                return name
        return ""
