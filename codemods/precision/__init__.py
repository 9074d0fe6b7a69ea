"""Precision: autocast, float16, gradient scaling. Codes HPU2xx."""

from __future__ import annotations
