"""Arguments of calls that the matrix has rows for: ``Trainer(accelerator=)``, ``Accelerator(mixed_precision='fp16')``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix, Safety, Severity

from ._arguments import drop
from ._strings import retext
from ._torch import dotted
from ._versions import judge

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module
    from hpushim.matrix import Row
    from hpushim.model import Edit

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
    """Base of the rules whose findings are rows of the matrix: what they say of arguments."""

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        return self._arguments(module, node) if node.keywords else ()

    def _arguments(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        for row, keyword in given(module, node):
            verdict = judge(module, row)
            if row.rule in (self.code, *self.also) and verdict.status != "native":
                yield self.finding(
                    module,
                    keyword,
                    f"`{module.source(keyword).splitlines()[0]}`: {verdict.note.rstrip('.')}",
                    fix=fix(module, node, keyword, row, verdict.status),
                    row=row.name,
                    code=row.rule,
                    severity=SEVERITY[verdict.status],
                )


def given(module: Module, call: ast.Call) -> Iterator[tuple[Row, ast.keyword]]:
    """Each row on an argument that ``call`` gives by name, with a value that the row is about."""
    name = dotted(module, call.func)
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


def fix(module: Module, call: ast.Call, keyword: ast.keyword, row: Row, status: str) -> Fix | None:
    """The fix that the row's columns describe; None when they describe none.

    What is not supported anywhere can be left out; another value for it would not be taken either. A fix is
    safe where the code cannot run without it.
    """
    for change in row.args:
        if change.name != keyword.arg:
            continue
        if status == row.status == "unsupported" and change.change != "drop":
            continue
        edits: list[Edit] = []
        if change.change == "drop":
            edits = drop(module, call, keyword.arg)
        elif change.change == "replace" and isinstance(keyword.value, ast.Constant):
            text = change.value.strip("\"'")
            plain = isinstance(keyword.value.value, str) and text != change.value
            new = retext(module, keyword.value, text) if plain else None
            edits = [new or module.replace(keyword.value, change.value)]
        elif change.change == "rename":
            span = module.span(keyword)
            where = type(span)(span.start, span.start + len(keyword.arg.encode()))
            edits = [module.replace(where, change.value)]
        if edits:
            safety: Safety = "safe" if status == "unsupported" else "unsafe"
            return Fix(f"write it as {row.target or 'on Gaudi'}", safety, tuple(edits))
    return None
