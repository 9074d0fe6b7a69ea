"""Names that need no rewriting rule of their own: the matrix says what Gaudi does with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.python.walk import walk
from hpushim.engine.rules.rule import Costs

from ..analysis.names import called
from ..analysis.placement import is_on_device
from ..analysis.tensors import is_in_module, stays_on_host
from ..bases.row_name import RowNameRule, wants_of

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.matrix import Row

_LOAD = "torch.utils.cpp_extension.load"
_CUDA_EXTENSION = "torch.utils.cpp_extension.CUDAExtension"

_ALSO = {
    "HPU210": "tf32-switch",
    "HPU212": "apex-amp",
    "HPU216": "eight-bit-optimizer",
    "HPU307": "ddp-buckets",
    "HPU313": "collective-limit",
    "HPU316": "process-start",
    "HPU318": "sync-batch-norm",
    "HPU319": "deepspeed-accelerator",
    "HPU504": "optimizer-with-closure",
    "HPU514": "dynamic-shape",
    "HPU516": "in-place-on-view",
    "HPU517": "unused-parameters",
    "HPU518": "autograd-with-cuda",
    "HPU519": "memory-layout",
    "HPU521": "without-kernel-of-its-own",
    "HPU522": "inference-mode",
    "HPU602": "apex-optimizer",
    "HPU603": "clip-grad-norm",
    "HPU604": "foreach-option",
    "HPU614": "device-checkpoint",
    "HPU711": "cuda-extension",
}


class MatrixName(RowNameRule):
    """A use of a name whose row carries one of these codes."""

    code = "HPU512"
    name = "torchscript-or-export"
    costs = Costs(
        hours=("HPU212", "HPU216", "HPU319", "HPU512", "HPU514", "HPU521", "HPU602"),
        none=("HPU711",),
        numbers=("HPU210", "HPU212", "HPU216", "HPU603"),
        speed=(
            "HPU307",
            "HPU504",
            "HPU512",
            "HPU514",
            "HPU517",
            "HPU519",
            "HPU521",
            "HPU522",
            "HPU602",
            "HPU604",
        ),
        kernels=("HPU711",),
    )
    wants = wants_of(("HPU512", *_ALSO))
    also: ClassVar[dict[str, str]] = _ALSO

    def nearer(self, module: Module, node: ast.expr, row: Row) -> Row | None:
        """``load("ops", sources=["ops.cpp", "ops.cu"])`` builds what cannot be built; what stays on the host has any size."""
        if row.rule == "HPU514" and not (is_in_module(module, node) or module.view(is_on_device)):
            return None
        call = called(module, node)
        if row.rule == "HPU514" and call and call.args and stays_on_host(module, call.args[0]):
            return None
        if row.name != _LOAD or call is None or not _builds_cuda(module, call):
            return row
        return module.matrix.row(_CUDA_EXTENSION) or row


def _builds_cuda(module: Module, call: ast.Call) -> bool:
    """Is a source of CUDA among what a call is given, as far as the file shows?"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(keyword.arg == "cuda_sources" for keyword in call.keywords):
        return True
    return any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and part.value.endswith(".cu")
        for each in given
        for value in module.values(each)
        for part in walk(value)
    )
