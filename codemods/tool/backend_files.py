"""Files that hold the code of one backend among several, or kernels for NVIDIA GPUs: what they do is right for that one."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.families import CUDA, backend, kernel_language
from ..analysis.words import words_with

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: What is in the words that other rules rewrite.
_KEPT = ("cuda", "CUDA", "nccl", "NCCL")


class BackendFile(Rule):
    """``cuda_accelerator.py`` beside ``xpu_accelerator.py``."""

    HPU026 = Code(
        "file-of-one-backend",
        effort="hours",
        lower={"info": "the file is for an accelerator other than CUDA"},
    )
    also = Wants(texts=("",))

    def on_module(self, module: Module) -> Yield:
        found = backend(module)
        if not module.tree.body:
            return
        if found is None:
            package = kernel_language(module)
            # Of a file with nothing to keep, what is said of its import is enough.
            if package is not None and any(words_with(module, part) for part in _KEPT):
                yield self.finding(
                    module,
                    module.tree.body[0],
                    f"the file is not changed, since it needs `{package}`, which has no counterpart on "
                    "Gaudi; replace that, then migrate again",
                    claims=(module.tree,),
                )
            return
        if found.accelerator == CUDA:
            beside = PurePosixPath(found.sibling).name
            if beside == PurePosixPath(module.path).name:
                beside = found.sibling
            message = (
                f"this file is the CUDA backend next to others such as `{beside}`, and is not "
                "changed; write one for Gaudi"
            )
        else:
            message = f"the file is for `{found.accelerator}`, so its CUDA code is not changed"
        yield self.finding(
            module,
            module.tree.body[0],
            message,
            severity=None if found.accelerator == CUDA else "info",
            claims=(module.tree,),
        )
