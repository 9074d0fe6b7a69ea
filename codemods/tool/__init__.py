"""The tool itself: what it does not know, leaves alone, or reports of options and names. Codes HPU0xx."""

from __future__ import annotations
