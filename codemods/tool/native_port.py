"""What a port to Gaudi has that no other device has, in code that is to run on every device."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Remove, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..edits.spelling import agnostic

_PACKAGE = "habana_frameworks"
_MARK = f"{_PACKAGE}.torch.core.mark_step"
_GROUP = "marks"
#: Modules that only have to be loaded, which torch does by itself.
_LOADED = (f"{_PACKAGE}.torch.core", f"{_PACKAGE}.torch.distributed.hccl", f"{_PACKAGE}.torch", f"{_PACKAGE}.torch.hpu")  # fmt: skip
_COMPILER = "hpu_backend"


class NativePort(Rule):
    """``htcore.mark_step()``, ``import habana_frameworks.torch.core as htcore``."""

    HPU012 = Code(
        "left-of-a-port", fix=("safe", "manual"), lower={"note": "torch needs it no more"}
    )
    #: The device is a reason to read a file as CUDA is: what a rule says of the code it says before a port and after it.
    wants = Wants(words=(_PACKAGE, "hpu", "hccl"), strings=(_COMPILER,))

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        if agnostic(module) and node.value == _COMPILER:
            text = f"`{module.source(node)}` is the compiler of Gaudi; choose the backend by the device"
            yield self.finding(node, text, safety="manual")

    def on_module(self, module: Module) -> Yield:
        if not agnostic(module):
            return
        marks = [
            call for call in module.index.calls("mark_step") if module.qualified(call.func) == _MARK
        ]
        kept = module.target.mode == "lazy"
        gone = [s for call in marks if not kept and isinstance(s := module.parent(call), ast.Expr)]
        for call in marks:
            statement = module.parent(call)
            shown = f"`{module.source(call)}` ends a graph of Gaudi's lazy mode, which no other device has"
            if statement in gone:
                fix = Rewrite(
                    "remove the mark", "safe", (Remove(statement),), _GROUP, harmless=True
                )
                yield self.finding(call, f"{shown}; eager mode needs no mark", fix=fix, severity="note", claims=(call,))  # fmt: skip
            else:
                yield self.finding(call, f"{shown}; call it where the device is Gaudi", safety="manual", claims=(call,))  # fmt: skip
        for statement in module.imports:
            yield from self._imported(module, statement, gone)

    def _imported(
        self, module: Module, statement: ast.Import | ast.ImportFrom, gone: list[ast.Expr]
    ) -> Yield:
        """An import goes with the last use of what it gives."""
        module_of = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        names = [f"{module_of}.{a.name}".lstrip(".") for a in statement.names]
        ours = [name for name in names if name.partition(".")[0] == _PACKAGE]
        if not ours or len(ours) < len(statement.names):
            return
        shown = f"`{module.source(statement)}`"
        uses = [
            use
            for alias in statement.names
            for use in module.index.names(alias.asname or alias.name.partition(".")[0])
        ]
        left = [use for use in uses if not any(above in gone for above in module.ancestors(use))]
        if set(ours) <= set(_LOADED) and not left:
            text = f"{shown} loads Gaudi's PyTorch package, which torch loads by itself since 2.5"
            fix = Rewrite(
                "remove the import",
                "safe",
                (Remove(statement),),
                _GROUP if uses else "",
                harmless=True,
            )
            yield self.finding(statement, text, fix=fix, severity="note")
        else:
            text = f"{shown} fails where Gaudi's software is not installed; import it where the device is Gaudi"
            yield self.finding(statement, text, safety="manual")
