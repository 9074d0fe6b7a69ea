"""What only CUDA has: graphs, code compiled at run time, copies among the devices of one process; refused with Gaudi's way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import log
from hpushim.shim.patch import ERROR, EXACT, WARN, patch

Original = Callable[..., Any]

_ADVICE = (
    "use torch.compile(backend='hpu_backend'), or HPU graphs (torch.hpu.HPUGraph) in lazy mode"
)


@patch("torch.cuda.graphs:CUDAGraph.__new__", row="torch.cuda.CUDAGraph", level=ERROR)
@patch("torch.cuda.graphs:graph.__init__", row="torch.cuda.graph", level=ERROR)
@patch("torch.cuda.graphs:graph_pool_handle", row="torch.cuda.graph_pool_handle", level=ERROR)
def no_cuda_graph(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: a recorded CUDA graph cannot be replayed on HPU."""
    log.refuse("HPU416", "CUDA graphs do not exist on HPU", _ADVICE)


@patch(
    "torch.cuda.graphs:make_graphed_callables",
    row="torch.cuda.make_graphed_callables",
    level=WARN,
    code="HPU416",
    note="returns the callables unchanged, without a graph; use torch.compile(backend='hpu_backend') for speed",
)
def make_graphed_callables(
    original: Original, callables: Any, sample_args: Any, *args: Any, **kwargs: Any
) -> Any:
    """The callables themselves: the same numbers, without the graph's speed."""
    return callables


@patch(
    "torch.cuda.graphs:is_current_stream_capturing",
    row="torch.cuda.is_current_stream_capturing",
    level=EXACT,
)
def is_current_stream_capturing(original: Original) -> bool:
    """False: nothing is ever captured."""
    return False


@patch("torch.cuda:_sleep", level=ERROR)
@patch("torch.cuda:_compile_kernel", row="torch.cuda._sleep", level=ERROR, since="2.8")
def no_kernel(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: both run CUDA code of their own."""
    log.refuse(
        "HPU417",
        "CUDA code cannot run on HPU",
        "drop the call, or write the function with torch operators",
    )


@patch("torch.cuda:_get_pynvml_handler", level=ERROR)
def no_nvml(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: NVIDIA's library knows no Gaudi."""
    log.refuse(
        "HPU620", "NVIDIA's management library does not support Gaudi", "ask hl-smi or pyhlml"
    )


@patch(
    "torch.cuda.jiterator:_create_jit_fn",
    "torch.cuda.jiterator:_create_multi_output_jit_fn",
    row="torch.cuda.jiterator",
    level=ERROR,
)
def no_jiterator(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Refused: the function is CUDA source."""
    log.refuse(
        "HPU417",
        "CUDA source cannot be compiled for HPU",
        "write the function with torch operators; torch.compile(backend='hpu_backend') fuses them",
    )
