"""The loudest line of all: the script trained, and not on its card.

A run that ends with exit code 0 and a falling loss looks like a success, also where everything stayed on the CPU because an option
or a check said so.
"""

from __future__ import annotations

import atexit
import logging
import sys
from typing import Any

from hpushim import messages
from hpushim.shim.imports.waiter import Waiter


class _Steps:
    """Counts optimizer steps until one is made on an HPU."""

    def __init__(self) -> None:
        self.count = 0
        self.where: set[str] = set()
        self.handle: Any = None

    def __call__(self, optimizer: Any, *_: Any) -> None:
        devices = {p.device.type for group in optimizer.param_groups for p in group["params"]}
        if "hpu" in devices:
            self.count = 0
            self.handle.remove()
            return
        self.count += 1
        self.where |= devices

    def tell(self) -> None:
        if self.count and messages.is_speaker():
            messages.emit(
                logging.WARNING,
                f"NOTHING RAN ON HPU: all {self.count} optimizer steps were made on {', '.join(sorted(self.where)) or 'no device'}; "
                "look for an option that the script needs to use its card (such as --cuda), or a check that failed",
            )


def watch() -> None:
    """Says so at the end of this process if it trains and never on an HPU."""
    torch = sys.modules.get("torch")
    if torch is not None:
        _hook(torch)
    else:
        # Not the waiter of the package, which is emptied when the shim is armed or disarmed.
        Waiter().wait_for("torch", _hook)


def _hook(torch: Any) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = _Steps()
    steps.handle = register_optimizer_step_post_hook(steps)
    atexit.register(steps.tell)
