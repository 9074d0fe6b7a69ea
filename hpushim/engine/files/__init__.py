"""Files of a project on disk: found, read as text, written so that nothing is lost, put back."""

from __future__ import annotations
