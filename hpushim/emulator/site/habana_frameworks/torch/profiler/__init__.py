"""Starting and stopping the vendor's profiler: no trace of that kind is emulated; use torch.profiler."""

from __future__ import annotations
