"""The answer to names of the vendor's package that the emulated HPU has not: an AttributeError that says so.

Libraries probe with ``hasattr`` and ``try: … except ImportError``, so a missing name must stay missing.
"""

from __future__ import annotations

from collections.abc import Callable

ADVICE = "guard the use with hasattr(), or run this part on a Gaudi"


def module_getattr(module: str, **known: str) -> Callable[[str], object]:
    """A module's ``__getattr__``: raises AttributeError naming the emulator; ``known`` maps names to own advice."""

    def missing(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        advice = known.get(name, ADVICE)
        raise AttributeError(f"the emulated HPU does not model {module}.{name}: {advice}")

    return missing


def not_modelled(what: str, advice: str = ADVICE) -> NotImplementedError:
    """The error for a call whose effect cannot be emulated."""
    return NotImplementedError(f"the emulated HPU does not model {what}: {advice}")
