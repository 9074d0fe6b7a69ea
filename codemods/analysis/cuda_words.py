"""CUDA's and NCCL's words in texts: what is a value, a variable or an option, and what is prose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hpushim.engine.base.text import Text
from hpushim.matrix import load
from hpushim.model import Severity
from hpushim.patterns import lazily

from .verdict import inside as phrased

#: A text without these holds none of the words.
_PARTS = ("cuda", "nccl", "CUDA_", "NCCL_")
_VALUE = r"cuda(?::(?:\d+|\*|all))?|nccl"
_WHOLE = lazily(rf"(?:{_VALUE}|cpu:gloo,cuda:nccl|NCCL|CUDA|cuda:(?:\{{[^{{}}]*\}}|%[dsi])?)")
_VARIABLE = lazily(r"(?=\w*(?:CUDA|NCCL)_)[A-Z][A-Z0-9_]*")
_DOTTED = lazily(r"(?:\w+\.)*torch\.cuda(?:\.\w+)*(?:\(\S*\))?;?")
#: ``--device cuda``, ``device=cuda``, ``${DEVICE:-cuda}``, ``${oc.env:DEVICE,cuda}``, ``[cuda, cpu]``.
_INSIDE = lazily(
    rf"(?:(?<![\w-])--?\w[\w.-]*(?:=|[ \t]+)|(?<![\w.\-])[A-Za-z_][\w.]*=|\$\{{[^{{}}\s]*?(?::-|:=|-|=|:|,))"
    rf"['\"]?(?P<value>{_VALUE})(?=$|[\s'\",;|&)}}\]])"
)
#: CUDA's libraries as files name them, and the packages of Linux distributions: ``libcudart.so``, ``libnccl-dev``.
LIBRARIES = r"lib(?:cuda|cudart|cublas\w*|cudnn\w*|cufft\w*|curand|cusolver\w*|cusparse\w*|cupti|nccl\d*|nvrtc|nvidia-ml|nvToolsExt|nvjpeg|nvinfer\w*|npp\w*)"
#: ``NAME=value`` for the programs that a command line starts.
_SETTING = lazily(rf"(?<![\w$])(?P<value>{_VARIABLE.pattern})=")


class CudaWord(NamedTuple):
    """A word in a text with its place there; ``kind`` is ``device``, ``backend``, ``variable`` or ``name``."""

    kind: str
    text: str
    start: int
    end: int


def whole(text: str) -> CudaWord | None:
    """The word that a text is as a whole."""
    kind = ""
    if _WHOLE.fullmatch(text):
        kind = "backend" if "nccl" in text.lower() else "device"
    elif _VARIABLE.fullmatch(text) and load().unread(text) is not None:
        kind = "variable"
    elif _DOTTED.fullmatch(text) or (text.startswith("cuda.") and load().row(f"torch.{text}")):
        kind = "name"
    return CudaWord(kind, text, 0, len(text)) if kind else None


def inside(text: str) -> Iterator[CudaWord]:
    """The words that are values of options, settings and expansions inside a text, such as a command line."""
    if not any(part in text for part in _PARTS) or text.startswith("tensor("):
        return  # a tensor that was printed is data
    for found in _INSIDE.finditer(text):
        value = found["value"]
        kind = "backend" if value == "nccl" else "device"
        yield CudaWord(kind, found.group(), found.start(), found.end())
    for found in _SETTING.finditer(text):
        if load().unread(found["value"]) is None:
            continue
        yield CudaWord("variable", found["value"], found.start("value"), found.end("value"))


_ADVICE = {
    "device": "write `hpu` if it selects the device",
    "backend": "write `hccl` if it selects the backend of torch.distributed",
    "variable": "Gaudi software does not read this variable",
    "method": 'use `.to("hpu")` if it moves a tensor or a module',
    "library": "check what the library offers for Gaudi",
    "name": "use the counterpart in `torch.hpu`, if there is one",
}


class Explanation(NamedTuple):
    """What is said of a word, by which row, and how grave it is."""

    message: str
    row: str | None
    severity: Severity


def explained(text: Text, kind: str, name: str, shown: str, where: str = "here") -> Explanation:
    """What is said of a word of which no rule knows what it does; of a variable without a reader more is known."""
    if kind == "variable":
        row = text.matrix.unread(name)
        if row is not None and row.status == "noop":
            return Explanation(
                f"Gaudi software does not read `{name}`: {phrased(row.note)}", row.name, "note"
            )
        if row is not None and row.target and " " not in row.target:
            message = (
                f"`{shown}` is not changed {where}. Gaudi software reads `{row.target}` instead: change "
                "it by hand"
            )
            return Explanation(message, row.name, "warning")  # a variable stops no program
    if kind == "name":
        row = text.matrix.row(name) or text.matrix.row(f"torch.{name}")
        if row is not None:
            known = row.target.startswith("torch.")
            said = f"on Gaudi it is `{row.target}`" if known else phrased(row.note)
            message = f"hpushim does not know what `{shown}` does {where}, and leaves it; {said}"
            return Explanation(message, row.name, "unknown")
    if kind == "import":
        message = f"`{shown}` is imported but not used here; the import itself works on Gaudi"
        return Explanation(message, None, "note")
    message = f"hpushim does not know what `{shown}` does {where}, and leaves it; {_ADVICE[kind]}"
    return Explanation(message, None, "unknown")
