"""The backend of torch.compile for hpu."""

from __future__ import annotations

import importlib

from habana_frameworks.torch._not_modelled import module_getattr

_missing = module_getattr(__name__)


def __getattr__(name: str) -> object:
    if name == "enable_compiled_autograd":
        from habana_frameworks.torch.dynamo.compile_backend.experimental import (
            enable_compiled_autograd,
        )

        return enable_compiled_autograd
    if name == "backends":
        return importlib.import_module(f"{__name__}.backends")
    return _missing(name)
