"""Answering a question about one name, whatever kind of name it is, and never from what is said of another one.

A row answers for its own names; a family such as ``NCCL_*`` for its members; the row of a third-party package that as a whole
does not work, or has no effect, for what is in it. Everything in torch answers for itself: ``torch.cat`` is no question about torch.
A name without a row is looked up among the operators, and among the names of the vendor's package. What is in none of them is unknown.
"""

from __future__ import annotations

import difflib

import msgspec

from hpushim.matrix import vendor_names
from hpushim.matrix.operators import spellings
from hpushim.matrix.query import WHOLE, Matrix, Verdict
from hpushim.matrix.schema import Row
from hpushim.model import Target

_LIKE = 0.65  # `cdua` and `cuda` are at 0.75


class Answer(msgspec.Struct, frozen=True):
    """What is known of a name. Without ``verdict``, ``leads_here``, ``operators`` and ``vendor`` nothing is: it is unknown."""

    name: str
    verdict: Verdict | None = None  #: of the name's own row, or of the package that holds it
    leads_here: tuple[Row, ...] = ()  #: rows whose target the name is
    operators: tuple[str, ...] = ()  #: overloads that the name calls, by full name
    vendor: bool = False  #: a name of the vendor's package, of which the matrix says nothing
    above: Row | None = None  #: of an unknown name: the nearest module or class with a row
    holding: tuple[Row, ...] = ()  #: of an unknown name: rows whose names contain it

    @property
    def known(self) -> bool:
        """Is there an answer?"""
        return bool(self.verdict or self.leads_here or self.operators or self.vendor)


def look_up(matrix: Matrix, name: str, target: Target) -> Answer:
    """What the matrix, the operator table and the vendor's names know of ``name``; ``()`` at its end does not matter."""
    name = name.strip().removesuffix("()")
    back = matrix.reverse(name) if name else ()
    if verdict := _own(matrix, name, target):
        return Answer(name, verdict, back)
    operators = matrix.operators.named(name)
    vendor = vendor_names.known(name)
    if back or operators or vendor:
        return Answer(name, None, back, operators, vendor)
    row = matrix.covering(name)
    holding = matrix.find(name) if len(name) > 2 else ()
    above = row if row and row.kind in ("python", "package") and row.name != "torch" else None
    return Answer(name, above=above, holding=holding)


def _own(matrix: Matrix, name: str, target: Target) -> Verdict | None:
    """The verdict of the row that answers for the name itself."""
    row = matrix.row(name) or matrix.covering(name)
    if row is None:
        return None
    verdict = matrix.assess(row, target, name)
    whole = row.kind == "package" and row.name != "torch" and verdict.status in WHOLE
    return verdict if not verdict.inherited or whole else None


def near(matrix: Matrix, name: str, limit: int = 5) -> tuple[str, ...]:
    """Names with a row, of operators and of the vendor's package that resemble an unknown name, the best first."""
    vendor = vendor_names.names()
    known = {*vendor, *matrix.operators.packets}
    if name.startswith("torch.hpu."):
        known |= {one.removeprefix("habana_frameworks.") for one in vendor if ".torch.hpu." in one}
    if "." in name and "::" not in name:
        known |= {spelled for packet in matrix.operators.packets for spelled in spellings(packet)}
    found = {
        *matrix.near(name, limit),
        *difflib.get_close_matches(name, sorted(known), limit, 0.75),
    }
    graded = sorted((-_likeness(name, one), one) for one in found)
    alike = [one for grade, one in graded if -grade >= _LIKE]
    # `F.relu` resembles nothing, and is written so everywhere.
    last = name.rpartition(".")[2]
    alike += [one for one in sorted(known) if "." in name and one.rpartition(".")[2] == last]
    return tuple(dict.fromkeys(alike))[:limit]


def _likeness(name: str, other: str) -> float:
    """How alike two names are, from 0 to 1, without the parts that both begin with; of a bare word the last part counts."""
    if "." not in name:
        return difflib.SequenceMatcher(None, name, other.rpartition(".")[2]).ratio()
    mine, others = name.split("."), other.split(".")
    while len(mine) > 1 and len(others) > 1 and mine[0] == others[0]:
        del mine[0], others[0]
    return difflib.SequenceMatcher(None, ".".join(mine), ".".join(others)).ratio()
