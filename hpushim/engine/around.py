"""Which files of a project no training run needs: tests, tools, images, and what nothing imports that trains."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType
from typing import NamedTuple

from hpushim.engine.links import Links
from hpushim.patterns import lazily

#: By their names alone.
_NAMED = lazily(
    r"(?:^|/)(?:\.[^/]+|(?:[a-z]+_)?(?:unit)?tests?|testing|benchmarks?|docs?|docker|ci)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*_test\.py|[^/]*(?:export|benchmark|collect_env)[^/]*\.py|[^/]*dockerfile[^/]*|(?:docker-)?compose[^/]*\.ya?ml|\.[^/]+\.ya?ml)$",
    re.IGNORECASE,
)

#: What the one program of a folder is called.
_PLAIN = frozenset({"main", "run"})

#: What makes a folder a project.
_PROJECT = lazily(
    r"(?:^|/)(?:setup\.py|pyproject\.toml|(?:[^/]*_)?requirements\.txt|environment\.ya?ml)$"
)


class Needed(NamedTuple):
    """The files that no training run needs, the program that a person would start (one that trains, if any does), and what that imports.

    ``chosen``: the files that it may do without, since each way to them has an optional import.
    """

    around: frozenset[str]
    program: str
    reached: frozenset[str]
    chosen: frozenset[str]


#: Programs that show how a package is used.
_SHOWN = lazily(r"(?:^|/)(?:examples?|samples|demos?|tutorials?)/", re.IGNORECASE)


def around(
    paths: Collection[str],
    trains: Collection[str],
    scripts: Collection[str],
    loads: Collection[str],
    links: Links,
    frameworks: Mapping[str, bool | None] = MappingProxyType({}),
) -> Needed:
    """Which of the files are needed for what.

    Of a project with files that train, these are also the scripts of another purpose with the folders that they alone import from, examples
    and projects of their own where the package trains, and the folders at the top, of which neither trains nor holds what such a file
    imports. A module beside a file that is needed may be loaded by its name, so it is needed as well; where one of ``loads`` is needed,
    which import by names that they make, any other may that nothing imports. ``frameworks``: does a file that imports a framework import
    torch? None where it also has code for another maker's devices. Folders of other frameworks are aside too.
    """
    found = {path for path in paths if _NAMED.search(path)}
    elsewhere = _elsewhere(paths, {*trains, *scripts}, frameworks, links)
    foreign = _foreign(paths, frameworks) | elsewhere
    called = {path for path in scripts if PurePath(path).stem.lower().startswith("train")}
    starts = _own({*trains, *called} - found - foreign, paths, links)
    found |= elsewhere | (foreign - links.needs(starts))
    python = {p for p in paths if p.endswith((".py", ".ipynb")) or p in trains or p in scripts}
    shown = {path for path in paths if _SHOWN.search(path)}
    if any(
        _is_training(path, starts)
        for path in _programs(starts - shown, scripts, links) - found - shown
    ):
        starts -= shown
        found |= (shown if shown & {*trains} else shown & python) - links.needs(starts)
    programs = (_programs(starts, scripts, links) if starts else {*scripts}) - found - {"setup.py"}
    if starts:  # by their names a program loads what it trains with
        programs |= {p for p in {*scripts} - found if _is_plain(p) and not links.needs({p}).isdisjoint(loads)}  # fmt: skip
    program = min(programs, key=lambda path: _steps(path, starts), default="")
    if not starts:
        return _needed(found, {program}, links)
    beside = {p for p in programs if _is_called(p) and _folder(p) == _folder(program)}
    within = links.needs(starts)
    needed = within | links.needs(_reach(starts, scripts, links) - found)
    rest = python - needed
    found |= {path for path in rest if path in scripts or path.endswith(".ipynb")}
    folders = {_folder(path) for path in needed}
    purposes = {path for path in found & {*scripts} - shown if not _NAMED.search(path)}
    theirs = links.needs(purposes) - needed
    if not needed.isdisjoint(loads):  # it may load what is beside it
        theirs -= links.needs({path for path in rest - found if _folder(path) in folders})
    if needed.isdisjoint(loads):
        tops = {_top(path) for path in within}
        found |= {path for path in rest if "/" in path and _top(path) not in tops}
    else:  # what is loaded by its name is imported by nothing
        folders |= {_folder(path) for path in rest - theirs}
    found |= {path for path in theirs if _folder(path) not in folders}
    found |= _apart(paths, needed)
    return _needed(found - {"setup.py"}, [program, *(beside if _is_called(program) else ())], links)


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"[: path.startswith("/")]


@lru_cache(maxsize=10_000)
def _above(folder: str) -> frozenset[str]:
    """A folder with all that it is in."""
    found = [folder]
    while (outer := _folder(found[-1])) != found[-1]:
        found.append(outer)
    return frozenset(found)


def _needed(found: Collection[str], programs: Collection[str], links: Links) -> Needed:
    """``programs``: the one, and those beside it that train another part of it."""
    program, start = next(iter(programs)), {*programs} - {""}
    reached = links.needs(start)
    chosen = (reached - links.certain(start)) | (links.avoidable(found) - links.certain(start))
    return Needed(frozenset(found), program, reached, chosen)


def _foreign(paths: Collection[str], frameworks: Mapping[str, bool | None]) -> set[str]:
    """What is in a folder of which some file imports another framework and none torch, where others do."""
    with_torch = {
        above
        for path, torch in frameworks.items()
        if torch is not False
        for above in _above(_folder(path))
    }
    others = {above for path in frameworks for above in _above(_folder(path))} - with_torch
    return {path for path in paths if with_torch and not others.isdisjoint(_above(_folder(path)))}


def _elsewhere(
    paths: Collection[str],
    needed: Collection[str],
    frameworks: Mapping[str, bool | None],
    links: Links,
) -> set[str]:
    """Modules with code for other devices that the programs may do without, and what they alone import."""
    own = {path for path, torch in frameworks.items() if torch is None}
    own -= links.certain(needed) if own else set()
    if not own:
        return own
    inner = links.needs(own) - own
    return own | (inner - links.needs({*paths} - own - inner, own))


def _own(starts: set[str], paths: Collection[str], links: Links) -> set[str]:
    """Of files that train those for which the project is run: not those of a copy of another project, nor in a folder beside the package."""
    inner = _projects(paths)
    if "" not in inner:
        return starts
    own = {path for path in starts if len(_above(_folder(path)) & inner) == 1} or starts
    package = {path for path in own if _is_packaged(path, paths)}
    return own & links.around(package) if package else own


def _is_packaged(path: str, paths: Collection[str]) -> bool:
    """Is a file in the package of the project: ``name/…``, ``src/name/…``?"""
    inner = path.removeprefix("src/")
    return f"{path[: len(path) - len(inner)]}{_top(inner)}/__init__.py" in paths


def _projects(paths: Collection[str]) -> set[str]:
    """The folders in which a project is: its requirements are there, and it has code."""
    found = {_folder(path) for path in paths if _PROJECT.search(path)}
    return found & {above for path in paths if path.endswith(".py") for above in _above(_folder(path))}  # fmt: skip


def _apart(paths: Collection[str], needed: Collection[str]) -> set[str]:
    """What is in a project within this one from which nothing is needed."""
    inner = _projects(paths)
    if "" not in inner:
        return set()
    inner -= {above for path in needed for above in _above(_folder(path))}
    return {path for path in paths if not inner.isdisjoint(_above(_folder(path)))}


def _programs(starts: Collection[str], scripts: Collection[str], links: Links) -> set[str]:
    """The scripts that reach a file which trains, and such files that nothing imports."""
    reach = _reach(starts, scripts, links)
    alone = {path for path in starts if links.needing({path}) == {path}}
    return {path for path in reach if path in scripts or path in alone}


def _reach(starts: Collection[str], scripts: Collection[str], links: Links) -> frozenset[str]:
    """What uses a file that trains; where no program is seen to, what imports one."""
    taking = links.taking(starts)
    return taking if not taking.isdisjoint({*scripts}) else links.needing(starts)


def _is_called(path: str) -> bool:
    return "train" in PurePath(path).stem.lower()


def _is_plain(path: str) -> bool:
    return PurePath(path).stem.lower() in _PLAIN


def _is_training(path: str, trains: Collection[str]) -> bool:
    """Is training what a program is for: does it train itself, or is it called after that?"""
    return path in trains or _is_called(path)


def _steps(path: str, trains: Collection[str]) -> tuple[bool, int, bool, bool, int, str]:
    """How far a program is from the one that a person would start: by its name, then by its folders."""
    return (
        not _is_called(path),
        path.count("/"),
        not _is_plain(path),
        path not in trains,
        len(path),
        path,
    )


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""
