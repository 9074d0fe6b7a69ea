"""Files that handle Gaudi themselves: their CUDA code is for CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rules.rule import Kept, Rule, Yield
from hpushim.engine.rules.wants import Wants

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: The word inside a name; "throughput" has its letters and is no such name.
_HPU = re.compile(r"(?<![A-Za-z])hpu(?![a-z])|(?<![A-Z])HPU(?![a-z])|Hpu(?![a-z])")
_WORD = re.compile(r"\w+")


class GaudiAware(Rule):
    """``if is_hpu_available(): …``."""

    code = "HPU009"
    name = "file-handles-gaudi"
    severity = "info"
    wants = Wants(texts=("hpu", "HPU", "Hpu"), advice=True)

    def on_module(self, module: Module) -> Yield:
        names = sorted(name for name in set(_WORD.findall(module.text)) if _is_own(name))
        found = [node for name in names for node in _named(module, name)]
        if found and b"cuda" not in module.data:
            yield Kept(module.tree)  # nothing that the user would look for stays
        elif found:
            yield self.finding(
                module,
                min(found, key=module.span),
                "the file has code of its own for Gaudi, so what it does for CUDA stays as it is",
                covers=(module.tree,),
            )


def _is_own(name: str) -> bool:
    """Is it a name of the author's own for Gaudi?

    ``torch.hpu`` and ``"hpu"`` alone are no such name: they are what a rewrite leaves behind.
    """
    small = name.lower()
    return "hpu" in small and small != "hpu" and _HPU.search(name) is not None


def _named(module: Module, name: str) -> Iterator[ast.AST]:
    """What bears a name: reads, attributes, functions, classes, parameters, imports, arguments."""
    index = module.index
    yield from index.names(name)
    yield from index.attributes(name)
    yield from index.keywords(name)
    yield from index.definitions(name)
    for binding in module.bindings_of(name):
        if isinstance(binding.node, ast.arg):
            yield binding.node
    for statement in module.imports:
        for alias in statement.names:
            if (alias.asname or alias.name.rpartition(".")[2]) == name:
                yield alias
