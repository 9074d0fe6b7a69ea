"""Runs on the pretend machine: for each name that the shim reads of ``torch.hpu``, the CUDA call that needs it, with the
name there, gone, and something else. Prints, as JSON, ``{name: [present, absent, different]}``, each ``ok`` or what was raised."""

from __future__ import annotations

import json
from typing import Any

import torch
from pretend_gaudi import quirks

import hpushim  # noqa: F401  it arms

CALLS: dict[str, str] = {
    "device_count": "torch.cuda.device_count()",
    "get_device_name": "torch.cuda.get_device_name()",
    "set_device": "torch.cuda.set_device(0)",
    "synchronize": "torch.cuda.synchronize()",
    "current_stream": "torch.cuda.current_stream()",
    "default_stream": "torch.cuda.default_stream()",
    "set_stream": "torch.cuda.set_stream(torch.cuda.Stream())",
    "stream": "torch.cuda.stream(torch.cuda.Stream()).__enter__()",
    "memory_allocated": "torch.cuda.memory_allocated()",
    "max_memory_allocated": "torch.cuda.max_memory_allocated()",
    "memory_stats": "torch.cuda.memory_stats()",
    "mem_get_info": "torch.cuda.mem_get_info()",
    "get_device_properties": "torch.cuda.get_device_properties(0).multi_processor_count",
    "reset_peak_memory_stats": "torch.cuda.reset_peak_memory_stats()",
    "reset_accumulated_memory_stats": "torch.cuda.reset_accumulated_memory_stats()",
    "random.manual_seed_all": "torch.cuda.manual_seed(1)",
    "random.seed": "torch.cuda.seed()",
    "random.initial_seed": "torch.cuda.initial_seed()",
    "random.get_rng_state": "torch.cuda.get_rng_state()",
    "random.set_rng_state": "torch.cuda.set_rng_state(state)",
}


class Other(Exception):
    """What the other thing raises."""


def other(*args: Any, **kwargs: Any) -> Any:
    raise Other("another signature in this release")


def outcome(text: str, **names: Any) -> str:
    try:
        eval(text, {"torch": torch, **names})
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


state = torch.cuda.get_rng_state()
found = {}
for name, call in CALLS.items():
    full = f"torch.hpu.{name}"
    present = outcome(call, state=state)
    value = quirks.put(full, None)
    quirks.take_away(full)
    absent = outcome(call, state=state)
    quirks.put(full, other)
    different = outcome(call, state=state)
    quirks.put(full, value)
    assert outcome(call, state=state) == present
    found[full] = [present, absent, different]
print(json.dumps(found))
