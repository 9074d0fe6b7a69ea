"""torch's Adam with a step mark after each step, under the vendor's name."""

from __future__ import annotations

from habana_frameworks.torch.core.step_closure import _mark_step_if_lazy

import torch


class Adam(torch.optim.Adam):
    """torch's own class; in lazy mode the step ends with a mark."""

    def step(self, closure=None):
        """One step; returns the closure's loss, or None."""
        loss = super().step(closure)
        _mark_step_if_lazy()
        return loss
