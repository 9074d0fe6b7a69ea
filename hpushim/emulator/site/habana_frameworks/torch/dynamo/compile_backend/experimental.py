"""Experimental switches of the backend."""

from __future__ import annotations


def enable_compiled_autograd(**kwargs):
    """Trace backward too (torch's compiled autograd) with ``hpu_backend``; ``kwargs`` go to torch.compile."""
    import torch
    from torch._dynamo import compiled_autograd

    def compiler(graph_module):
        return torch.compile(graph_module, backend="hpu_backend", **kwargs)

    enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
    enable(compiler).__enter__()
