"""Sparse tensors, which Gaudi does not have."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.names import called

_ROW = "torch.sparse_coo_tensor"
_FUNCTIONS = (
    "torch.sparse.*",
    "torch.sparse_coo_tensor",
    "torch.sparse_compressed_tensor",
    "torch.sparse_csr_tensor",
    "torch.sparse_csc_tensor",
    "torch.sparse_bsr_tensor",
    "torch.sparse_bsc_tensor",
    "torch.spmm",
    "torch.dsmm",
    "torch.hspmm",
)
_METHODS = (
    "to_sparse",
    "to_sparse_coo",
    "to_sparse_csr",
    "to_sparse_csc",
    "to_sparse_bsr",
    "to_sparse_bsc",
)
_EMBEDDING = "torch.nn.Embedding"


class SparseTensor(Rule):
    """``torch.sparse_coo_tensor``, ``x.to_sparse()``, ``nn.Embedding(…, sparse=True)``."""

    HPU124 = Code(
        "sparse-tensor",
        severity="error",
        fix=("unsafe", "manual"),
        effort="hours",
        lower={"warning": "sparse gradients are optional and may be off"},
    )
    wants = Wants(names=_FUNCTIONS, calls=_METHODS, keywords=("sparse",))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        of_torch = name.startswith("torch.sparse.torch.")  # imported there
        if called(module, node) is not None and module.qualified(node) == name and not of_torch:
            yield self._sparse(node, f"`{module.source(node)}` works on sparse tensors")

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        if isinstance(node.func, ast.Attribute):
            yield self._sparse(node.func, f"`.{node.func.attr}` makes a sparse tensor")

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """The ``sparse=`` of an embedding, unless it is plainly off."""
        call = module.parent(node)
        is_off = isinstance(node.value, ast.Constant) and not node.value.value
        if isinstance(call, ast.Call) and not is_off:
            name = module.qualified(call.func) or ""
            if name.startswith(_EMBEDDING):
                if isinstance(node.value, ast.Constant):
                    off = Rewrite("make dense gradients", "unsafe", (Replace(node.value, "False"),))
                    yield self.finding(
                        node,
                        f"`{module.source(node)}` makes sparse gradients, which Gaudi does not support; set it to False",
                        fix=None if module.holds("SparseAdam") else off,
                        row=_ROW,
                        effort="minutes",
                    )
                else:
                    yield self.finding(
                        node,
                        f"where `{module.source(node)}` is true, gradients are sparse, which Gaudi does not "
                        "support; keep it False on Gaudi",
                        row=_ROW,
                        severity="warning",
                    )

    def _sparse(self, node: ast.AST, what: str) -> Found:
        """The finding; whether this tensor reaches the device is not for the text to say."""
        return self.finding(
            node, f"{what}, which Gaudi does not support; use a dense tensor", row=_ROW
        )
