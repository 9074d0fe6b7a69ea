"""The packages that a project imports or requests, read off its files."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, get_args

from hpushim import safe_files
from hpushim.dependencies.assessing import assess
from hpushim.dependencies.places import normal
from hpushim.engine.base.kind import Kind
from hpushim.engine.data.pins import names, says_versions
from hpushim.engine.facts import modules
from hpushim.engine.files.discover import discover, project_root

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpushim.dependencies.places import Places
    from hpushim.matrix import Matrix
    from hpushim.model import Dependency, Target

#: The module that a project builds from Rust.
_LIBRARY = re.compile(rb"^\[lib\][^\n]*\n(?:(?!\[)[^\n]*\n)*?name\s*=\s*\"(\w+)\"", re.MULTILINE)
#: The modules that a project compiles.
_COMPILED = re.compile(rb"Extension\(\s*(?:name\s*=\s*)?[\"'](\w+)")
_KINDS: frozenset[Kind] = frozenset(get_args(Kind))


def _built(path: Path) -> list[str]:
    pattern = {"Cargo.toml": _LIBRARY, "setup.py": _COMPILED}.get(path.name)
    return [name.decode() for name in pattern.findall(safe_files.read(path))] if pattern else []


def of_project(
    paths: Sequence[Path],
    exclude: Sequence[str],
    places: Places,
    matrix: Matrix,
    target: Target,
    around: frozenset[str] = frozenset(),
) -> tuple[Dependency, ...]:
    """Every third-party package of the files under ``paths``, assessed from ``places``; ``around`` are files that no training run needs."""
    root = project_root(paths)
    files = discover(paths, root, _KINDS, exclude).files
    sources: list[bytes] = []
    beside: list[bytes] = []
    wanted: set[str] = set()
    own = set(modules(root, files))
    for file in files:
        with suppress(OSError):
            if file.kind == "python":
                (beside if file.shown in around else sources).append(safe_files.read(file.path))
            if says_versions(file.path, file.kind):
                wanted |= names(safe_files.read(file.path), file.kind)
            own.update(_built(file.path))
    found = assess(sources, frozenset(own), sorted(wanted), places, matrix, target, beside)
    # A script in a package imports its neighbours by their plain names; nothing else says that these are no packages of others.
    python = [file.path for file in files if file.kind == "python"]
    inner = {path.stem for path in python} | {path.parent.name for path in python}
    return tuple(
        each
        for each in found
        if each.kind != "not assessed" or each.name not in inner or normal(each.name) in wanted
    )
