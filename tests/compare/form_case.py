"""One form in which programs compare devices with CUDA; the tables are in ``forms`` and ``further_forms``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FormCase:
    """One form; ``code`` is a whole program."""

    name: str
    code: str
    holds: str = "device"
    lines: tuple[int, ...] = ()
    follows: bool = False  #: a ``word`` that is a device's text when the program runs


def expression(
    name: str, text: str, holds: str = "device", lines: tuple[int, ...] = (2,)
) -> FormCase:
    """A form that is one expression."""
    return FormCase(name, f"def f(x, device, given):\n    return {text}\n", holds, lines)
