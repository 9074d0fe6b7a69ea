"""``torch.cuda``: is there a device, how many, which one, and waiting for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log, policy
from hpushim.shim.patch import APPROXIMATE, EXACT, WARN, patch

Original = Callable[..., Any]


@patch("torch.cuda:is_available", level=APPROXIMATE)
def is_available(original: Original) -> bool:
    """True for the user's code, see :mod:`hpushim.shim.policy`."""
    return policy.answers_yes()


@patch("torch.cuda:device_count", level=APPROXIMATE)
def device_count(original: Original) -> int:
    """The devices of this machine; a process still addresses one of them only."""
    import torch

    return int(torch.hpu.device_count()) if policy.answers_yes() else 0


@patch("torch.cuda:current_device", level=APPROXIMATE)
def current_device(original: Original) -> int:
    """Always 0: a process holds one device, whichever it is."""
    return 0


@patch("torch.cuda:set_device", level=APPROXIMATE)
@devices.of_device
def set_device(original: Original, device: Any) -> None:
    """Chooses the device by its module id, as the launcher of a Gaudi run does; the index stays 0."""
    index = devices.index_of(device)
    if index is None or index < 0:
        return
    devices.choose_device(index)


@patch("torch.cuda:synchronize", level=EXACT)
@devices.of_device
def synchronize(original: Original, device: Any = None) -> None:
    """Waits for the HPU."""
    import torch

    torch.hpu.synchronize()


@patch("torch.cuda:init", "torch.cuda:_lazy_init", level=EXACT)
def init(original: Original) -> None:
    """The HPU initialises itself at its first use."""


@patch("torch.cuda:is_initialized", level=EXACT)
def is_initialized(original: Original) -> bool:
    """True: the HPU may be used."""
    return True


@patch("torch.cuda:_lazy_call", level=EXACT)
def _lazy_call(original: Original, callable: Callable[[], Any], **kwargs: Any) -> None:
    """Called at once: the HPU counts as initialised, and CUDA keeps nothing back either from then on."""
    callable()


@patch(
    "torch.cuda:_exchange_device",
    "torch.cuda:_maybe_exchange_device",
    row="torch.cuda.device",
    level=EXACT,
)
def exchange_device(original: Original, device: int) -> int:
    """``torch.cuda._DeviceGuard`` and compiled code: the one device was current before, nothing was where no device is given."""
    return -1 if device < 0 else 0


_SYNC_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
_sync_debug_mode = 0


@patch("torch.cuda:set_sync_debug_mode", level=WARN)
def set_sync_debug_mode(original: Original, debug_mode: int | str) -> None:
    """Kept to be read back; nothing warns or stops where the host waits, which is said."""
    global _sync_debug_mode
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            )
        debug_mode = _SYNC_DEBUG_MODES[debug_mode]
    _sync_debug_mode = int(debug_mode)
    if _sync_debug_mode:
        log.warn(
            "HPU414",
            "set_sync_debug_mode has no effect: HPU does not report where the host waits for the device; "
            "the ledger counts these places (hpushim run --ledger PATH)",
        )


@patch("torch.cuda:get_sync_debug_mode", level=EXACT)
def get_sync_debug_mode(original: Original) -> int:
    """What was set: 0, 1 or 2."""
    return _sync_debug_mode


@patch("torch.cuda:device.__init__", level=APPROXIMATE)
@devices.of_device
def device_context_init(original: Original, self: Any, device: Any) -> None:
    """``with torch.cuda.device(i)``: the one device is always current."""
    self.idx = 0
    self.prev_idx = -1


@patch("torch.cuda:device_of.__init__", level=APPROXIMATE)
def device_of_init(original: Original, self: Any, obj: Any) -> None:
    """``with torch.cuda.device_of(x)``: the one device is always current."""
    self.idx = 0
    self.prev_idx = -1


@patch("torch.cuda:device.__enter__", level=EXACT)
def device_context_enter(original: Original, self: Any) -> None:
    """Nothing to switch to."""
    self.prev_idx = -1


@patch("torch.cuda:device.__exit__", level=EXACT)
def device_context_exit(original: Original, self: Any, *exception: Any) -> bool:
    """Nothing to switch back to."""
    return False


@patch("torch.cuda:get_device_name", level=APPROXIMATE)
@devices.of_device
def get_device_name(original: Original, device: Any = None) -> str:
    """The name of the Gaudi."""
    import torch

    return str(torch.hpu.get_device_name())


@patch("torch.cuda:get_device_capability", level=WARN)
@devices.of_device
def get_device_capability(original: Original, device: Any = None) -> tuple[int, int]:
    """A capability for code that compares: ``(8, 0)`` turns bf16 on; ``HPUSHIM_CAPABILITY`` sets another."""
    from hpushim.shim import properties

    text = ".".join(map(str, properties.capability()))
    log.warn("HPU112", f"Gaudi has no CUDA compute capability; hpushim returns {text}")
    return properties.capability()


@patch("torch.cuda:is_bf16_supported", level=EXACT)
def is_bf16_supported(original: Original, *args: Any, **kwargs: Any) -> bool:
    """True on every Gaudi."""
    return True


@patch("torch.cuda:is_tf32_supported", level=EXACT, since="2.7", optional=True)
def is_tf32_supported(original: Original) -> bool:
    """False: Gaudi computes float32 in float32."""
    return False


@patch("torch.cuda:get_arch_list", level=APPROXIMATE)
def get_arch_list(original: Original) -> list[str]:
    """No CUDA architecture was compiled for."""
    return []


@patch("torch.cuda:get_gencode_flags", level=APPROXIMATE)
def get_gencode_flags(original: Original) -> str:
    """No CUDA architecture was compiled for."""
    return ""


@patch("torch.cuda:can_device_access_peer", level=APPROXIMATE)
@devices.of_device
def can_device_access_peer(original: Original, device: Any, peer_device: Any) -> bool:
    """False: a process holds one device."""
    return False


@patch("torch.cuda:_is_compiled", level=EXACT, optional=True)
def _is_compiled(original: Original) -> bool:
    """What is_available answers: both are called for the same reason."""
    return policy.answers_yes()


@patch("torch._utils:_get_available_device_type", level=EXACT)
def available_device_type(original: Original) -> str:
    """torch queries CUDA first and never HPU; DataParallel and distributed checkpoints follow the answer."""
    return devices.DEVICE


@patch("torch._utils:_get_device_attr", level=EXACT)
def device_attribute(original: Original, get_member: Callable[[Any], Any]) -> Any:
    """torch's question to the module of the available device, which it cannot find for HPU."""
    import torch

    return get_member(torch.cuda)


@patch("torch._utils:_get_all_device_indices", level=EXACT)
def all_device_indices(original: Original) -> list[int]:
    """The one device of the process."""
    return [0]


@patch("torch._utils:_get_device_index", level=EXACT)
def get_device_index(original: Original, device: Any, *args: Any, **kwargs: Any) -> Any:
    """The index of a device that was written as CUDA is 0."""
    if not isinstance(device, int) and devices.is_hpu(_as_device(device)):
        return 0
    return original(device, *args, **kwargs)


@patch("torch.cuda._utils:_get_device_index", level=EXACT)
def get_cuda_device_index(original: Original, device: Any, *args: Any, **kwargs: Any) -> Any:
    """The same answer, for the modules of torch.cuda."""
    return (
        0
        if device is None or devices.is_hpu(_as_device(device))
        else original(device, *args, **kwargs)
    )


def _as_device(device: Any) -> Any:
    if not isinstance(device, str):
        return device
    import torch

    with contextlib.suppress(RuntimeError):
        return torch.device(device)
    return None


@patch("torch.cuda:get_device_properties", level=APPROXIMATE)
@devices.of_device
def get_device_properties(original: Original, device: Any = None) -> Any:
    """The fields that CUDA code reads, answered for a Gaudi."""
    import torch

    from hpushim.shim import properties

    return properties.of(torch.hpu)
