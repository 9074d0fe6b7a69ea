"""Options, calls and words that select a part of a library that only NVIDIA GPUs have."""

from __future__ import annotations

import ast
from dataclasses import replace

import msgspec

from hpushim.engine.python.changes import Remove, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield
from hpushim.model import Severity

from ..analysis.kernels import PROVIDERS
from ..analysis.optional_packages import caught
from ..analysis.project_facts import FAISS
from ..analysis.trainers import NAMES as TRAINERS
from ..analysis.trainers import SWITCHES, fields, is_settings, own_class
from ..analysis.verdict import ask, inside
from ..bases.row_argument import SEVERITY, by_row
from ..edits.spelling import retext, shared

_XFORMERS = "enable_xformers_memory_efficient_attention"
_ROW = f"{_XFORMERS} of diffusers"


class NvidiaOption(Rule):
    """``optim="paged_adamw_8bit"``, ``use_liger_kernel=True``, ``pipe.enable_xformers_…()``, ``faiss.index_cpu_to_gpu``."""

    HPU722 = Code(
        "nvidia-only-option",
        severity="error",
        fix=("unsafe", "manual"),
        effort="hours",
        effect="speed",
        lower=by_row("warning", "note"),
    )
    wants = Wants(
        names=(*FAISS, *TRAINERS),
        calls=(_XFORMERS,),
        keywords=("optim", *SWITCHES),
        strings=PROVIDERS,
    )
    strength = Strength.FIRM

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        if name.startswith("faiss."):
            yield self._option_finding(module, node, "faiss-gpu")
        elif is_settings(name) and (own := own_class(module, node)) is not None:
            for field, value in fields(own):
                yield from self._set(module, value, field, value)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """With diffusers and torch 2, torch's own attention is what takes its place."""
        statement = module.parent(node)
        plain = isinstance(statement, ast.Expr) and len(module.block(statement)) > 1
        assert statement is not None
        fix = Rewrite("use torch's attention", "unsafe", (Remove(statement),)) if plain and not shared(module) else None  # fmt: skip
        alone = caught(module, node)
        found = self._option_finding(module, node.func, _ROW, "note" if alone else None, fix)
        reported = f"{found.finding.message}; the code catches the error, so it also runs with the call" if alone else found.finding.message  # fmt: skip
        yield replace(found, finding=msgspec.structs.replace(found.finding, effort="minutes", message=reported))  # fmt: skip

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        if node.value in PROVIDERS:
            # With another provider beside it, the library goes on with that and says so.
            yield self._option_finding(module, node, "onnxruntime-gpu", "warning")

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        assert node.arg is not None
        yield from self._set(module, node, node.arg, node.value)

    def _set(self, module: Module, node: ast.AST, name: str, given: ast.expr) -> Yield:
        """An option and its value, in a call or as the default of a field."""
        value = module.constant(given)
        if name in SWITCHES:
            if value is True:
                yield self._option_finding(module, node, SWITCHES[name])
            return
        row = module.matrix.row(value, "string") if name == "optim" and isinstance(value, str) else None  # fmt: skip
        if row is not None and row.rule == "HPU722":
            fix = None
            new = ask(module, row.name).target
            if new and isinstance(given, ast.Constant) and not shared(module):
                fix = Rewrite(f"use {new}", "unsafe", (retext(module, given, new),))
            yield self._option_finding(module, node, row.name, fix=fix, option=name)

    def _option_finding(
        self,
        module: Module,
        node: ast.AST,
        row: str,
        severity: Severity | None = None,
        fix: Rewrite | None = None,
        option: str = "",
    ) -> Found:
        answer = ask(module, row)
        shown = module.source(node).splitlines()[0]
        if option and not isinstance(node, ast.keyword):
            shown = f"{option} = {shown}"
        if severity is None:
            severity = SEVERITY.get(answer.status, "note")
            if severity == "error" and any(isinstance(a, ast.If) for a in module.ancestors(node)):
                severity = "warning"  # requested only where somebody wants it
        return self.finding(
            node, f"`{shown}`: {inside(answer.note)}", fix=fix, row=answer.row, severity=severity
        )
