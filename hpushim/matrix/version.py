"""Release numbers of the Gaudi software: parsing and ranges."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[int, ...]:
    """``"1.24.1"`` as ``(1, 24, 1)``; ValueError when it is not numbers and dots."""
    return tuple(int(part) for part in text.split("."))


def within(stack: str, since: str, until: str) -> bool:
    """Is ``stack`` in the range? Both ends belong to it and ``until = "1.20"`` includes 1.20.1."""
    version = parse(stack)
    if since and _pad(version) < _pad(parse(since)):
        return False
    if until:
        end = parse(until)
        return version[: len(end)] <= end
    return True


def _pad(version: tuple[int, ...]) -> tuple[int, ...]:
    return version + (0,) * (4 - len(version))
