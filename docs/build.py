"""Builds the site (``make site``) out of what is there: README, guides, pages of the rules, the matrix. Nothing is written twice.

python docs/build.py [--out FOLDER]     # default: site
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from hpushim.engine.rules.catalogue import ROOMS
from hpushim.engine.rules.page import read
from hpushim.matrix import load
from hpushim.matrix.schema import Row
from hpushim.report.elements import el, sentence

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "docs"
#: The pages in their order; the glossary ends the reference.
GUIDES = (
    "port_a_script",
    "decide",
    "port_a_project",
    "one_code_base",
    "notebooks",
    "frameworks",
    "first_hour",
    "upstream",
    "ci",
)
REFERENCE = (
    "commands",
    "settings",
    "modes",
    "prove",
    "portfolio",
    "ledger",
    "plan",
    "emulator",
    "security",
    "limits",
    "refusals",
    "internals",
    "glossary",
)
PROJECT = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def stage(folder: Path) -> None:
    """Lays out the sources of the site as they are in the repository: links stay right. README begins it, the matrix becomes a table to filter."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "index.md").write_text(readme.replace("(MATRIX.md)", "(matrix.md)"), encoding="utf-8")
    for name in (*PROJECT, "compat_matrix.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(
        HERE,
        folder / "docs",
        ignore=shutil.ignore_patterns("*.py", "__pycache__", "matrix.*", "example"),
    )
    shutil.copytree(HERE / "example", folder / "docs/example")
    (folder / "codemods").mkdir()
    shutil.copy(ROOT / "codemods/README.md", folder / "codemods")
    for page in rule_pages():
        target = folder / page.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        target.write_text(read(page).shown(), encoding="utf-8")
    (folder / "matrix.md").write_text(matrix(), encoding="utf-8")
    shutil.copy(HERE / "matrix.js", folder)
    shutil.copy(HERE / "matrix.css", folder)


def rule_pages() -> list[Path]:
    """The pages of the rules, by folder, without their cases."""
    return [
        page
        for room in ROOMS
        for page in sorted((ROOT / "codemods" / room).glob("*.md"))
        if not page.name.endswith(".cases.md")
    ]


def matrix() -> str:
    """The matrix as one table to filter."""
    rows = load().rows
    filters = {
        "status": sorted({row.status for row in rows}),
        "area": list(dict.fromkeys(row.area for row in rows)),
        "kind": sorted({row.kind for row in rows}),
        "confidence": sorted({row.confidence for row in rows}),
    }
    form = el(
        "form",
        el("label", "Search ", el("input", type="search", name="search")),
        (
            el("label", f"{name} ", el("select", el("option", "all", value=""), (el("option", value, value=value) for value in values), name=name))
            for name, values in filters.items()
        ),
        el("output", "", id="rows-shown", aria_live="polite"),
        id="matrix-filter",
    )  # fmt: skip
    heads = ("CUDA", "status", "Gaudi", "note", "rule")
    table = el(
        "table",
        el("thead", el("tr", (el("th", name, scope="col") for name in heads))),
        el("tbody", map(_row, rows)),
        id="matrix-rows",
    )
    made = "\n".join(ET.tostring(part, encoding="unicode", method="html") for part in (form, table))
    head = "---\nhide: [navigation, toc]\n---\n\n# The matrix"
    return f"{head}\n\nWhat Gaudi does with each CUDA name. `hpushim api NAME` shows a row with its sources.\n\n{made}\n"


def _row(row: Row) -> ET.Element:
    sure = "" if row.confidence != "inferred" else " (inferred)"
    return el(
        "tr",
        el("th", el("code", row.name), scope="row"),
        el("td", f"{row.status}{sure}"),
        el("td", el("code", row.target) if row.target else ""),
        el("td", sentence(row.note)),
        el("td", row.rule),
        data_status=row.status,
        data_area=row.area,
        data_kind=row.kind,
        data_confidence=row.confidence,
    )


def config(sources: Path, out: Path) -> str:
    """The settings of mkdocs."""
    return "\n".join(_settings(sources, out))


def _settings(sources: Path, out: Path) -> Iterator[str]:
    yield "site_name: hpushim"
    yield f"docs_dir: {sources}"
    yield f"site_dir: {out}"
    yield "theme:"
    yield "  name: material"
    yield "  font: false"  # nothing is loaded from elsewhere
    yield "  features: [navigation.indexes, navigation.top, search.suggest, content.code.copy]"
    yield "  palette:"
    yield '    - {media: "(prefers-color-scheme: light)", scheme: default, toggle: {icon: material/weather-night, name: Dark}}'
    yield '    - {media: "(prefers-color-scheme: dark)", scheme: slate, toggle: {icon: material/weather-sunny, name: Light}}'
    yield "plugins: [search]"
    yield "markdown_extensions: [tables, md_in_html, pymdownx.superfences, pymdownx.highlight]"
    yield "extra_javascript: [matrix.js]"
    yield "extra_css: [matrix.css]"
    yield "validation: {links: {anchors: warn, unrecognized_links: warn}}"
    yield "nav:"
    yield "  - index.md"
    yield "  - Guides:"
    yield from (f"    - docs/{name}.md" for name in GUIDES)
    yield "  - Reference:"
    yield from (f"    - docs/{name}.md" for name in REFERENCE)
    yield "  - Rules:"
    yield "    - codemods/README.md"
    for room in ROOMS:
        yield f"    - {room}:"
        pages = [page for page in rule_pages() if page.parent.name == room]
        yield from (f"      - codemods/{room}/{page.name}" for page in pages)
    yield "  - Matrix: matrix.md"
    yield "  - Project:"
    yield from (f"    - {name}" for name in PROJECT)


def main() -> None:
    """Builds it, and stops at a link that leads nowhere."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    out = parser.parse_args().out.resolve()
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "pages"
        sources.mkdir()
        stage(sources)
        settings = Path(folder) / "mkdocs.yml"
        settings.write_text(config(sources, out), encoding="utf-8")
        build(load_config(str(settings), strict=True))
    print(f"the site is in {out}: open {out / 'index.html'}, or serve it: python -m http.server -d {out}")  # fmt: skip


if __name__ == "__main__":
    main()
