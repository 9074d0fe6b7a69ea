"""What the matrix says to an event of a ledger: the row that states the fact, found by the event's kind and subject."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpushim.ledgers.model import Advice, Site

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

SHAPES = "inputs of changing shape"
NUMBERS = "numbers given to operators"
BREAKS = "graph breaks in torch.compile"
MEMORY = "memory of a device"
_READ = "torch.Tensor.item"
#: Operators that are a syntax in Python, by the row that mentions it.
_SYNTAX = {
    "index": "indexing with a boolean mask",
    "index_put": "writing through a boolean mask",
    "_index_put_impl": "writing through a boolean mask",
}
_FALLBACK = "operators without a Gaudi kernel"


def of_row(matrix: Matrix, name: str) -> Advice | None:
    """What a row says; None where the matrix has no such row."""
    row = matrix.row(name)
    if row is None:
        return None
    return Advice(row.name, row.rule or "", row.note, row.confidence)


def of_site(matrix: Matrix, site: Site) -> Advice | None:
    """What the matrix says to an event: of the operator or dtype itself where it has a row, else of the kind."""
    if site.kind == "host_sync":
        return _of_operator(matrix, site.what) or of_row(matrix, _READ)
    if site.kind == "cpu_fallback":
        return _of_operator(matrix, site.what) or of_row(matrix, _FALLBACK)
    if site.kind in ("demotion", "refused_dtype"):
        return of_row(matrix, f"torch.{site.what.partition(' ')[0]}")
    if site.kind == "unsupported":
        return of_row(matrix, site.what) or _of_operator(matrix, site.what)
    if site.kind == "recompilation":
        return of_row(matrix, SHAPES)
    if site.kind == "recompilation_by_number":
        return of_row(matrix, NUMBERS)
    if site.kind == "collective_limit":
        return of_row(matrix, "dtypes in collectives") if " of " in site.what else None
    return None


def remark(matrix: Matrix, operator: str) -> str:
    """What the operator table adds of an operator: for which arguments it leaves the device, and the like."""
    return " ".join(matrix.operators.notes.get(operator, ()))


def _of_operator(matrix: Matrix, operator: str) -> Advice | None:
    """The row of ``aten::nonzero`` under its name in Python, if it mentions what comes of it on Gaudi."""
    short = operator.removeprefix("aten::").partition(".")[0].rstrip("_")
    if short in _SYNTAX:
        return of_row(matrix, _SYNTAX[short])
    match = re.fullmatch(r"aten::_?([a-z0-9_]+?)_?(\d*)(\..*)?", operator)
    if match is None:
        return None
    for name in (f"torch.{short}", f"torch.{match.group(1)}", f"torch.Tensor.{match.group(1)}"):
        row = matrix.row(name)
        if row is not None and row.status != "native":
            return of_row(matrix, name)
    return None
