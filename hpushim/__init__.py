"""Run and port CUDA training scripts on Intel Gaudi (device ``hpu``)."""

from __future__ import annotations

__version__ = "0.1.0"
