"""Memory, random numbers, streams and graphs of the card. Codes HPU4xx."""

from __future__ import annotations
