"""What of NVIDIA apex training scripts use, said with torch: mixed precision, fused optimizers, norms, DDP.

One file for each part of apex; the table below says which of its modules holds what.
"""

from __future__ import annotations

from typing import Any

from hpushim.shim.imports.apex import amp, fp16_utils, kernels, optimizers, parallel

CODE = "HPU212"
NOTE = "apex is not installed; hpushim answers with torch: bf16 autocast, torch's optimizers, norms and DDP"
ADVICE = "write it with torch, or with habana_frameworks.torch.hpex"


def _of(source: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


_NORMS = _of(kernels, "FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm")
_FP16_UTILS = _of(
    fp16_utils, "BN_convert_float", "FP16_Optimizer", "convert_network", "master_params_to_model_params",
    "model_grads_to_master_grads", "network_to_half", "prep_param_lists", "to_python_float", "tofp16",
)  # fmt: skip

MODULES: dict[str, dict[str, Any]] = {
    "apex": {},
    "apex.amp": _of(
        amp, "initialize", "scale_loss", "master_params", "state_dict", "load_state_dict", "init",
        "disable_casts", "half_function", "float_function", "promote_function",
        "register_half_function", "register_float_function", "register_promote_function", "_amp_state",
    ),
    "apex.optimizers": _of(optimizers, "FusedAdam", "FusedLAMB", "FusedSGD"),
    "apex.optimizers.fused_adam": _of(optimizers, "FusedAdam"),
    "apex.optimizers.fused_lamb": _of(optimizers, "FusedLAMB"),
    "apex.optimizers.fused_sgd": _of(optimizers, "FusedSGD"),
    "apex.normalization": _NORMS,
    "apex.normalization.fused_layer_norm": _NORMS,
    "apex.parallel": _of(
        parallel, "DistributedDataParallel", "SyncBatchNorm", "convert_syncbn_model",
        "create_syncbn_process_group", "Reducer",
    ),
    "apex.parallel.distributed": _of(parallel, "DistributedDataParallel", "Reducer"),
    "apex.parallel.LARC": _of(optimizers, "LARC"),
    "apex.fp16_utils": _FP16_UTILS,
    "apex.fp16_utils.fp16util": _FP16_UTILS,
    "apex.fp16_utils.fp16_optimizer": _of(fp16_utils, "FP16_Optimizer"),
    "apex.multi_tensor_apply": _of(kernels, "MultiTensorApply", "multi_tensor_applier"),
    "apex.contrib": {},
    "apex.contrib.clip_grad": _of(kernels, "clip_grad_norm_"),
}  # fmt: skip
