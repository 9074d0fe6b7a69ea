"""The tool itself: what it cannot tell, leaves alone, or says of options and names. Codes HPU0xx."""

from __future__ import annotations
