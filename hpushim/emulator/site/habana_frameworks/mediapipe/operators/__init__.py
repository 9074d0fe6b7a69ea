"""Parts of the media pipeline."""

from __future__ import annotations
