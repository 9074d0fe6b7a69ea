"""Python source: parsed, indexed by its words, rewritten by libcst. Knows Python, not CUDA."""

from __future__ import annotations
