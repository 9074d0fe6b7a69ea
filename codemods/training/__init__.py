"""Training: optimizers, data loading, checkpoints, profiling. Codes HPU6xx."""

from __future__ import annotations
