"""Arguments of calls that the matrix has rows for: ``Trainer(accelerator=)``, ``Accelerator(mixed_precision='fp16')``."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.matrix import load
from hpushim.model import Safety, Severity

from ..analysis.verdict import said
from ..analysis.versions import judge
from ..edits.arguments import drop, rename
from ..edits.spelling import retext

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.matrix import Row

#: Statuses of what is told where a file is read anyway, and is no reason to read it.
ADVICE = ("native", "noop", "unknown")
SEVERITY: dict[str, Severity] = {
    "unsupported": "error",
    "partial": "warning",
    "changed": "warning",
    "renamed": "warning",
    "unknown": "info",
    "emulated": "info",
    "noop": "info",
}
_ROW = re.compile(r"\((?P<name>\w+)=(?P<value>[^)]*)\)$")
#: Where a row is about any value, the values that are CUDA's; others are as good on Gaudi.
_CUDA_VALUES: dict[str, tuple[object, ...]] = {
    "accelerator": ("gpu", "cuda"),
    "precision": (16, "16", "16-mixed", "16-true", "half"),
    "tf32": (True,),
    "drop_last": (False,),
    "device_map": (),  # told for any class, by the rule on libraries
    "fp16": (True,),
    "no_cuda": (True, False),
    "use_mxfp8_block_scaling": (True,),
}


class RowRule(Rule):
    """Base of the rules whose findings are rows of the matrix: what they say of arguments.

    A subclass wants what :func:`wants_of` gives for its codes.
    """

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """What the rows say of the arguments of a call."""
        call = module.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return
        for row, keyword in given(module, call):
            verdict = judge(module, row)
            if row.rule in self.codes() and verdict.status != "native":
                yield self.finding(
                    module,
                    module.span(keyword),  # told whatever covers the call: it is about the argument
                    f"`{module.source(keyword).splitlines()[0]}`: {said(verdict.note)}",
                    fix=fix(module, call, keyword, row, verdict.status),
                    row=row.name,
                    code=row.rule,
                    severity=SEVERITY[verdict.status],
                )


_CALL = re.compile(r"^(?P<call>[\w.]+)\(\w+=")


def wants_of(codes: Collection[str]) -> Wants:
    """What is called with an argument under these codes: ``lightning.Trainer`` for ``lightning.Trainer(accelerator=)``."""
    rows = [row for row in load().by_kind("argument") if row.rule in codes and may_speak(row)]
    reasons = _called(row for row in rows if row.status not in ADVICE)
    hints = _called(rows) - reasons
    return Wants(names=tuple(sorted(reasons | hints)), hints=hints)


def may_speak(row: Row) -> bool:
    """Is there a target for which the row has something to tell?"""
    return row.status != "native" or any(limit.status for limit in row.limits)


def _called(rows: Iterable[Row]) -> frozenset[str]:
    calls = (_CALL.match(name) for row in rows for name in row.names)
    return frozenset(call["call"] for call in calls if call)


def given(module: Module, call: ast.Call) -> Iterator[tuple[Row, ast.keyword]]:
    """Each row on an argument that ``call`` gives by name, with a value that the row is about."""
    name = module.qualified(call.func)
    if name is None:
        return
    seen: set[str] = set()
    for row in module.matrix.arguments(name):
        for written in row.names:
            found = _ROW.search(written)
            if found is None or written.split("(")[0] != name or row.name in seen:
                continue
            for keyword in call.keywords:
                if keyword.arg == found["name"] and _is_about(module, found["value"], keyword):
                    seen.add(row.name)
                    yield row, keyword


def _is_about(module: Module, wanted: str, keyword: ast.keyword) -> bool:
    if wanted:
        return module.source(keyword.value).replace('"', "'") == wanted
    values = _CUDA_VALUES.get(keyword.arg or "")
    return values is None or module.constant(keyword.value) in values


def fix(
    module: Module, call: ast.Call, keyword: ast.keyword, row: Row, status: str
) -> Rewrite | None:
    """The fix that the row's columns describe; None when they describe none.

    What is not supported anywhere can be left out; another value for it would not be taken either. A fix is
    safe where the code cannot run without it.
    """
    for change in row.args:
        if change.name != keyword.arg:
            continue
        if status == row.status == "unsupported" and change.change != "drop":
            continue
        changes: tuple[Change, ...] = ()
        if change.change == "drop":
            changes = drop(call, keyword.arg)
        elif change.change == "replace" and isinstance(keyword.value, ast.Constant):
            text = change.value.strip("\"'")
            plain = isinstance(keyword.value.value, str) and text != change.value
            new = retext(module, keyword.value, text) if plain else None
            changes = (new or Replace(keyword.value, change.value),)
        elif change.change == "rename":
            changes = (rename(keyword, change.value),)
        if changes:
            safety: Safety = "safe" if status == "unsupported" else "unsafe"
            return Rewrite(f"write it as {row.target or 'on Gaudi'}", safety, changes)
    return None
