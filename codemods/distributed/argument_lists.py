"""Options of a program in a list of arguments: ``["python", "train.py", "--device", "cuda"]``."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.options import gaudi_value
from ..analysis.project_facts import DEVICE_OPTIONS, OPTION_CHOICES
from ..analysis.verdict import ask
from ..edits.spelling import BACKEND, Literal, chosen, retext, shared


class ArgumentList(Rule):
    """``subprocess.run([…, "--device", "cuda"])``."""

    HPU330 = Code("cuda-in-argument-list", severity="error", fix="safe")
    wants = Wants(strings=("cuda", "nccl"), facts=(DEVICE_OPTIONS, OPTION_CHOICES))

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        around = module.parent(node)
        if not isinstance(around, (ast.List, ast.Tuple)):
            return
        option, value = _option(around.elts, node)
        new = gaudi_value(option, value, module.project) if option.startswith("-") else None
        if new is not None:
            yield self._device_option(module, node, around, value, new)

    def _device_option(
        self, module: Module, node: ast.Constant, around: ast.AST, value: str, new: str
    ) -> Found:
        """All options of one list change together, for one program reads them."""
        text = str(node.value).removesuffix(value) + new
        change = retext(module, node, new)
        if text != new:
            quoted = module.source(node)
            whole = quoted.replace(value, new)
            change = Replace(node, chosen(module, node, whole) if shared(module) else Literal(text))
        return self.finding(
            node,
            f"`{module.source(node)}` passes a setting for CUDA to a program; on Gaudi, pass `{new}`",
            fix=Rewrite(f"use {new}", "safe", (change,), f"arguments:{module.span(around).start}"),
            row=ask(module, "nccl" if new == BACKEND else "cuda").row,
            claims=(node,),
        )


def _option(items: list[ast.expr], node: ast.Constant) -> tuple[str, str]:
    """The option and its value: of ``--device=cuda``, or of two items one behind the other."""
    text = str(node.value)
    option, equals, value = text.partition("=")
    if equals:
        return option, value
    place = next(place for place, item in enumerate(items) if item is node)
    before = items[place - 1] if place else None
    if isinstance(before, ast.Constant) and isinstance(before.value, str):
        return before.value, text
    return "", ""
