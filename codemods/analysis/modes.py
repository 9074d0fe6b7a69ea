"""The variable that chooses the execution mode, and the value that goes with a target."""

from __future__ import annotations

from hpushim.engine.base.text import Text

VARIABLE = "PT_HPU_LAZY_MODE"
#: The values that have ever chosen a mode; any other is not assessed.
_VALUES = ("0", "1", "2")


def wanted(text: Text) -> str:
    """The value that the target's mode requests; "" for a portable target, which runs in either."""
    return {"lazy": "1", "eager": "0", "compile": "0"}.get(text.target.mode, "")


def contradicts(text: Text, value: str) -> bool:
    """Does ``value`` choose another mode than the target's?"""
    return value in _VALUES and bool(wanted(text)) and value != wanted(text)
