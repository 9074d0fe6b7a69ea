"""Execution: lazy mode and its marks, compilation, what runs slowly. Codes HPU5xx."""

from __future__ import annotations
