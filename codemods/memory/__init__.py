"""Memory, random numbers, streams and graphs of the device. Codes HPU4xx."""

from __future__ import annotations
