"""Every rule's page holds: its examples are rewritten as shown, stay put afterwards, and nothing else moves."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePath
from typing import Any

import pytest
from crossed import EVERY

from hpushim.codemods.analysis.launches import PASSES_RANK
from hpushim.codemods.analysis.project_facts import DEVICE_PARAMETERS, EXTENSIONS
from hpushim.codemods.edits import neutral
from hpushim.engine.assess import interesting
from hpushim.engine.base.diagnostics import CODES
from hpushim.engine.base.kind import Kind
from hpushim.engine.base.text import ALONE, Project
from hpushim.engine.context import Context
from hpushim.engine.files.kinds import by_name
from hpushim.engine.one_file import examine, settle
from hpushim.engine.rules import page as pages
from hpushim.engine.rules.page import Block, Page
from hpushim.engine.rules.registry import every_rule
from hpushim.engine.rules.rule import AnyRule
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Finding, Target

KINDS: dict[str, Kind] = {
    "python": "python",
    "py": "python",
    "yaml": "yaml",
    "json": "json",
    "jsonc": "json",
    "toml": "toml",
    "ini": "ini",
    "bash": "shell",
    "sh": "shell",
    "shell": "shell",
    "dockerfile": "dockerfile",
    "makefile": "makefile",
    "requirements": "requirements",
    "notebook": "notebook",
    "markdown": "markdown",
}
NAMES: dict[Kind, str] = {
    "python": "train.py",
    "notebook": "train.ipynb",
    "yaml": "config.yaml",
    "json": "config.json",
    "toml": "config.toml",
    "ini": "setup.cfg",
    "shell": "train.sh",
    "dockerfile": "Dockerfile",
    "requirements": "requirements.txt",
    "makefile": "Makefile",
    "markdown": "README.md",
}
TARGET_OPTIONS = ("gaudi", "stack", "mode", "style")


def _pages() -> list[Page]:
    """The pages and their cases, each file by itself."""
    return [pages.read(file) for path in pages.pages().values() for file in pages.with_cases(path)]


def _stem(page: Page) -> str:
    return page.path.name.partition(".")[0]


def _rules_of(page: Page) -> list[AnyRule]:
    return [rule for rule in every_rule() if pages.stem(rule) == _stem(page)]


def _codes(page: Page) -> set[str]:
    return {code for rule in _rules_of(page) for code in rule.codes}


def _context(block: Block) -> Context:
    options: dict[str, Any] = {k: v for k, v in block.options.items() if k in TARGET_OPTIONS}
    asked = re.fullmatch(r"([\w-]+)(\W.*)", block.options.get("requires", ""))
    declared = frozenset(filter(None, [block.options.get("declares")]))
    pins = ((asked[1], asked[2]),) if asked else ()
    facts = {"builds": EXTENSIONS, "takes": DEVICE_PARAMETERS, "passes": PASSES_RANK}
    collected = tuple(
        (fact.name, frozenset({block.options[option]}))
        for option, fact in facts.items()
        if option in block.options
    )
    imported = frozenset(
        ("ours", name.partition(":")[0]) for _, names in collected for name in names
    )
    known = pins or declared or collected
    project = (
        Project(pins=pins, options=declared, collected=collected, imported=imported)
        if known
        else ALONE
    )
    return Context(Target(**options), load(), project, unsafe="unsafe" in block.options)


def _kind(block: Block) -> tuple[Kind, str]:
    """The kind of file that a block stands for, and a path of that kind (``path=`` wins)."""
    kind = KINDS.get(block.language)
    path = block.options.get("path", NAMES[kind] if kind else "")
    kind = kind or by_name(PurePath(path))
    assert kind is not None, f"line {block.line}: `{block.language}` is no kind of file; add path="
    return kind, path


def _run(block: Block) -> Settled:
    kind, path = _kind(block)
    if not interesting(block.text.encode(), kind, path):
        return Settled(block.text, ())
    return settle(block.text, kind, path, _context(block))


def _cases(role: str) -> list[Any]:
    found: list[Any] = []
    for page in _pages():
        for number, block in enumerate(page.blocks):
            if block.role == role:
                following = page.blocks[number + 1 : number + 3]
                found.append(
                    pytest.param(page, block, following, id=f"{page.path.stem}:{block.line}")
                )
    return found


#: Rules without a fix, whose page shows what becomes of the fixes of others.
HELD = {"gaudi_aware"}


def _shown(findings: tuple[Finding, ...]) -> str:
    return "\n".join(f"{f.line}:{f.column}: {f.code} {f.message}" for f in findings)


@pytest.mark.parametrize(("page", "block", "following"), _cases("before"))
def test_before_becomes_after_and_stays(page: Page, block: Block, following: list[Block]) -> None:
    after = following[0] if following else None
    assert after is not None and after.role == "after" and after.language == block.language, (
        f"{page.path.name}:{block.line}: a `before` block needs an `after` block behind it"
    )
    settled = _run(block)
    assert settled.text == after.text, _shown(settled.findings)
    assert {f.code for f in settled.findings if f.applied} & _codes(page) or _stem(page) in HELD, (
        f"none of the page's own codes was applied: {_shown(settled.findings)}"
    )
    again = _run(Block(**{**_fields(after), "options": block.options}))
    assert again.text == after.text, f"second run: {_shown(again.findings)}"
    if block.language == "python":
        ast.parse(after.text)


#: Without what the engine itself says of comments: that is so in any file, and cannot be suppressed.
PYTHON_BEFORE = [
    case
    for case in _cases("before")
    if case.values[1].language == "python" and not _codes(case.values[0]) & set(CODES)
]
HANDLES_GAUDI = "\n\ndef is_hpu_available():\n    return False\n"


@pytest.mark.parametrize(("page", "block", "following"), PYTHON_BEFORE)
def test_before_stays_in_a_file_that_handles_gaudi(
    page: Page, block: Block, following: list[Block]
) -> None:
    """What is safe elsewhere is for a person to decide there."""
    text = block.text + HANDLES_GAUDI
    options = {name: value for name, value in block.options.items() if name != "unsafe"}
    settled = _run(_with(block, text=text, options=options))
    assert settled.text == text, _shown(settled.findings)


@pytest.mark.parametrize(("page", "block", "following"), PYTHON_BEFORE)
def test_before_in_the_dual_style_parses_and_stays(
    page: Page, block: Block, following: list[Block]
) -> None:
    dual = _with(block, options={**block.options, "style": "dual"})
    settled = _run(dual)
    tree = ast.parse(settled.text)
    names = [
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "ACCELERATOR"
    ]
    assert not names or any(isinstance(node.ctx, ast.Store) for node in names), settled.text
    assert not [f for f in settled.findings if f.code == "HPU004"], _shown(settled.findings)
    assert _run(_with(dual, text=settled.text)).text == settled.text


@pytest.mark.parametrize(("page", "block", "following"), PYTHON_BEFORE)
def test_before_in_the_agnostic_style_names_no_vendor_and_stays(
    page: Page, block: Block, following: list[Block]
) -> None:
    agnostic = _with(block, options={**block.options, "style": "agnostic", "mode": "eager"})
    settled = _run(agnostic)
    tree = ast.parse(settled.text)
    assert not [f for f in settled.findings if f.code == "HPU004"], _shown(settled.findings)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used & {*neutral.FUNCTIONS} <= defined, settled.text
    new = Counter(_GAUDI.findall(settled.text)) - Counter(_GAUDI.findall(block.text))
    assert not new, settled.text
    assert _run(_with(agnostic, text=settled.text)).text == settled.text


_GAUDI = re.compile(r"(?i:hpu(?!shim)|hccl|habana|htcore)|ACCELERATOR")


@pytest.mark.parametrize(("page", "block", "following"), PYTHON_BEFORE)
def test_before_with_each_finding_suppressed_in_turn(
    page: Page, block: Block, following: list[Block]
) -> None:
    mine = [f for f in _run(block).findings if f.applied and f.code in _codes(page)]
    tried = [(f, text) for f in mine if (text := _suppressed(block.text, f)) is not None]
    assert tried or _stem(page) in HELD
    for finding, text in tried if EVERY else [*tried[:1], *tried[1:][-1:]]:
        settled = _run(_with(block, text=text))
        ast.parse(settled.text)
        applied = {(f.code, f.line) for f in settled.findings if f.applied}
        assert (finding.code, finding.line) not in applied, settled.text
        assert not [f for f in settled.findings if f.code == "HPU004"], _shown(settled.findings)
        assert _run(_with(block, text=settled.text)).text == settled.text, settled.text


def _suppressed(text: str, finding: Finding) -> str | None:
    """The text with a directive on the finding's line; None where that line takes no comment."""
    lines = text.split("\n")
    lines[finding.line - 1] += f"  # hpushim: ignore[{finding.code}]"
    changed = "\n".join(lines)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError:
        return None
    return changed if same else None


def _with(block: Block, **changes: Any) -> Block:
    return Block(**{**_fields(block), **changes})


@pytest.mark.parametrize(("page", "block", "following"), _cases("same"))
def test_same_stays_the_same(page: Page, block: Block, following: list[Block]) -> None:
    settled = _run(block)
    assert settled.text == block.text, _shown(settled.findings)
    if block.language == "python":
        ast.parse(block.text)


@pytest.mark.parametrize(("page", "block", "following"), _cases("findings"))
def test_findings_are_as_shown(page: Page, block: Block, following: list[Block]) -> None:
    """The findings of the page's own codes, ``line:column: CODE message`` one a line, ``…`` for any text."""
    place = page.blocks.index(block)
    subjects = [b for b in page.blocks[:place] if b.role in ("before", "same", "")]
    assert subjects, f"{page.path.name}:{block.line}: findings of what? put a block before it"
    subject = subjects[-1]
    kind, path = _kind(subject)
    found = examine(subject.text, kind, path, _context(subject))
    mine = [f for f in found if f.code in _codes(page)]
    shown = [f"{f.line}:{f.column}: {f.code} {f.message}" for f in mine]
    expected = [line for line in block.text.splitlines() if line.strip()]
    assert len(shown) == len(expected), "\n".join(shown)
    for got, line in zip(shown, expected, strict=True):
        head, dots, tail = line.partition("…")
        assert got == line or (dots and got.startswith(head) and got.endswith(tail)), got


def _fields(block: Block) -> dict[str, Any]:
    return {name: getattr(block, name) for name in block.__struct_fields__}


@pytest.mark.parametrize("page", [pytest.param(p, id=p.path.stem) for p in _pages()])
def test_page_is_whole(page: Page) -> None:
    if page.path.stem == _stem(page):
        assert tuple(page.sections) == pages.SECTIONS
        lines = len(page.text.replace("<!--\n", "").replace("-->\n", "").splitlines())
        assert lines <= 60, f"{lines} lines: move examples to its cases"
    else:
        assert page.sections.keys() <= set(pages.SECTIONS)
    empty = [name for name, text in page.sections.items() if not text.strip()]
    assert not empty, f"sections without text: {empty}"
    text = (
        page.text
        if page.path.stem == _stem(page)
        else pages.whole(page.path.with_name(f"{_stem(page)}.md")).text
    )
    missing = sorted(code for code in _codes(page) if code not in text)
    assert not missing, f"the page does not mention {missing}"
    known = {"before", "after", "same", "run", "findings", ""}
    assert {block.role for block in page.blocks} <= known
    unknown = {b.language for b in page.blocks if b.role in ("before", "after", "same")} - set(
        KINDS
    )
    assert not unknown, f"no kind of file is called {unknown}"


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    stems = {pages.stem(rule) for rule in every_rule()}
    assert stems == set(pages.pages())


def test_codes_are_given_once() -> None:
    seen: dict[str, str] = {}
    for rule in every_rule():
        for code in rule.codes:
            assert code not in seen, f"{code}: {rule.__name__} and {seen[code]}"
            seen[code] = rule.__name__
