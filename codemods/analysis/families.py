"""Files that are one of several backends: ``cuda_accelerator.py`` beside ``xpu_accelerator.py``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .entry import is_entry

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

CUDA = "cuda"
#: What projects call the accelerators beside CUDA; the host has a file of its own for other reasons as well.
_OTHERS = (
    "hpu",
    "xpu",
    "npu",
    "mps",
    "mlu",
    "musa",
    "sdaa",
    "supa",
    "tpu",
    "xla",
    "gaudi",
    "neuron",
)
_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join((CUDA, *_OTHERS))})(?![a-z])")


class Backend(NamedTuple):
    """The accelerator whose code a file holds, and another file of the family, "" where none is seen."""

    accelerator: str
    sibling: str


def backend(module: Module) -> Backend | None:
    """The backend that a file is, by its name; ask for it as a view.

    A file for CUDA is one where the same name exists for another accelerator and the file is no program; one for another
    accelerator where its code speaks of that one as well.
    """
    path = module.path.replace("\\", "/")
    for found in _WORD.finditer(path):
        word = found.group()
        siblings = [f"{path[: found.start()]}{other}{path[found.end() :]}" for other in _OTHERS]
        sibling = next((name for name in siblings if name in module.project.files - {path}), "")
        if word == CUDA and sibling and not is_entry(module):
            return Backend(word, sibling)
        if word not in (CUDA, "hpu", "gaudi") and _speaks_of(module, word):
            return Backend(word, sibling)
    return None


def _speaks_of(module: Module, word: str) -> bool:
    index = module.index
    spoken = (word, f"torch_{word}")
    if any(index.attributes(name) or index.names(name) for name in spoken):
        return True
    return any(re.match(rf"{word}(:|$)", str(text.value)) for text in index.strings(word))
