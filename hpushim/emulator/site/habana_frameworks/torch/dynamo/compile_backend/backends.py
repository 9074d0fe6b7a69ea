"""``torch.compile(backend="hpu_backend")``: the graphs are traced as on Gaudi and run operator by operator.

Compilation itself is not emulated; the ledger counts the graphs and the shapes they were made for.
"""

from __future__ import annotations

import functools
import logging

from habana_frameworks.torch.dynamo import device_interface
from habana_frameworks.torch.dynamo.compile_backend import config as hpu_backend_config
from habana_frameworks.torch.utils.internal import is_lazy

import torch
from hpushim.emulator import calls, ledger
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

logger = logging.getLogger(__name__)

device_interface._register()


def _run_as_traced(graph_module, example_inputs, kind):
    """A compiler that compiles nothing: counts the graph and runs it as it is."""
    if free_unbacked_symbols(example_inputs):  # sizes marked with mark_unbacked
        calls.object_to("torch.compile(dynamic=True)")
    ledger.add("compiled_graphs")
    logger.debug(
        "hpu_backend (emulated): %s graph with %d nodes", kind, len(graph_module.graph.nodes)
    )
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph_module.forward)


def hpu_backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor], **kwargs):
    """Compile a traced graph for hpu (emulated: run it). RuntimeError in lazy mode, where Gaudi has no such backend."""
    if is_lazy():
        raise RuntimeError(
            "hpu_backend exists in eager mode only, found PT_HPU_LAZY_MODE=1; set PT_HPU_LAZY_MODE=0 before importing "
            "torch, or leave torch.compile out"
        )
    with hpu_backend_config.patch(kwargs.get("options")):
        compiler = aot_autograd(
            fw_compiler=functools.partial(_run_as_traced, kind="forward"),
            bw_compiler=functools.partial(_run_as_traced, kind="backward"),
            inference_compiler=functools.partial(_run_as_traced, kind="inference"),
        )
        return compiler(graph_module, example_inputs)
