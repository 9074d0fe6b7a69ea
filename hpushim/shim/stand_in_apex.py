"""What of NVIDIA apex training scripts use, said with torch: mixed precision, fused optimizers, norms, DDP."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel as _TorchDDP

from hpushim.shim import log, stand_in_apex_extras, stand_in_larc
from hpushim.shim.stand_in_apex_extras import (  # noqa: F401  (the loader takes them from here)
    BN_convert_float,
    FP16_Optimizer,
    MultiTensorApply,
    Reducer,
    clip_grad_norm_,
    convert_network,
    master_params_to_model_params,
    model_grads_to_master_grads,
    multi_tensor_applier,
    network_to_half,
    prep_param_lists,
    to_python_float,
    tofp16,
)

CODE = "HPU212"
NOTE = "apex is not installed; hpushim answers with torch: bf16 autocast, torch's optimizers, norms and DDP"

ADVICE = "write it with torch, or with habana_frameworks.torch.hpex"
_LEVELS = ("O0", "O1", "O2", "O3")


def initialize(
    models: Any, optimizers: Any = None, enabled: bool = True, opt_level: str = "O1", **options: Any
) -> Any:
    """The models, run under bf16 autocast at O1 and above, and the optimizers as they are."""
    if opt_level not in _LEVELS:
        raise RuntimeError(f"apex opt_level {opt_level!r}: expected one of {', '.join(_LEVELS)}")
    if enabled and opt_level != "O0":
        for model in models if isinstance(models, list | tuple) else [models]:
            _autocast_forward(model)
    return models if optimizers is None else (models, optimizers)


def _autocast_forward(model: Any) -> None:
    forward = model.forward

    @functools.wraps(forward)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("hpu", dtype=torch.bfloat16):
            return _to_float(forward(*args, **kwargs))

    model.forward = under_autocast


def _to_float(value: Any) -> Any:
    """apex gives the outputs of a model back in float32."""
    from torch.utils._pytree import tree_map_only

    return tree_map_only(
        torch.Tensor, lambda t: t.float() if t.dtype is torch.bfloat16 else t, value
    )


@contextlib.contextmanager
def scale_loss(loss: Any, optimizers: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """The loss itself: bf16 needs no scaling."""
    yield loss


def master_params(optimizer: Any) -> Iterator[Any]:
    """The parameters that the optimizer updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """No scaler, no state."""
    return {}


def load_state_dict(*args: Any, **kwargs: Any) -> None:
    """The state of apex's scalers is not needed."""


def init(*args: Any, **kwargs: Any) -> None:
    """The oldest entry point; autocast is per model here."""


def half_function(function: Any) -> Any:
    """The function itself: autocast knows the operators that run in 16 bits."""
    return function


float_function = promote_function = half_function


def register_half_function(module: Any, name: str) -> None:
    """Nothing to register."""


register_float_function = register_promote_function = register_half_function


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """A block without autocast."""
    with torch.autocast("hpu", enabled=False):
        yield


class FusedAdam(torch.optim.AdamW):  # type: ignore[misc]
    """torch's AdamW; with ``adam_w_mode=False`` the constructor makes torch's Adam."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["adam_w_mode"]:
            return super().__new__(cls)
        _refuse_variants(given["bias_correction"], given["amsgrad"])
        names = ("lr", "betas", "eps", "weight_decay")
        return torch.optim.Adam(given["params"], **{name: given[name] for name in names})

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **ignored: Any,
    ) -> None:
        _refuse_variants(bias_correction, amsgrad)
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


def _refuse_variants(bias_correction: bool, amsgrad: bool) -> None:
    if not bias_correction or amsgrad:
        log.refuse(
            "HPU602",
            "apex FusedAdam with bias_correction=False or amsgrad=True",
            "use torch.optim directly",
        )


def FusedLAMB(params: Any, lr: float = 1e-3, **options: Any) -> Any:
    """The vendor's FusedLamb; options that it lacks are dropped, and named."""
    from habana_frameworks.torch.hpex.optimizers import FusedLamb

    known = inspect.signature(FusedLamb.__init__).parameters
    dropped = sorted(name for name, value in options.items() if name not in known and value)
    if dropped:
        log.warn("HPU602", f"apex FusedLAMB: {', '.join(dropped)} of apex has no counterpart")
    return FusedLamb(params, lr=lr, **{k: v for k, v in options.items() if k in known})


class FusedSGD(torch.optim.SGD):  # type: ignore[misc]
    """torch's SGD."""

    def __init__(self, params: Any, lr: float, *args: Any, **kwargs: Any) -> None:
        for name in ("wd_after_momentum", "materialize_master_grads", "set_grad_none"):
            kwargs.pop(name, None)
        super().__init__(params, lr, *args, **kwargs)


class FusedLayerNorm(torch.nn.LayerNorm):  # type: ignore[misc]
    """torch's LayerNorm."""


class FusedRMSNorm(torch.nn.RMSNorm):  # type: ignore[misc]
    """torch's RMSNorm."""


MixedFusedLayerNorm = FusedLayerNorm
MixedFusedRMSNorm = FusedRMSNorm


class DistributedDataParallel(_TorchDDP):  # type: ignore[misc]
    """torch's DistributedDataParallel; apex's own options have no counterpart."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(module)


SyncBatchNorm = torch.nn.SyncBatchNorm
LARC = stand_in_larc.LARC


def convert_syncbn_model(module: Any, process_group: Any = None, **kwargs: Any) -> Any:
    """Every batch norm of the model synchronised, by torch."""
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)


def create_syncbn_process_group(group_size: int) -> Any:
    """A group of the ``group_size`` processes among which this one is; None for all of them."""
    import torch.distributed as dist

    size = dist.get_world_size()
    if group_size in (0, size):
        return None
    if size < group_size or size % group_size:
        raise ValueError(f"{size} processes do not divide into groups of {group_size}")
    mine = None
    for first in range(0, size, group_size):
        ranks = list(range(first, first + group_size))
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine


_NORMS = ("FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm")
MODULES: dict[str, tuple[str, ...]] = {
    "apex": (),
    "apex.amp": (
        "initialize", "scale_loss", "master_params", "state_dict", "load_state_dict", "init", "disable_casts",
        "half_function", "float_function", "promote_function",
        "register_half_function", "register_float_function", "register_promote_function",
    ),
    "apex.optimizers": ("FusedAdam", "FusedLAMB", "FusedSGD"),
    "apex.normalization": _NORMS,
    "apex.normalization.fused_layer_norm": _NORMS,
    "apex.parallel": (
        "DistributedDataParallel", "SyncBatchNorm", "convert_syncbn_model", "create_syncbn_process_group", "Reducer",
    ),
    "apex.parallel.distributed": ("DistributedDataParallel", "Reducer"),
    "apex.parallel.LARC": ("LARC",),
    "apex.optimizers.fused_adam": ("FusedAdam",),
    "apex.optimizers.fused_lamb": ("FusedLAMB",),
    "apex.optimizers.fused_sgd": ("FusedSGD",),
    **stand_in_apex_extras.MODULES,
}  # fmt: skip
