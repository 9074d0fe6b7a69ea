"""Libraries made for NVIDIA GPUs, and frameworks that differ on Gaudi. Codes HPU7xx."""

from __future__ import annotations
