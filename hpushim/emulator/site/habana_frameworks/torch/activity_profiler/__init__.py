"""Extra activities of the vendor's profiler."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch.activity_profiler.activity_profiler import (
    DebugActivity,
    register_habana_activity_profiler,
)
