"""The bridge's own emulation of peers (PT_HPU_EMULATE_DISTRIBUTED), which the emulated HPU does not model."""

from __future__ import annotations

import os

from habana_frameworks.torch._not_modelled import not_modelled


def is_distributed_emulation_enabled():
    """True if PT_HPU_EMULATE_DISTRIBUTED requests it."""
    return os.environ.get("PT_HPU_EMULATE_DISTRIBUTED", "").lower() in ("1", "true")


def distributed_emulation_apply_if_enabled():
    """NotImplementedError if it is requested."""
    if is_distributed_emulation_enabled():
        raise not_modelled(
            "PT_HPU_EMULATE_DISTRIBUTED", "unset it and start several processes with torchrun"
        )
