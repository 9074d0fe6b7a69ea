"""Several processes: backends, wrappers, collectives, launch. Codes HPU3xx."""

from __future__ import annotations
