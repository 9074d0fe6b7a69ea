"""What the programs of claims share: each claim is a function whose result is reported under its name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

found: dict[str, Any] = {}


def claim(check: Callable[[], Any]) -> None:
    """Runs a claim at once and keeps its result; an exception is a result too, so that the others are still heard."""
    try:
        found[check.__name__] = check()
    except Exception as error:
        found[check.__name__] = f"{type(error).__name__}: {error}"


def report() -> None:
    """Prints all results as one line of JSON."""
    sys.stdout.write(f"RESULT {json.dumps(found)}\n")
