"""What the finder gives: one comparison, and how it compares."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """How a device is compared."""

    EQUAL = "equal"  #: ``device.type == "cuda"``, ``!=``, chains, ``operator.eq``, ``assertEqual``
    MEMBER = "member"  #: ``device.type in ("cuda", "xpu")``
    SEARCH = "search"  #: ``"cuda" in str(device)``, ``re.match("cuda", text)``, also of a collection of devices
    METHOD = "method"  #: ``text.startswith("cuda")``, ``text.replace("cuda:", "")``
    LOOKUP = "lookup"  #: ``TABLE[device.type]``, ``counts.get("cuda")``, ``getattr(self, f"run_{device.type}")``
    FUNCTION = "function"  #: ``partial(eq, "cuda")``, ``"cuda".__eq__``, ``methodcaller("startswith", "cuda")``
    INSIDE = "inside"  #: ``len(device.type) == 4``, ``f"{device.type:>6}" == "  cuda"``, ``{"d": device.type} == {"d": "cuda"}``
    PATTERN = "pattern"  #: ``match device.type: case "cuda":``


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison.

    ``node``: the expression that compares, or the ``match`` statement. ``subjects``: what is compared, innermost first
    where text is made of it. ``texts``: the CUDA names that are in the comparison itself, in source order; empty where
    they are elsewhere (a table by name, another file). ``sure``: the file shows that the subject holds a device;
    otherwise only that it is compared with such a word. ``handled``: the code beside it knows ``hpu``.
    """

    node: ast.expr | ast.Match
    form: Form
    subjects: tuple[ast.expr, ...]
    texts: tuple[ast.expr, ...]
    sure: bool
    handled: bool

    @property
    def line(self) -> int:
        """The line that it begins on, from 1."""
        return self.node.lineno
