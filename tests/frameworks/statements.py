"""The statements of the libraries' pages, read from ``statements.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import tomli

HERE = Path(__file__).parent


class Statement(NamedTuple):
    """A sentence of a page, in our words, and what holds it: tests, a finding in some code, a row of the matrix, or several of them."""

    page: str
    library: str
    says: str
    tests: tuple[str, ...]
    code: str
    finding: str
    row: str
    note: str

    def holds(self, test: str) -> bool:
        """Whether a test, ``test_file.py::test_name[case]``, is one of those that hold it."""
        return any(fnmatchcase(test, plain(pattern)) for pattern in self.tests)


def plain(pattern: str) -> str:
    """A pattern in which brackets are brackets."""
    return pattern.replace("[", "[[]")


def statements() -> Iterator[Statement]:
    """All statements, in the order of the pages."""
    table: dict[str, Any] = tomli.loads((HERE / "statements.toml").read_text(encoding="utf-8"))
    for page in table["page"]:
        for one in page["statement"]:
            yield Statement(
                page["name"],
                one.get("library", page.get("library", "torch")),
                one["says"],
                tuple(one.get("tests", ())),
                one.get("code", ""),
                one.get("finding", ""),
                one.get("row", ""),
                one.get("note", ""),
            )
