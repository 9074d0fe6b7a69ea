"""One text after the rewrite, and what is said of it."""

from __future__ import annotations

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target


def settled(text: str, kind: str = "python", name: str = "ops.py", style: str = "native") -> tuple[str, list[str]]:  # fmt: skip
    """A file after the rewrite, and the codes of what is said of it."""
    done = settle(text, kind, name, Context(Target(style=style), load()))  # type: ignore[arg-type]
    return done.text, [finding.code for finding in done.findings]


def severities(text: str, code: str) -> list[str]:
    """How bad the findings of a code are."""
    findings = settle(text, "python", "ops.py", Context(Target(), load())).findings
    return [finding.severity for finding in findings if finding.code == code]
