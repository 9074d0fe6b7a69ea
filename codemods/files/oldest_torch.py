"""The oldest torch that a project allows, where the code is to be written for every accelerator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from hpushim.engine.base.code import Code
from hpushim.engine.rules.rule import TextRule
from hpushim.model import Finding, Span

if TYPE_CHECKING:
    from hpushim.engine.data.document import Document

#: The first release with ``torch.accelerator``, and releases before it.
_FIRST = "2.6"
_OLDER = ("2.5.1", "2.4.1", "2.1.2", "2.0.1", "1.13.1", "1.8.1")
_TORCH = re.compile(r"(?:pytorch|torch)\s*(?P<allowed>(?:[<>=!~].*)?)")


class OldestTorch(TextRule):
    """``torch>=1.8`` beside code that uses ``torch.accelerator``."""

    HPU820 = Code("torch-too-old-for-accelerator")
    kinds = frozenset({"requirements", "toml", "yaml"})
    markers = ("torch",)

    def check(self, document: Document) -> Iterator[Finding]:
        if document.target.style != "agnostic":
            return
        if document.kind == "requirements":
            for item in document.requirements:
                if item.name == "torch" and not item.option and not item.url:
                    yield from self._judged(document, item.span, item.specifier)
            return
        for entry in document.entries:
            listed = any(isinstance(part, str) and "dependencies" in part for part in entry.path)
            found = _TORCH.fullmatch(str(entry.value)) if listed else None
            if found is not None:
                yield from self._judged(document, entry.span, found["allowed"])

    def _judged(self, document: Document, span: Span, allowed: str) -> Iterator[Finding]:
        try:
            versions = SpecifierSet(re.sub(r"^=(?!=)", "==", allowed.partition(";")[0].strip()))
        except InvalidSpecifier:
            return
        old = next((version for version in _OLDER if version in versions), None)
        if old is not None:
            shown = f"`torch{allowed}`" if allowed else "`torch` without a version"
            yield self.finding(
                document,
                span,
                f"{shown} allows torch {old}, which lacks `torch.accelerator`; require `torch>={_FIRST}`",
            )
