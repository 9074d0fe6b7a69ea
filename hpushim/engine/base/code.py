"""What a code is: declared once, beside the rule that gives it, and read by the catalogue, the reports and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hpushim.model import Effect, Effort, Safety, Severity

#: Severities, the gravest first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "unknown", "note")


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """``HPU125 = Code("comparison-chooses-kernels", severity="note")`` in the body of a rule, or in a table of codes.

    ``fix`` says how its fixes are applied, the surest first; ``manual`` where there is none. ``effort`` is what one place costs a person where no
    rewrite does it, ``effect`` what it does to a run beyond stopping it. A finding may be less severe than its code: ``lower``
    has the severities that occur, each with the reason. Only a row of a project's own may make it more severe.
    """

    name: str
    severity: Severity = "warning"
    fix: Safety | tuple[Safety, ...] = "manual"
    effort: Effort = "minutes"
    effect: Effect | None = None
    lower: Mapping[Severity, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The severities of its findings, the gravest first."""
        return (self.severity, *sorted(self.lower, key=SEVERITIES.index))

    @property
    def safeties(self) -> tuple[Safety, ...]:
        """How its fixes are applied, the surest first."""
        return self.fix if isinstance(self.fix, tuple) else (self.fix,)
