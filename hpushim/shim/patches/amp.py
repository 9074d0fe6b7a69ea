"""Mixed precision: autocast in every spelling becomes bf16 on HPU, and GradScaler passes everything through."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log, policy
from hpushim.shim.patch import APPROXIMATE, EXACT, patch

Original = Callable[..., Any]

_STATE = "_hpushim_cuda_state"
_LISTS = "autocast follows Gaudi's lists of operators, not CUDA's: softmax, log_softmax, normalisation, mul and mean run in bfloat16"
_AUTOCAST = ("device_type", "dtype", "enabled", "cache_enabled")


@patch(
    "torch.amp.autocast_mode:autocast.__init__",
    row="torch.autocast",
    level=APPROXIMATE,
)
def autocast_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """``autocast("cuda", dtype=float16)`` is ``autocast("hpu", dtype=bfloat16)``."""
    named = dict(zip(_AUTOCAST, args, strict=False))
    if len(args) > len(_AUTOCAST) or not named.keys().isdisjoint(kwargs):
        original(self, *args, **kwargs)  # torch says what is wrong with such a call
        return
    named.update(kwargs)
    if not _means_hpu(named.get("device_type")):
        original(self, *args, **kwargs)
        return
    # A region that is off computes nothing in 16 bits, so there is nothing to say of them.
    dtype = _bf16(named.get("dtype")) if named.get("enabled", True) else None
    if not _is_low(dtype):
        # CUDA computes such a region in that dtype; HPU's autocast knows the 16-bit ones only, so it is off.
        dtype = None
        named["enabled"] = False
    elif named.get("enabled", True):
        log.note("HPU202", _LISTS)
    named.update(device_type=devices.DEVICE, dtype=dtype)
    original(self, **named)


def _is_low(dtype: Any) -> bool:
    import torch

    return dtype is None or dtype is torch.bfloat16


def _means_hpu(device_type: Any) -> bool:
    """CUDA by name, or ``hpu``, which is what ``device.type`` says in a script that requested CUDA."""
    return isinstance(device_type, str) and (
        devices.is_cuda_text(device_type) or device_type == devices.DEVICE
    )


def _bf16(dtype: Any) -> Any:
    """bfloat16 for float16; any other dtype as it is, None (the device's own: bfloat16) as well."""
    import torch

    if dtype is not torch.float16:
        return dtype
    log.note("HPU203", "autocast to float16 runs in bfloat16; no loss scaling is needed")
    return torch.bfloat16


def _say_default(dtype: Any) -> None:
    """Says to the program, outside of a region, that the answer is not CUDA's default."""
    import torch

    if dtype is torch.bfloat16 and not torch.is_autocast_enabled(devices.DEVICE) and policy.answers_yes("torch"):  # fmt: skip
        log.note(
            "HPU203",
            "outside of a region, autocast's dtype is bfloat16 here; CUDA's default is float16",
        )


@patch("torch.amp.autocast_mode:is_autocast_available", public="torch.amp", level=EXACT)
@patch("torch:is_autocast_enabled", level=EXACT)
def ask_autocast(original: Original, *args: Any, **kwargs: Any) -> Any:
    """Questions about CUDA autocast, named or meant, are questions about HPU's."""
    if not args and not kwargs:
        return original(devices.DEVICE)
    if args and isinstance(args[0], str):
        return original(devices.text(args[0]), *args[1:], **kwargs)
    if "device_type" in kwargs:
        kwargs["device_type"] = devices.text(kwargs["device_type"])
    return original(*args, **kwargs)


@patch("torch:get_autocast_dtype", level=APPROXIMATE)
def get_autocast_dtype(original: Original, *args: Any, **kwargs: Any) -> Any:
    """HPU's dtype for CUDA's."""
    answer = ask_autocast(original, *args, **kwargs)
    if _means_hpu(kwargs.get("device_type", args[0] if args else None)):
        _say_default(answer)
    return answer


@patch("torch:set_autocast_enabled", level=EXACT)
def set_autocast_enabled(original: Original, *args: Any, **kwargs: Any) -> None:
    """``set_autocast_enabled(True)`` means CUDA; so does ``("cuda", True)``."""
    if len(args) == 1 and isinstance(args[0], bool):
        original(devices.DEVICE, args[0])
    else:
        ask_autocast(original, *args, **kwargs)


@patch("torch:set_autocast_dtype", level=APPROXIMATE)
def set_autocast_dtype(original: Original, device_type: str, dtype: Any) -> None:
    """float16 for CUDA becomes bfloat16 for HPU."""
    if _means_hpu(device_type):
        original(devices.DEVICE, _bf16(dtype))
    else:
        original(device_type, dtype)


@patch("torch:get_autocast_gpu_dtype", level=APPROXIMATE)
def get_autocast_gpu_dtype(original: Original) -> Any:
    """HPU's autocast dtype."""
    import torch

    answer = torch.get_autocast_dtype(devices.DEVICE)
    _say_default(answer)
    return answer


@patch("torch:set_autocast_gpu_dtype", level=APPROXIMATE)
def set_autocast_gpu_dtype(original: Original, dtype: Any) -> None:
    """float16 becomes bfloat16."""
    import torch

    torch.set_autocast_dtype(devices.DEVICE, _bf16(dtype))


@patch(
    "torch.amp.autocast_mode:custom_fwd",
    "torch.amp.autocast_mode:custom_bwd",
    public="torch.amp",
    level=EXACT,
)
def custom(original: Original, *args: Any, **kwargs: Any) -> Any:
    """``custom_fwd(device_type="cuda")`` follows HPU's autocast; ``cast_inputs=float16`` becomes bfloat16."""
    if isinstance(kwargs.get("device_type"), str):
        kwargs["device_type"] = devices.text(kwargs["device_type"])
    if kwargs.get("cast_inputs") is not None:
        kwargs["cast_inputs"] = _bf16(kwargs["cast_inputs"])
    return original(*args, **kwargs)


@patch("torch.cuda.amp.common:amp_definitely_not_available", public="torch.cuda.amp", level=EXACT)
def amp_not_available(original: Original) -> bool:
    """Mixed precision is available."""
    return False


@patch(
    "torch.amp.grad_scaler:GradScaler.__init__",
    row="torch.amp.GradScaler",
    level=APPROXIMATE,
)
def scaler_init(original: Original, self: Any, *args: Any, **kwargs: Any) -> None:
    """A scaler for CUDA is built switched off: bf16 has the range of float32 and needs no scaling."""
    bound = inspect.signature(original).bind(self, *args, **kwargs)
    bound.apply_defaults()
    settings = bound.arguments
    if not _means_hpu(str(settings.get("device", "cuda"))) or not settings["enabled"]:
        original(self, *args, **kwargs)
        return
    log.note("HPU204", "GradScaler does not scale the loss: bfloat16 needs no loss scaling")
    settings["enabled"] = False
    settings["device"] = devices.DEVICE
    original(*bound.args, **bound.kwargs)
    # Kept for get_growth_factor() and the like, and to write a checkpoint that CUDA can resume from.
    for name in ("init_scale", "growth_factor", "backoff_factor", "growth_interval"):
        setattr(self, f"_{name}", settings[name])
    setattr(
        self,
        _STATE,
        {
            "scale": settings["init_scale"],
            "growth_factor": settings["growth_factor"],
            "backoff_factor": settings["backoff_factor"],
            "growth_interval": settings["growth_interval"],
            "_growth_tracker": 0,
        },
    )


@patch("torch.amp.grad_scaler:GradScaler.step", public="torch.amp", level=EXACT)
def scaler_step(original: Original, self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """A step whose gradients are not all finite is skipped, as a scaler does on CUDA; nothing is scaled."""
    if getattr(self, _STATE, None) is None or _finite(optimizer):
        return original(self, optimizer, *args, **kwargs)
    log.note(
        "HPU205",
        "GradScaler skips an optimizer step whose gradients are infinite or NaN, as on CUDA",
    )
    return None


def _finite(optimizer: Any) -> bool:
    """Whether all gradients of an optimizer are finite; waits for the device, as CUDA's scaler does."""
    import torch

    gradients = [
        one.grad.detach()
        for group in optimizer.param_groups
        for one in group["params"]
        if one.grad is not None and one.grad.numel()
    ]
    # The largest element of each: the one reduction with a kernel on Gaudi that cannot overflow.
    largest = [torch.linalg.vector_norm(one, float("inf")) for one in gradients]
    if not largest:
        return True
    return bool(torch.isfinite(torch.stack([one.float() for one in largest])).all())


@patch(
    "torch.amp.grad_scaler:GradScaler.state_dict",
    public="torch.amp",
    level=APPROXIMATE,
)
def scaler_state(original: Original, self: Any) -> dict[str, Any]:
    """The state that CUDA would resume from: what was loaded, or the initial one."""
    state = getattr(self, _STATE, None)
    return original(self) if state is None else dict(state)


@patch(
    "torch.amp.grad_scaler:GradScaler.load_state_dict",
    row="torch.amp.GradScaler.state_dict",
    level=APPROXIMATE,
)
def load_scaler_state(original: Original, self: Any, state_dict: dict[str, Any]) -> None:
    """Takes a CUDA run's state, and an empty one, and keeps it for the next checkpoint."""
    state = getattr(self, _STATE, None)
    if state is None:
        original(self, state_dict)
        return
    state.update(state_dict)
