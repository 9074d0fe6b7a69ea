"""Finding the page of a rule: what a page says of one of its codes, and the codes whose pages mention some words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from hpushim.engine.base.code import Code
from hpushim.engine.base.diagnostics import CODES
from hpushim.engine.rules import page
from hpushim.engine.rules.catalogue import codes
from hpushim.engine.rules.page import Page
from hpushim.engine.rules.registry import every_rule

_CODE = re.compile(r"HPU\d{3}")
_WORD = re.compile(r"[a-z][a-z0-9]+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "er", "ed", "es", "s", "e")
#: How much a word counts by where it is.
_NAME, _MESSAGE, _SAID, _WHAT, _REST = 6.0, 3.0, 3.0, 2.0, 0.5


class Entry(msgspec.Struct, frozen=True):
    """One code: its number, what was declared of it, and the first thing that its page says of it."""

    number: str
    code: Code
    first: str


def entry(code: str) -> Entry | None:
    """What a code is, in one line; None for one that no rule gives."""
    for rule in every_rule():
        about = rule.codes.get(code)
        if about is not None:
            found = page.explain(code, cases=True)
            own = code == rule.code and code not in CODES
            first = next(passages(found, code), "") if found and not own else ""
            first = first or (found.sections.get("What", "") if found else "")
            return Entry(code, about, _sentence(first))
    return None


def passages(found: Page, code: str) -> Iterator[str]:
    """What a page says of one code: paragraphs and lines of tables that name it, in the order of the page, without examples."""
    seen: set[str] = set()
    for section, text in found.sections.items():
        if section == "References":
            continue
        for paragraph in _prose(text):
            lines = paragraph.split("\n")
            table = lines[0].startswith("|")
            parts = lines if table else [paragraph]
            for part in parts:
                if code in part and part not in seen:
                    seen.add(part)
                    yield _cells(part) if table else part


def by_meaning(words: str, limit: int = 5) -> tuple[Entry, ...]:
    """The codes whose names, messages and pages mention some words, the best first."""
    stems = set(_stems(words))
    weights = {code: _weights(code) for code in codes()}
    holding = Counter(stem for found in weights.values() for stem in found)
    graded = []
    for code, weight in weights.items():
        hits = [stem for stem in stems if stem in weight]
        grade = sum(weight[stem] * math.log(1 + len(weights) / holding[stem]) for stem in hits)
        # Codes that mention every word come before those that mention one often.
        graded.append((grade * len(hits) / max(len(stems), 1), code))
    best = [code for grade, code in sorted(graded, key=lambda one: (-one[0], one[1])) if grade > 1]
    return tuple(found for code in best[:limit] if (found := entry(code)))


def _weights(code: str) -> dict[str, float]:
    """How much each word counts for a code."""
    found = page.explain(code, cases=True)
    about = entry(code)
    assert found is not None
    assert about is not None
    weights: dict[str, float] = {}
    sources = [
        (about.code.name, _NAME),
        (found.sections.get("What", ""), _WHAT),
        (found.text, _REST),
    ]
    sources += [(part, _SAID) for part in passages(found, code)]
    sources += [(line, _MESSAGE) for line in _messages(found) if code in line]
    for text, weight in sources:
        for stem in _stems(text):
            weights[stem] = max(weights.get(stem, 0.0), weight)
    return weights


def _messages(found: Page) -> Iterator[str]:
    """The messages that a page's examples show."""
    for block in found.blocks:
        if block.role == "findings":
            yield from block.text.splitlines()


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of a section, fenced blocks left out."""
    outside = re.sub(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", "", text, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n", outside):
        if paragraph.strip():
            yield paragraph.strip()


def _cells(line: str) -> str:
    """A line of a table as a sentence would have it: ``HPU016: …``."""
    cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    return f"{cells[0]}: {'; '.join(cells[1:])}"


def _sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    whole = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[.:;]) ", whole, maxsplit=1)[0].rstrip(".:;")


def _stems(text: str) -> Iterator[str]:
    """The words of a text without their endings, names taken apart: ``checkpoints`` and ``checkpointing`` are one word."""
    for word in _WORD.findall(_CODE.sub(" ", text).lower()):
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) > 2:
                word = word[: -len(ending)]
                break
        yield word
