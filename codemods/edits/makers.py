"""Calls that make tensors."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Replace
from hpushim.engine.python.module import Module

from .arguments import add
from .imports import torch


def on_device(module: Module, call: ast.Call, kind: str, device: str) -> tuple[Change, ...]:
    """``FloatTensor(3, 4)``, whose dtype is ``kind``, to ``torch.empty(3, 4, dtype=torch.float32, device=…)``, which takes no memory of the host."""
    dtype, needed = torch(module, call, kind)
    empty, _ = torch(module, call, "empty")
    return (
        Replace(call.func, empty),
        add(call, f"dtype={dtype}, device={device}"),
        *needed,
    )
