"""A name for each finding that stays the same when lines move: by path, code, the text of its line, and which of its kind it is.

Baselines, code scanning and code quality find what is new by it. It changes when the line itself changes or the file gets another name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from hpushim.model import FileResult, Finding
from hpushim.report.source import Lines

#: Hexadecimal digits; 80 bits separate whatever one project can hold.
_LENGTH = 20


def fingerprints(file: FileResult) -> tuple[str, ...]:
    """One for each finding of ``file``, in their order, all different."""
    return tuple(_each(file))


def _each(file: FileResult) -> Iterator[str]:
    lines = Lines(file) if file.findings else None
    seen: Counter[tuple[str, str]] = Counter()
    for finding in file.findings:
        line = " ".join(lines.line(finding.line).split()) if lines else ""
        key = (finding.code, line or _without_numbers(finding))
        seen[key] += 1
        parts = (file.path, *key, str(seen[key]))
        raw = "\0".join(parts).encode("utf-8", "surrogatepass")
        yield hashlib.sha256(raw).hexdigest()[:_LENGTH]


def _without_numbers(finding: Finding) -> str:
    """What a finding without a line is known by: its message, in which line numbers may change."""
    return "".join(character for character in finding.message if not character.isdigit())
