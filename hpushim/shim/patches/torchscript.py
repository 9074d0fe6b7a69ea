"""TorchScript, which Gaudi does not have: device names in what a program compiles mean HPU, and what cannot is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import WARN, patch

Original = Callable[..., Any]

ADVICE = 'use torch.compile, or ask x.device.type in ["cuda", "hpu"]'
_with_is_cuda: dict[str, bool] = {}


@patch("torch._sources:parse_def", row="torch.jit.script", level=WARN)
def parse_def(original: Original, *args: Any, **kwargs: Any) -> Any:
    """TorchScript reads a function's source anew: CUDA's names in it, and questions for CUDA, are HPU's."""
    parsed = original(*args, **kwargs)
    if "cuda" not in parsed.source.lower():
        return parsed
    place = (parsed.filename or "<unknown>", parsed.file_lineno)
    from hpushim.shim.run import (
        scripted,  # finding comparisons takes a third of what activating does
    )

    return parsed._replace(ast=scripted.translated(parsed.ast, place), ctx=_longer(parsed))


def _longer(parsed: Any) -> Any:
    """The function's source for messages, with a line more: torch looks for an attribute's name behind what it is after."""
    from torch._sources import make_source_context

    first, name = parsed.source.split("\n", 1)[0], parsed.ast.body[0].name
    margin = len(first) - len(first.lstrip())
    source = f"{parsed.source}\n#\n"
    return make_source_context(source, parsed.filename, parsed.file_lineno, margin, True, name)


@patch("torch._C:ScriptFunction.__call__", "torch._C:ScriptMethod.__call__", row="torch.jit.script", level=WARN)  # fmt: skip
def run_script(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Scripted code over HPU tensors: reported where nothing else reports them; rejected where they read ``is_cuda``, which TorchScript answers itself."""
    if _on_device(self, args, kwargs):
        if _reads_is_cuda(self):
            log.refuse(
                "HPU512", "TorchScript code reads is_cuda, which is False there on HPU", ADVICE
            )
        if "hpushim.emulator" not in sys.modules:
            log.warn("HPU512", "TorchScript is not available on Gaudi; use torch.compile")
    return original(self, *args, **kwargs)


def _on_device(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    if not tensors and hasattr(script, "owner"):
        # Objects of C++ classes, such as what collectives are called with, say that they have it and have no parameters.
        with suppress(AttributeError):
            tensors = [value for _, value in script.owner.named_parameters()][:1]
    return any(devices.is_hpu(one.device) for one in tensors)


def _reads_is_cuda(script: Any) -> bool:
    name = getattr(script, "qualified_name", "") or f"{script.owner.qualified_name}.{script.name}"
    if name not in _with_is_cuda:
        graph = getattr(script, "inlined_graph", None) or script.graph
        _with_is_cuda[name] = bool(graph.findAllNodes("prim::is_cuda", True))
    return _with_is_cuda[name]
