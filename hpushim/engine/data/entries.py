"""The values of a YAML, JSON or TOML file, each with its way and its place."""

from __future__ import annotations

from typing import Literal

import msgspec

from hpushim.model import Span

#: Values nested deeper than this are nobody's settings, and their paths would fill the memory.
DEPTH = 500


class Entry(msgspec.Struct, frozen=True):
    """One value of a data file."""

    #: The keys and indices that lead to it: ``("trainer", "devices", 0)``.
    path: tuple[str | int, ...]
    kind: Literal["scalar", "mapping", "sequence"]
    #: The value as written, quotes included.
    span: Span
    #: The key as written, quotes included; None for items of a sequence and for the root.
    key: Span | None
    #: What the file's format says the value is: str, bool, int, float or None; None for containers.
    value: str | bool | int | float | None
    #: The quote that opens the scalar (``"``, ``'``), or "" for a plain one and for containers.
    quote: str = ""
    #: Which document of a multi-document YAML file, from 0.
    document: int = 0

    @property
    def dotted(self) -> str:
        """``trainer.devices.0``."""
        return ".".join(str(part) for part in self.path)

    @property
    def name(self) -> str:
        """The last key, ``devices`` for ``trainer.devices.0``; empty at the root."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")
