"""The oldest torch that a project allows, where the code is to be written for every accelerator."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Requirement
from hpushim.model import Edit, Finding, Fix, Span

from ..analysis.required import writes_cuda
from ..edits.floor import (
    FIRST,
    SAID,
    admits_old_python,
    bounds_of,
    held,
    is_old_image,
    lacks_accelerator,
    older,
    requires,
    stays,
)

_TORCH = re.compile(r"(?:pytorch|torch)\s*(?P<allowed>(?:[<>=!~].*)?)")


class OldestTorch(TextRule):
    """``torch>=1.8`` beside code that uses ``torch.accelerator``."""

    HPU820 = Code(
        "torch-too-old-for-accelerator",
        fix=("safe", "manual"),
        lower={
            "note": "a text says so, which nothing reads but people, a bound of Python allows it, or the code runs with that torch as well"
        },
    )
    kinds = frozenset({"requirements", "toml", "yaml", "dockerfile", "markdown"})
    markers = ("torch", "Torch")

    def check(self, document: Document) -> Iterator[Finding]:
        if document.target.style != "agnostic":
            return
        if held(document) is not None and document.kind in ("dockerfile", "markdown"):
            return  # the code runs with them
        if document.kind == "requirements":
            for item in document.requirements:
                if item.name == "torch" and not item.option and not item.url:
                    yield from self._of_line(document, item)
            return
        if document.kind == "dockerfile":
            yield from self._images(document)
        if document.kind == "markdown":
            yield from self._said(document)
        if document.kind in ("dockerfile", "markdown"):
            return
        for entry in document.entries:
            if (
                entry.path[-1:] == ("requires-python",)
                and admits_old_python(str(entry.value))
                and writes_cuda(document)
                and held(document) is None
            ):
                text = f"`{entry.value}` allows a Python for which torch {FIRST} has no release; raise it with torch"
                yield self.finding(entry.span, text, severity="note")
            listed = any(isinstance(part, str) and "dependencies" in part for part in entry.path)
            found = _TORCH.fullmatch(str(entry.value)) if listed else None
            assessed = lacks_accelerator(found["allowed"]) if found is not None else None
            if found is not None and assessed is not None:
                name = found[0].removesuffix(found["allowed"]).rstrip()
                edit = document.rewrite(entry, f"{name}{assessed[1]}") if assessed[1] else None
                yield from self._findings(document, entry.span, assessed[0], edit)

    def _of_line(self, document: Document, item: Requirement) -> Iterator[Finding]:
        assessed = lacks_accelerator(item.specifier)
        if assessed is None:
            return
        message, new = assessed
        edit = None
        if new and item.specifier_span is not None:
            edit = document.replace(item.specifier_span, new)
        elif new and item.name_span is not None and item.name_span.end == item.span.end:
            edit = document.insert(item.span.end, new)
        yield from self._findings(document, item.span, message, edit)

    def _images(self, document: Document) -> Iterator[Finding]:
        for instruction in document.instructions:
            for word in instruction.words if instruction.keyword == "FROM" else ():
                if is_old_image(word.text):
                    text = f"`{word.text}` has a torch before {FIRST}, which lacks `torch.accelerator`; take a later image"
                    yield self.finding(word.span, text)

    def _said(self, document: Document) -> Iterator[Finding]:
        """The first mention of an older torch, for one is enough for a document, and each lower bound, which is raised where the line is about this code."""
        reported = False
        for found in SAID.finditer(document.text) if writes_cuda(document) else ():
            bounds = bounds_of(found)
            if older(bounds) is None:
                continue
            span = _span(document.text, found, 0)
            edit = None
            if ">" in bounds and not held(document) and requires(_line(document.text, found)):
                edit = document.replace(_span(document.text, found, "version"), FIRST)
            elif reported:
                continue
            reported = True
            text = f"`{found[0].strip()}` in this text is before torch {FIRST}, which `torch.accelerator` needs"
            fix = Fix("require the first release with it", "safe", (edit,)) if edit else None
            yield self._finding(document, span, text, fix, None, None, "note", None, "")

    def _findings(
        self, document: Document, span: Span, message: str, edit: Edit | None
    ) -> Iterator[Finding]:
        """The fix is for this style, in which other fixes of such files are not: every device needs that torch."""
        fix, floor = None, held(document)
        if floor is not None:
            yield self._finding(
                document, span, stays(message, floor), None, None, None, "note", None, ""
            )
            return
        if re.search(r"\[tool\.(?:uv|poetry|pdm)\b", document.text):
            message += "; then renew the lock file"
        if edit is not None and writes_cuda(document):
            fix = Fix("require the first release with it", "safe", (edit,))
        yield self._finding(document, span, message, fix, None, None, None, None, "")


def _line(text: str, found: re.Match[str]) -> str:
    """The line, or the lines, of a match."""
    end = text.find("\n", found.end())
    return text[text.rfind("\n", 0, found.start()) + 1 : end if end >= 0 else len(text)]


def _span(text: str, found: re.Match[str], group: int | str) -> Span:
    start = len(text[: found.start(group)].encode())
    return Span(start, start + len(found[group].encode()))
