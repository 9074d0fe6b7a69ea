"""``torch.hpu`` of the emulated device, under the vendor's names; HPU graphs are here in lazy mode only."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch._not_modelled import module_getattr
from habana_frameworks.torch.hpu import _utils, events, memory, metrics, random, streams
from habana_frameworks.torch.hpu._device import (
    _lazy_init,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    memory_usage,
    set_device,
    synchronize,
    utilization,
)
from habana_frameworks.torch.hpu._switches import (
    disable_const_section_serialization,
    disable_dynamic_shape,
    disable_inference_mode,
    disable_matmul3d_2d_reshape,
    disable_optim_output_sif,
    disable_quantization,
    enable_const_section_serialization,
    enable_dynamic_shape,
    enable_inference_mode,
    enable_matmul3d_2d_reshape,
    enable_optim_output_sif,
    enable_quantization,
    enable_recompute_sdp,
    get_autocast_hpu_dtype,
    get_dynamic_shape_status,
    get_sync_debug_mode,
    getDeterministic,
    is_autocast_hpu_enabled,
    recompute_sdp_enabled,
    sdp_kernel,
    set_autocast_hpu_dtype,
    set_autocast_hpu_enabled,
    set_sync_debug_mode,
    setDeterministic,
)
from habana_frameworks.torch.hpu._tensor_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from habana_frameworks.torch.hpu._utils import HABANA_VISIBLE_MODULES_VAR, HLS_MODULE_ID_VAR
from habana_frameworks.torch.hpu.events import Event
from habana_frameworks.torch.hpu.memory import (
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from habana_frameworks.torch.hpu.metrics import metric_global, metric_localcontext, metrics_dump
from habana_frameworks.torch.hpu.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_ctx,
    set_rng_state,
    set_rng_state_all,
    unset_rng_ctx,
)
from habana_frameworks.torch.hpu.streams import (
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_info,
    is_lazy_mode,
    record_stream,
    set_stream,
    stream,
)
from habana_frameworks.torch.utils.internal import is_lazy

if is_lazy():
    from habana_frameworks.torch.hpu import graphs
    from habana_frameworks.torch.hpu.graphs import (
        CachedParams,
        GraphModel,
        HPUGraph,
        ModuleCacher,
        TensorPacker,
        copy_to,
        extract_tensors,
        get_tensor_info,
        get_user_input_tensor_list,
        graph,
        hpu_graph_print,
        input_hash,
        is_current_stream_capturing,
        make_graphed_callables,
        stringify,
        wrap_in_hpu_graph,
        wrap_in_hpu_graph_func,
        wrapped_hpugraph_forward,
    )

_LAZY_ONLY = "HPU graphs exist in lazy mode only; set PT_HPU_LAZY_MODE=1 before importing torch, or use torch.compile"

__getattr__ = module_getattr(
    "torch.hpu",
    empty_cache="the vendor's package has no such function either (a process keeps the whole device memory)",
    reset_max_memory_allocated="the vendor's package lacks it too; use reset_peak_memory_stats()",
    **dict.fromkeys(
        ("wrap_in_hpu_graph", "ModuleCacher", "HPUGraph", "graph", "make_graphed_callables"),
        _LAZY_ONLY,
    ),
)
