"""README, guides and site say what is so: commands and options exist, figures are counted, links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from hpushim.cli import COMMANDS
from hpushim.engine.rules.catalogue import codes
from hpushim.matrix import load
from hpushim.matrix.summary import counts

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def commands(text: str) -> Iterator[list[str]]:
    """The calls of ``hpushim`` in code: in lines of a block, and between backticks."""
    blocks = re.findall(r"^(?: {4,}|```\w*\n|\$ )(.*)$", text, re.MULTILINE)
    for piece in [*blocks, *re.findall(r"`([^`\n]+)`", text)]:
        line = piece.partition("  #")[0].strip()
        if line.startswith("hpushim "):
            yield shlex.split(line.replace("…", ""))[1:]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words call, subcommands followed, and the words after it."""
    found: click.Command = importlib.import_module(
        f"hpushim.cli.{words[0].replace('-', '_')}"
    ).command
    rest = words[1:]
    while isinstance(found, click.Group) and rest and rest[0] in found.commands:
        found, rest = found.commands[rest[0]], rest[1:]
    return found, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page: Path) -> None:
    called = [words for words in commands(page.read_text(encoding="utf-8")) if words[0].islower()]
    for words in called:
        assert words[0] in COMMANDS, words
        command, rest = command_of(words)
        options = {name: option for option in command.params for name in option.opts}
        before_script = (
            _own(rest)
            if words[0] in ("run", "prove", "plan")
            else [word for word in rest if not word.endswith(".py")]
        )
        for place, word in enumerate(before_script):
            if not word.startswith("--"):
                continue
            name, _, value = word.partition("=")
            assert name in {
                *options,
                *(other for o in command.params for other in o.secondary_opts),
            }, words
            kind = options[name].type
            given = value or next(iter(before_script[place + 1 : place + 2]), "")
            if isinstance(kind, click.Choice) and given.islower():
                assert given in kind.choices, words
    if page.name in ("README.md", "ci.md"):
        assert len(called) >= 2  # the test sees them


def _own(words: list[str]) -> list[str]:
    """The words of a command that are its own: those before the script."""
    for place, word in enumerate(words):
        if word.endswith(".py") or word in ("torchrun", "accelerate", "deepspeed"):
            return words[:place]
    return words


def test_figures_of_the_readme_are_counted() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    matrix = load()
    unknown = sum(row.status == "unknown" for row in matrix.rows)
    figures = re.search(r"([\d,]+) rows and ([\d,]+) operators", text)
    assert figures and figures[1] == f"{len(matrix.rows):,}", figures
    assert figures[2] == f"{sum(counts(matrix).operators.values()):,}"
    dark = re.search(r"(\d+) are `unknown`", text)
    assert dark and int(dark[1]) == unknown
    inferred = sum(row.confidence == "inferred" for row in matrix.rows) / len(matrix.rows)
    assert "A quarter of the matrix rows are `inferred`" in text and 0.22 <= inferred <= 0.28


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_codes_and_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = set(codes())
    assert {code for code in re.findall(r"\bHPU\d{3}\b", text) if code[3] != "9"} <= known
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link


def test_the_page_of_commands_is_current(commands_page: ModuleType) -> None:
    told = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert told == commands_page.page(), "run: python docs/commands.py"


def test_no_document_names_a_machine_or_a_registry() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = re.findall(r"(?<![\w.])/(?:work|tmp|home|root|corpora|opt)/\S*|download\.pytorch\.org|pypi\.org", text)  # fmt: skip
        assert not found, f"{page.name}: {found}"


@pytest.mark.parametrize(("name", "lines"), [("README.md", 160), ("CHANGELOG.md", 60)])
def test_what_is_read_first_stays_short(name: str, lines: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= lines


def test_the_first_release_is_forty_lines_of_features() -> None:
    listed = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## 0.1.0")[2]
    assert 0 < sum(line.startswith("- ") for line in listed.splitlines()) <= 40


@pytest.fixture(scope="module")
def commands_page() -> ModuleType:
    return _script("commands")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return _script("build")


def _script(name: str) -> ModuleType:
    """A script of docs as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / f"docs/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_site_holds_every_page(site: ModuleType, tmp_path: Path) -> None:
    site.stage(tmp_path)
    settings = site.config(tmp_path, tmp_path / "out")
    named = re.findall(r"(?<=[ ])[\w/]+\.md", settings)
    assert sorted(named) == sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md"))  # fmt: skip
    told = "".join(
        path.read_text(encoding="utf-8") for path in (tmp_path / "codemods").rglob("*.md")
    )
    assert set(codes()) <= set(re.findall(r"HPU\d{3}", told))
    page = (tmp_path / "matrix.md").read_text(encoding="utf-8")
    assert page.count("<tr data-status=") == len(load().rows)
    for path in tmp_path.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8"))):  # fmt: skip
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_the_site_builds(site: ModuleType, tmp_path: Path) -> None:
    """With mkdocs-material installed (the extra `site`): every link is checked by it."""
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed: pip install -e .[site]")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    sources = tmp_path / "pages"
    sources.mkdir()
    site.stage(sources)
    (tmp_path / "mkdocs.yml").write_text(site.config(sources, tmp_path / "out"), encoding="utf-8")
    build(load_config(str(tmp_path / "mkdocs.yml"), strict=True))
    assert (tmp_path / "out/matrix/index.html").is_file()
