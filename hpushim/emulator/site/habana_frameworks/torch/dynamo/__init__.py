"""torch.compile on the emulated HPU: the backend ``hpu_backend`` and the device interface that dynamo uses.

The backend is found by the package's entry point, so that nothing of dynamo is imported before it is used.
"""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import module_getattr

_missing = module_getattr(__name__)


def __getattr__(name: str) -> object:
    if name == "HpuInterface":
        from habana_frameworks.torch.dynamo.device_interface import HpuInterface

        return HpuInterface
    return _missing(name)
