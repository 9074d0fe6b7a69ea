"""Which third-party packages a project's Python imports, and in how many files."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_FROM = re.compile(rb"^[ \t]*from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([A-Za-z_][\w.]*(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*(?:[ \t]+as[ \t]+\w+)?)*)[ \t]*(?:[#;\\\r]|$)", re.MULTILINE)  # fmt: skip
_OURS = frozenset({"hpushim", "_hpushim", "habana_frameworks", "__future__", "__main__"})


class Import(NamedTuple):
    """In how many files a package is imported, and whether one of them cannot do without: the import is at the left margin."""

    files: int
    required: bool


def imported(sources: Iterable[bytes], own: frozenset[str]) -> dict[str, Import]:
    """Top-level names that are neither the project's ``own`` nor of the standard library."""
    files: Counter[str] = Counter()
    required: set[str] = set()
    apart = own | sys.stdlib_module_names | _OURS
    for data in sources:
        found = dict.fromkeys(_tops(data))
        files.update({name for name, _ in found})
        required |= {name for name, at_margin in found if at_margin}
    return {name: Import(files[name], name in required) for name in files if name not in apart}


def _tops(data: bytes) -> Iterator[tuple[str, bool]]:
    for match in _FROM.finditer(data):
        yield match[1].decode(), match.start(1) - match.start() == len(b"from ")
    for match in _IMPORT.finditer(data):
        for part in match[1].split(b","):
            name = part.split()[0].partition(b".")[0].decode()
            yield name, match.start(1) - match.start() == len(b"import ")
