"""Libraries made for NVIDIA cards, and frameworks that differ on Gaudi. Codes HPU7xx."""

from __future__ import annotations
