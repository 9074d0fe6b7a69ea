"""Sparse tensors, which Gaudi does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import claimed
from ._torch import dotted

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_ROW = "torch.sparse_coo_tensor"
_METHODS = frozenset(
    {
        "to_sparse",
        "to_sparse_coo",
        "to_sparse_csr",
        "to_sparse_csc",
        "to_sparse_bsr",
        "to_sparse_bsc",
    }
)
_EMBEDDING = "torch.nn.Embedding"
_FUNCTIONS = ("torch.sparse_", "torch.sparse.", "torch.spmm", "torch.dsmm", "torch.hspmm")


class SparseTensor(Rule):
    """``torch.sparse_coo_tensor``, ``x.to_sparse()``, ``nn.Embedding(…, sparse=True)``."""

    code = "HPU124"
    name = "sparse-tensor"
    severity = "error"
    # helper modules build the matrices, and often nothing in them says "cuda"
    markers = (b"sparse", b"spmm", b"dsmm")

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        name = dotted(module, node.func) or ""
        method = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
        if not method and not name.startswith((*_FUNCTIONS, _EMBEDDING)):
            return ()
        return self.judged(module, node, name)

    def judged(self, module: Module, node: ast.Call, name: str) -> Iterator[Finding]:
        """The finding on a call that works on sparse tensors, or may make one."""
        if claimed(module, node):
            return
        shown = module.source(node.func)
        if name.startswith(_FUNCTIONS):
            yield self.told(module, node.func, f"`{shown}` works on sparse tensors")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            yield self.told(module, node.func, f"`.{node.func.attr}` makes a sparse tensor")
        elif name.startswith(_EMBEDDING):
            yield from self.gradients(module, node)

    def gradients(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        """The ``sparse=`` of an embedding, unless it is plainly off."""
        for word in node.keywords:
            off = isinstance(word.value, ast.Constant) and not word.value.value
            if word.arg == "sparse" and not off:
                shown = module.source(word)
                yield self.told(module, word, f"`{shown}` makes sparse gradients")

    def told(self, module: Module, node: ast.AST, what: str) -> Finding:
        """The finding; whether this tensor reaches the card is not for the text to say."""
        return self.finding(
            module, node, f"{what}, which Gaudi does not have; keep it dense", row=_ROW
        )
