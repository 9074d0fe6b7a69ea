"""Loading the vendor's profiler."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
from habana_frameworks.torch.utils.library_loader import load_habana_profiler
