"""Files that handle Gaudi themselves: their CUDA code is for CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import claim

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


#: The word inside a name; "throughput" has its letters and is no such name.
_HPU = re.compile(r"(?<![A-Za-z])hpu(?![a-z])|(?<![A-Z])HPU(?![a-z])|Hpu(?![a-z])")


class GaudiAware(Rule):
    """``if is_hpu_available(): …``."""

    code = "HPU009"
    name = "file-handles-gaudi"
    severity = "info"

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if b"hpu" not in module.data.lower():
            return
        aware = next((n for n in module.nodes if _speaks_of_hpu(n)), None)
        if aware is None:
            return
        claim(module, node)
        yield self.finding(
            module,
            aware,
            "the file has code of its own for Gaudi, so what it does for CUDA stays as it is",
        )


def _speaks_of_hpu(node: ast.AST) -> bool:
    """Does the node bring a name of the author's own for Gaudi?

    ``torch.hpu`` and ``"hpu"`` alone are no such name: they are what a rewrite leaves behind.
    """
    if isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        name = node.name
    elif isinstance(node, ast.arg):
        name = node.arg
    elif isinstance(node, ast.alias):
        name = node.asname or node.name.rpartition(".")[2]
    elif isinstance(node, ast.keyword):
        name = node.arg or ""
    else:
        return False
    small = name.lower()
    return "hpu" in small and small != "hpu" and _HPU.search(name) is not None
