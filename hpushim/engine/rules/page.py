"""A rule's page: ``codemods/<stem>.md``, which is its documentation, its tests and ``hpushim explain``.

    # HPU102 `cuda-call`
    ## What … ## Why … ## Example … ## Left alone … ## Fix safety … ## References

Examples beyond the first lie in ``<stem>.cases.md``, which has some of the sections, and whose blocks are tests as well.

Fenced blocks are labelled ``LANGUAGE ROLE option=value …``: ``python before``, ``python after``,
``python same``, ``yaml before``, ``text findings`` and so on. Options: ``mode``, ``style``, ``gaudi``, ``stack`` of the
target, ``unsafe=yes``, ``path=`` for rules that look at the file's name, ``requires=lightning<2.5`` for a version of a package that
the project requests, ``declares=--fp16`` for an option that its Python files declare.

A ``python run`` block (on the page itself in a comment, so that readers do not see it) behind a pair of ``before`` and ``after`` makes both whole programs, which tests run: its line ``...``
represents the example. Its options: ``with=`` arguments, ``mode=``, ``except=`` names that may differ (or ``printed``),
``raises=`` the error that ``before`` ends with on Gaudi. ``needs=`` on a ``before`` names what is missing to run it: a package, ``devices``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from hpushim.engine.base.code import Code
from hpushim.engine.rules.registry import every_rule, home
from hpushim.engine.rules.rule import AnyRule

SECTIONS = ("What", "Why", "Example", "Left alone", "Fix safety", "References")

_FENCE = re.compile(r"^(?P<ticks>`{3,}|~{3,})[ \t]*(?P<label>[^\r\n`]*)$")
_HEADING = re.compile(r"^(#{1,2})[ \t]+(.*?)[ \t]*#*$")


class Block(msgspec.Struct, frozen=True):
    """One fenced block."""

    language: str
    #: ``before``, ``after``, ``same``, ``findings``; empty for a block that only illustrates.
    role: str
    options: dict[str, str]
    text: str
    line: int
    section: str


class Page(msgspec.Struct, frozen=True):
    """A rule's page."""

    path: Path
    title: str
    #: Section title → its text, fences included.
    sections: dict[str, str]
    blocks: tuple[Block, ...]
    text: str

    def shown(self) -> str:
        """The text for a reader: without what only makes examples run, each example under a caption."""
        whole = re.sub(r"(?ms)^(?:<!--\n)?```python run\b.*?^```\n(?:-->\n)?\n?", "", self.text)
        captioned = re.sub(r"(?m)^```(\w+) ([a-z].*)$", _captioned, whole)
        return re.sub(r"(?m)^Findings:\n\n```text\n\s*```$", "No findings.", captioned)


_CAPTIONS = {"before": "Before", "after": "After", "same": "Not changed", "findings": "Findings"}
#: Options of an example that a reader has to know, and how they are shown.
_SHOWN = {"unsafe": "`--unsafe`", "mode": "mode `{}`", "style": "`--style {}`", "stack": "release {}", "path": "in `{}`"}  # fmt: skip


def _captioned(fence: re.Match[str]) -> str:
    """A fence without its label, which becomes the caption above it."""
    language, label = fence[1], fence[2]
    role, *words = label.split()
    if role not in _CAPTIONS:
        return f"```{language}"
    options = dict(word.partition("=")[::2] for word in words)
    parts = [text.format(options[name]) for name, text in _SHOWN.items() if name in options]
    more = f" ({', '.join(parts)})" if parts else ""
    return f"{_CAPTIONS[role]}{more}:\n\n```{language}"


def read(path: Path) -> Page:
    """Parses one page; raises ValueError with the line for a fence that is never closed."""
    text = path.read_text(encoding="utf-8")
    title, section = "", ""
    sections: dict[str, list[str]] = {}
    blocks: list[Block] = []
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        heading = None if fence else _HEADING.match(line)
        if heading and len(heading.group(1)) == 1:
            title = title or heading.group(2)
        elif heading:
            section = heading.group(2)
            sections[section] = []
        else:
            taken = 1
            if fence:
                block, taken = _block(lines, number, fence, section, path)
                blocks.append(block)
            if section:
                sections[section] += lines[number : number + taken]
            number += taken
            continue
        number += 1
    joined = {name: "\n".join(content).strip("\n") for name, content in sections.items()}
    return Page(path, title, joined, tuple(blocks), text)


def _block(
    lines: list[str], start: int, fence: re.Match[str], section: str, path: Path
) -> tuple[Block, int]:
    ticks = fence.group("ticks")
    end = start + 1
    while end < len(lines) and not re.match(rf"^{ticks[0]}{{{len(ticks)},}}[ \t]*$", lines[end]):
        end += 1
    if end == len(lines):
        raise ValueError(f"{path}:{start + 1}: a fence that is never closed")
    language, _, rest = fence.group("label").strip().partition(" ")
    words = rest.split()
    role = words[0] if words and "=" not in words[0] else ""
    pairs = (word.partition("=") for word in words[1 if role else 0 :])
    content = "\n".join(lines[start + 1 : end])
    block = Block(
        language=language,
        role=role,
        options={name: value or "yes" for name, _, value in pairs},
        text=content + "\n" if content else "",
        line=start + 1,
        section=section,
    )
    return block, end - start + 1


def with_cases(path: Path) -> tuple[Path, ...]:
    """The files of a page: itself, and its cases where there are any."""
    cases = path.with_name(f"{path.stem}.cases.md")
    return (path, cases) if cases.is_file() else (path,)


def whole(path: Path) -> Page:
    """A page together with its cases."""
    first, *more = map(read, with_cases(path))
    for cases in more:
        sections = {
            name: "\n\n".join(filter(None, (text, cases.sections.get(name))))
            for name, text in first.sections.items()
        }
        first = Page(
            path, first.title, sections, (*first.blocks, *cases.blocks), first.text + cases.text
        )
    return first


@cache
def pages() -> dict[str, Path]:
    """Stem → path of the page of every rule that has one."""
    found: dict[str, Path] = {}
    for rule in every_rule():
        path = home(rule).with_suffix(".md")
        if path.is_file():
            found[path.stem] = path
    return found


def stem(rule: AnyRule) -> str:
    """The name that a rule's module and its page share."""
    return rule.__module__.rpartition(".")[2]


def declared(number: str) -> Code | None:
    """What is declared of a code; None for one that no rule gives."""
    return next((rule.codes[number] for rule in every_rule() if number in rule.codes), None)


def explain(code: str, *, cases: bool = False) -> Page | None:
    """The page of a code, with its cases where they are wanted; None for a code that no rule gives."""
    for rule in every_rule():
        if code in rule.codes:
            path = pages().get(stem(rule))
            return (whole if cases else read)(path) if path else None
    return None
