"""Files other than Python: documents, notebooks, settings and requirements, each value with its place."""

from __future__ import annotations
