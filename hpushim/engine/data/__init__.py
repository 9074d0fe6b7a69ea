"""Settings and requirements: YAML, JSON, TOML and requirements files, each value with its place."""

from __future__ import annotations
