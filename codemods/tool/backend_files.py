"""Files that hold the code of one backend among several, or kernels for NVIDIA GPUs: what they do is right for that one."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.entry import is_entry
from ..analysis.names import words_with

#: What is in the words that other rules rewrite.
_KEPT = ("cuda", "CUDA", "nccl", "NCCL")
CUDA = "cuda"
#: What projects call the accelerators beside CUDA; the host has a file of its own for other reasons as well.
_OTHERS = ("hpu", "xpu", "npu", "mps", "mlu", "musa", "sdaa", "supa", "tpu", "xla", "gaudi", "neuron")  # fmt: skip
#: What rows on compilers of kernels and on the runtimes of NVIDIA carry; ``effort`` says that nothing takes their place.
_KERNELS = ("HPU708", "HPU712")
_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join((CUDA, *_OTHERS))})(?![a-z])")


class BackendFile(Rule):
    """``cuda_accelerator.py`` beside ``xpu_accelerator.py``."""

    HPU026 = Code(
        "file-of-one-backend",
        effort="hours",
        lower={"note": "the file is for an accelerator other than CUDA"},
    )
    also = Wants(texts=("",))

    def on_module(self, module: Module) -> Yield:
        found = _backend(module)
        if not module.tree.body:
            return
        if found is None:
            package = _kernel_language(module)
            # Of a file with nothing to keep, what is said of its import is enough.
            if package is not None and any(words_with(module, part) for part in _KEPT):
                yield self.finding(
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
            module.tree.body[0],
            message,
            severity=None if found.accelerator == CUDA else "note",
            claims=(module.tree,),
        )


class _Backend(NamedTuple):
    """The accelerator whose code a file holds, and another file of the family, "" where none is seen."""

    accelerator: str
    sibling: str


def _backend(module: Module) -> _Backend | None:
    """The backend that a file is, by its name.

    A file for CUDA is one where the same name exists for another accelerator and the file is no program; one for another
    accelerator where its code mentions that one as well.
    """
    path = module.path.replace("\\", "/")
    for found in _WORD.finditer(path):
        word = found.group()
        siblings = [f"{path[: found.start()]}{other}{path[found.end() :]}" for other in _OTHERS]
        sibling = next(
            (name for name in siblings if name != path and name in module.project.files), ""
        )
        if word == CUDA and sibling and not is_entry(module):
            return _Backend(word, sibling)
        if word not in (CUDA, "hpu", "gaudi") and _names(module, word):
            return _Backend(word, sibling)
    return None


def _kernel_language(module: Module) -> str | None:
    """The package without a counterpart on Gaudi, as Triton and TensorRT, without which the file cannot even be imported.

    A program that trains is none: what it takes from such a package is one part of it.
    """
    if module.index.calls("step"):
        return None
    for statement in module.tree.body:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        else:
            continue
        for name in names:
            package = name.partition(".")[0]
            row = module.matrix.row(package)
            if (
                row is not None
                and row.kind == "package"
                and row.rule in _KERNELS
                and row.effort == "none"
                and package not in module.project.shadowing
            ):
                return package
    return None


def _names(module: Module, word: str) -> bool:
    index = module.index
    spoken = (word, f"torch_{word}")
    if any(index.attributes(name) or index.names(name) for name in spoken):
        return True
    return any(re.match(rf"{word}(:|$)", str(text.value)) for text in index.strings(word))
