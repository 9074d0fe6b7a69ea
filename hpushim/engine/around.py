"""Which files of a project no training run needs: tests, tools, images, and what nothing imports that trains."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePath

from hpushim.engine.links import Links
from hpushim.patterns import lazily

#: By their names alone.
_NAMED = lazily(
    r"(?:^|/)(?:\.[^/]+|(?:[a-z]+_)?tests?|testing|benchmarks?|docs?|docker|ci)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*_test\.py|[^/]*(?:export|benchmark|collect_env)[^/]*\.py|[^/]*dockerfile[^/]*)$",
    re.IGNORECASE,
)

#: What makes a folder a project.
_PROJECT = frozenset({"setup.py", "pyproject.toml"})


def around(
    paths: Collection[str], trains: Collection[str], scripts: Collection[str], links: Links
) -> frozenset[str]:
    """The files among ``paths`` that no training run needs.

    Of a project with files that train, these are also the scripts of another purpose, and the folders at the top, of which neither trains
    nor holds what such a file imports. A module beside a file that is needed may be loaded by its name, so it is needed as well.
    """
    found = {path for path in paths if _NAMED.search(path)}
    inner = [PurePath(path).parent for path in paths if PurePath(path).name in _PROJECT]
    starts = set(trains) - found
    if (
        PurePath() in inner
    ):  # a copy of another project, which has a file of this kind too, is not why this one is run
        starts = {
            path for path in starts if len(set(PurePath(path).parents) & {*inner}) == 1
        } or starts
    if not starts:
        return frozenset(found)
    within = links.needs(starts)
    needed = within | links.needs(links.needing(starts) - found)
    tops = {_top(path) for path in within}
    for path in paths:
        if path in needed or PurePath(path).suffix not in (".py", ".ipynb"):
            continue
        if path in scripts or path.endswith(".ipynb") or ("/" in path and _top(path) not in tops):
            found.add(path)
    return frozenset(path for path in found if path != "setup.py")


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""
