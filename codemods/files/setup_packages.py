"""Requirements in a setup script that would replace Gaudi's torch, or that only NVIDIA GPUs can use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.data.requirements import requirements
from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.engine.shell.words import Requirement

from ..analysis.required import (
    ABOUT_CUDA,
    TORCH,
    elsewhere,
    replaces_torch,
    said,
    writes_cuda,
)
from ..analysis.verdict import ask
from ..edits.floor import held, lacks_accelerator
from ..edits.spelling import retext
from ..values.releases import leaves_out_gaudis

_SETUP = ("setuptools.setup", "distutils.core.setup")


class SetupPackages(Rule):
    """``setup(install_requires=["torch==1.13.1", "cupy-cuda12x"])``."""

    HPU824 = Code("cuda-package-in-setup", fix=("safe", "manual"))
    wants = Wants(
        keywords=("install_requires", "extras_require", "setup_requires"), project=(ABOUT_CUDA,)
    )

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call) or module.qualified(call.func) not in _SETUP:
            return
        for text in _texts(module, node.value):
            if not isinstance(text.value, str) or elsewhere(text.value):
                continue
            for item in requirements(text.value):
                written = f"{item.name}{item.specifier}"
                if module.target.style == "agnostic":
                    yield from self._too_old(module, text, item)
                elif item.name in TORCH and leaves_out_gaudis(item.name, item.specifier):
                    row = ask(module, "torch").row
                    yield self.finding(text, replaces_torch(written), row=row)
                elif item.name and not item.option and (note := said(module, item.name)):
                    yield self.finding(text, f"`{item.name}`: {note[0]}", row=note[1])

    def _too_old(self, module: Module, text: ast.Constant, item: Requirement) -> Yield:
        """Code for every accelerator needs a torch that has ``torch.accelerator``; other packages may be for any device."""
        assessed = lacks_accelerator(item.specifier) if item.name == "torch" else None
        if assessed is not None and held(module) is None:  # else the code runs with it
            message, new = assessed
            whole = new and re.sub(r"\s", "", str(text.value)) in (item.name, re.sub(r"\s", "", f"{item.name}{item.specifier}"))  # fmt: skip
            whole = whole and writes_cuda(module) and not module.holds("CUDAExtension")
            fix = Rewrite("require the first release with it", "safe", (retext(module, text, f"torch{new}"),))  # fmt: skip
            yield self.finding(text, message, fix=fix if whole else None)


def _texts(module: Module, node: ast.expr) -> Iterator[ast.Constant]:
    """The texts in a list, a table of lists, or what is added to them; each once, also where two lists are made of each other."""
    waiting, seen = [node], {node}
    while waiting:
        for value in dict.fromkeys(module.values(waiting.pop(0))):
            parts: list[ast.expr] = []
            match value:
                case ast.Constant():
                    yield value
                case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
                    pass
                case ast.Starred(value=inner):
                    parts = [inner]
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    parts = [left, right]
            waiting += (part for part in parts if part not in seen)
            seen.update(parts)
