"""Distributed training on the emulated HPU."""

from __future__ import annotations
