"""From the matrix's verdict on a name to what a fix may do."""

from __future__ import annotations

import re
from typing import NamedTuple

from hpushim.engine.base.text import Text
from hpushim.matrix import Verdict
from hpushim.model import Safety

_WORD = re.compile(r"[A-Z][a-z]*(?:'s)?")
#: Where a sentence of a note ends; a release that a note names beside what it says.
_END = re.compile(r"(?<=[.?]) (?=\S)")
_RELEASE = re.compile(r" \((?:[a-z]+ in )?(?:Gaudi )?releases? [^()]*\)")
#: Words that begin with a capital wherever they are.
_NAMES = frozenset(
    ["Accelerate", "Datasets", "Dynamo", "Fabric", "False", "Gaudi", "Horovod", "Hugging", "Intel", "Lightning", "Megatron", "Optimum",
     "Ray", "Slurm", "Trainer", "Transformers", "Triton", "True"]
)  # fmt: skip


class Answer(NamedTuple):
    """What a rule needs to know of a row: may it be fixed, how safely, and where that is written."""

    row: str | None
    safety: Safety
    status: str
    target: str
    note: str

    @property
    def fixable(self) -> bool:
        return self.safety != "manual"


def ask(text: Text, name: str, default: Safety = "safe") -> Answer:
    """The matrix on ``name`` for the text's target.

    A name that cannot be used on the target has no fix; one whose behaviour is not established has
    an unsafe one at most. A name that the matrix lacks leaves ``default``.
    """
    row = text.matrix.row(name)
    if row is None:
        return Answer(None, default, "", "", "")
    verdict = text.matrix.assess(row, text.target)
    safety = default
    if verdict.status == "unsupported" and not row.target:
        safety = "manual"
    elif verdict.status == "unknown" and default == "safe":
        safety = "unsafe"
    return Answer(row.name, safety, verdict.status, row.target, row.note)


def known(text: Text, name: str) -> tuple[str, Verdict | None]:
    """The longest front part of ``name`` that has a row of its own, and the verdict on it."""
    part = name
    while part.count(".") > 1 or part == name:
        if text.matrix.row(part) is not None:
            return part, text.matrix.verdict(part, text.target)
        part = part.rpartition(".")[0]
        if not part:
            break
    return name, None


def sentence(note: str) -> str:
    """A note as the end of a message: its first two sentences, what happens and what to do; ``hpushim api`` shows the whole note."""
    return " ".join(_END.split(_RELEASE.sub("", note))[:2]).rstrip(".")


def inside(note: str) -> str:
    """A note of the matrix as a part of a sentence: no capital of its own, no full stop."""
    plain = sentence(note)
    first = plain.partition(" ")[0].rstrip(",:;")
    # A name keeps its capital: what has another one, a mark or a digit is one, and so are these.
    if not _WORD.fullmatch(first) or first.removesuffix("'s") in _NAMES:
        return plain
    return plain[:1].lower() + plain[1:]
