"""Requirements in a setup script that would replace Gaudi's torch, or that only NVIDIA GPUs can use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.data.requirements import requirements
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.required import TORCH, elsewhere, replaces_torch, said
from ..analysis.verdict import ask
from ..values.releases import leaves_out_gaudis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpushim.engine.python.module import Module

_SETUP = ("setuptools.setup", "distutils.core.setup")


class SetupPackages(Rule):
    """``setup(install_requires=["torch==1.13.1", "cupy-cuda12x"])``."""

    HPU824 = Code("cuda-package-in-setup")
    wants = Wants(keywords=("install_requires", "extras_require", "setup_requires"))

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call) or module.qualified(call.func) not in _SETUP:
            return
        if module.target.style == "agnostic":
            return  # the torch of any device is meant
        for text in _texts(module, node.value):
            if not isinstance(text.value, str) or elsewhere(text.value):
                continue
            for item in requirements(text.value):
                written = f"{item.name}{item.specifier}"
                if item.name in TORCH and leaves_out_gaudis(item.name, item.specifier):
                    row = ask(module, "torch").row
                    yield self.finding(module, text, replaces_torch(written), row=row)
                elif item.name and not item.option and (told := said(module, item.name)):
                    yield self.finding(module, text, f"`{item.name}`: {told[0]}", row=told[1])


def _texts(module: Module, node: ast.expr) -> Iterator[ast.Constant]:
    """The texts in a list, a table of lists, or what is added to them."""
    for value in module.values(node):
        match value:
            case ast.Constant():
                yield value
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
                for part in parts:
                    yield from _texts(module, part)
            case ast.Starred(value=inner):
                yield from _texts(module, inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from _texts(module, left)
                yield from _texts(module, right)
