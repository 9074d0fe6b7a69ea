"""Lazy mode: the step marks that a CUDA script does not have, after each backward pass and each optimizer step.

Without them lazy mode collects operators until the program requests a value. In eager mode nothing is changed.
"""

from __future__ import annotations

from typing import Any

from hpushim.shim import vendor
from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, patch


@patch("torch.autograd", how="hook", row="torch.Tensor.backward", level=APPROXIMATE)
def mark_after_backward() -> Undo | None:
    """``loss.backward()`` and ``torch.autograd.backward`` end with a mark; ``torch.autograd.grad`` does not."""
    if not vendor.is_lazy():
        return None
    import torch

    original = in_place.clone(torch.autograd.backward)

    def backward(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        vendor.mark_step()

    return in_place.exchange_code(torch.autograd.backward, backward)


@patch("torch.optim.optimizer", how="hook", row="torch.optim.Optimizer.step", level=APPROXIMATE)
def mark_after_step() -> Undo | None:
    """Every optimizer's ``step`` ends with a mark."""
    if not vendor.is_lazy():
        return None
    from torch.optim.optimizer import register_optimizer_step_post_hook

    handle = register_optimizer_step_post_hook(lambda *_: vendor.mark_step())

    def undo() -> bool:
        handle.remove()
        return True

    return undo
