"""Files that are not Python: settings, launch scripts, containers, requirements. Codes HPU8xx."""

from __future__ import annotations
