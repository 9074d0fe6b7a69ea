"""TorchScript, which Gaudi does not have: said where a program compiles for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import callers, log, policy
from hpushim.shim.patch import WARN, patch

Original = Callable[..., Any]


@patch("torch._sources:parse_def", row="torch.jit.script", level=WARN)
def parse_def(original: Original, *args: Any, **kwargs: Any) -> Any:
    """What TorchScript reads of a function: the program's own is told."""
    if policy.is_users(callers.outside("hpushim", "torch").partition(".")[0]):
        log.warn("HPU512", "TorchScript is not available on Gaudi; use torch.compile")
    return original(*args, **kwargs)
