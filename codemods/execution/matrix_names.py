"""Names that need no rewriting rule of their own: the matrix says what Gaudi does with them."""

from __future__ import annotations

from typing import ClassVar

from hpushim.engine.rules.rule import Costs

from ..bases.row_name import RowNameRule, wants_of

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
