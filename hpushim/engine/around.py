"""Which files of a project no training run needs: tests, tools, images, and what nothing imports that trains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from types import MappingProxyType
from typing import NamedTuple

from hpushim.engine.links import Links
from hpushim.engine.programs import (
    SHOWN,
    Started,
    does_more,
    is_called,
    programs,
    started,
    starters,
    trained_by,
    training,
    trainless,
)
from hpushim.model import Program
from hpushim.patterns import lazily

#: By their names alone.
NAMED = lazily(
    r"(?:^|/)(?:\.[^/]+|(?:[a-z]+_)?(?:unit)?tests?|testing|benchmarks?|docs?|docker|ci)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*_test\.py|[^/]*(?:export|benchmark|collect_env)[^/]*\.py|[^/]*dockerfile[^/]*|(?:docker-)?compose[^/]*\.ya?ml|\.[^/]+\.ya?ml)$",
    re.IGNORECASE,
)

#: What makes a folder a project.
_PROJECT = lazily(
    r"(?:^|/)(?:setup\.py|pyproject\.toml|(?:[^/]*_)?requirements\.txt|environment\.ya?ml)$"
)


class Needed(NamedTuple):
    """The files that no training run needs, the program that a person would start (one that trains, if any does), and what that imports.

    ``chosen``: the files that it may do without, since each way to them has an optional import, or they are ``others``: it needs none of
    these, and few of those that train do. ``programs``: all that train, the
    likeliest first. ``trained_by``: the package that does it where none of the project's files trains.
    """

    around: frozenset[str]
    program: str
    reached: frozenset[str]
    chosen: frozenset[str]
    programs: tuple[Program, ...] = ()
    trained_by: str = ""
    others: frozenset[str] = frozenset()


def around(
    paths: Collection[str],
    trains: Collection[str],
    scripts: Collection[str],
    loads: Collection[str],
    links: Links,
    frameworks: Mapping[str, bool | None] = MappingProxyType({}),
    launches: Mapping[str, Sequence[str]] = MappingProxyType({}),
    modules: Collection[str] = (),
) -> Needed:
    """Which of the files are needed for what.

    Of a project with files that train, these are also the scripts of another purpose with the folders that they alone import from, examples
    and projects of their own where the package trains, and the folders at the top, of which neither trains nor holds what such a file
    imports. A module beside a file that is needed may be loaded by its name, so it is needed as well; where one of ``loads`` is needed,
    which import by names that they make, any other may that nothing imports. ``frameworks``: does a file that imports a framework import
    torch? None where it also has code for another maker's devices. Folders of other frameworks are aside too. ``launches``: the programs
    that the commands in a file start; ``modules``: all packages that are imported.
    """
    found = {path for path in paths if NAMED.search(path)}
    # A package of the same name is imported instead.
    found |= {
        path for path in paths if path.endswith(".py") and f"{path[:-3]}/__init__.py" in paths
    }
    elsewhere = _elsewhere(paths, {*trains, *scripts}, frameworks, links)
    foreign = _foreign(paths, frameworks) | elsewhere
    trains = {*trains} - found - foreign
    trains = {path for path in trains if not path.endswith(".ipynb")} or trains
    trains = trains - _copied(paths, links) or trains
    scripts = {*scripts, "setup.py"} - {"setup.py"}
    named = {path: how for path, how in started(paths, launches).items() if path not in found | foreign}  # fmt: skip
    scripts |= {path for path in named if path.endswith(".py") and PurePath(path).name != "setup.py"}  # fmt: skip
    able = {path for path in scripts if path not in found and path not in foreign}
    called = {path for path in able if PurePath(path).stem.lower().startswith("train")}
    ranked = programs(trains, able, loads, links, named)
    starts = _own(trains | called, paths, links)
    first = _first(ranked, {*starts, *loads}, links)
    starts |= (trains | called) & links.needs(first)
    found |= elsewhere | (foreign - links.needs(starts))
    python = {p for p in paths if p.endswith((".py", ".ipynb")) or p in trains or p in scripts}
    shown = {path for path in paths if SHOWN.search(path)}
    if any(_is_training(each.path, starts) for _, each in ranked if each.path not in shown) and shown.isdisjoint(first):  # fmt: skip
        starts -= shown
        found |= (shown if shown & trains else shown & python) - links.needs(starts)
    if not starts:
        program = min(able - found, key=lambda path: (_place(path, named), path.count("/"), len(path), path), default="")  # fmt: skip
        script, package = trained_by(launches, modules) if not ranked else ("", "")
        return _needed(found, [script or program], links, trained_by=package)
    within = links.needs(starts)
    others = {path for path in able if does_more(path, starts, named)}
    others = set() if {*first} <= others else others  # nothing shows which trains
    needed = within | links.needs((_reach(starts, scripts, links) - others | {*first}) - found)
    rest = python - needed
    found |= {path for path in rest if path in scripts or path.endswith(".ipynb")}
    folders = {_folder(path) for path in needed}
    purposes = {path for path in found & scripts - shown if not NAMED.search(path)}
    theirs = links.needs(purposes) - needed
    if not needed.isdisjoint(loads):  # it may load what is beside it
        theirs -= links.needs({path for path in rest - found if _folder(path) in folders})
    if needed.isdisjoint(loads):
        tops = {_top(path) for path in within}
        found |= {path for path in rest if "/" in path and _top(path) not in tops}
    else:  # what is loaded by its name is imported by nothing
        folders |= {_folder(path) for path in rest - theirs}
    found |= {path for path in theirs if _folder(path) not in folders}
    found |= _apart(paths, needed, links)
    own = {path for path in starts if path in named or not named}
    run = [each for each in training(ranked, own) if each.path not in found]
    runs = {each.path for each in run} | (starts & scripts)
    found |= trainless(launches, runs | starts, paths)
    starting = starters(first, launches, paths)
    return _needed(found - {"setup.py"}, first, links, run, runs=runs, starting=starting, paths=paths)  # fmt: skip


#: By so many points a program has to be likelier than those of the project's own package.
_MARGIN = 4


def _place(path: str, named: Mapping[str, Started]) -> tuple[bool, bool, int]:
    """What is first in the README comes first, then what another file starts."""
    how = named.get(path)
    return (how is None, how is not None and not how.first, how.place if how else 0)


def _first(
    ranked: Sequence[tuple[int, Program]], starts: Collection[str], links: Links
) -> list[str]:
    """The likeliest programs, several where they are equal: of those that need one of ``starts``, unless another is far likelier."""
    own = [each for each in ranked if not links.needs({each[1].path}).isdisjoint(starts)]
    some = own if own and own[0][0] + _MARGIN > ranked[0][0] else ranked
    return [each.path for points, each in some if points == some[0][0]]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"[: path.startswith("/")]


@lru_cache(maxsize=10_000)
def _above(folder: str) -> frozenset[str]:
    """A folder with all that it is in."""
    found = [folder]
    while (outer := _folder(found[-1])) != found[-1]:
        found.append(outer)
    return frozenset(found)


def _needed(
    found: Collection[str],
    first: Sequence[str],
    links: Links,
    run: Sequence[Program] = (),
    trained_by: str = "",
    *,
    runs: Collection[str] = (),
    starting: Collection[str] = (),
    paths: Collection[str] = (),
) -> Needed:
    """``first``: the program, and those that are as likely; ``runs``: all that train; ``starting``: what starts the program."""
    start = {*first} - {""}
    users, likely = ([links.needs({run}) for run in some] for some in (runs, start))
    few = frozenset().union(*users) - _of_most(users) - _of_most(likely) - links.needs(first[:1])
    reached = links.needs(start) - few
    chosen = (reached - links.certain(start)) | (links.avoidable(found) - links.certain(start))
    theirs = {_folder(path) for path in few} - {_folder(path) for path in reached.union(*users) - few}  # fmt: skip
    few |= {path for path in paths if not path.endswith((".py", ".ipynb")) and _folder(path) in theirs}  # fmt: skip
    program = next(iter(first), "")
    return Needed(frozenset(found), program, reached | {*starting}, chosen | few, tuple(run), trained_by, frozenset(few))  # fmt: skip


def _of_most(needed: Sequence[Collection[str]]) -> set[str]:
    """What at least half of them have."""
    users = Counter(path for each in needed for path in each)
    return {path for path, number in users.items() if 2 * number >= len(needed)}


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
    inner = _projects(paths, links)
    if "" not in inner:
        return starts
    own = {path for path in starts if len(_above(_folder(path)) & inner) == 1} or starts
    tops = {_package_of(path) for path in own if _is_packaged(path, paths)}
    package = {path for path in paths if path.endswith(".py") and _package_of(path) in tops}
    return own & links.around(package) if package else own


def _is_packaged(path: str, paths: Collection[str]) -> bool:
    """Is a file in the package of the project: ``name/…``, ``src/name/…``?"""
    return f"{_package_of(path)}/__init__.py" in paths


def _package_of(path: str) -> str:
    inner = path.removeprefix("src/")
    return path[: len(path) - len(inner)] + _top(inner)


def _projects(paths: Collection[str], links: Links) -> set[str]:
    """The folders in which a project is: its requirements are there, it has code, and that imports nothing of a package around it."""
    found: dict[str, set[str]] = {_folder(path): set() for path in paths if _PROJECT.search(path)}
    for path in paths:
        for above in _above(_folder(path)) & found.keys() if path.endswith(".py") else ():
            found[above].add(path)
    return {
        folder
        for folder, code in found.items()
        if code and (not folder or not any(_is_packaged(path, paths) for path in links.needs(code) - code))
    }  # fmt: skip


def _copied(paths: Collection[str], links: Links) -> set[str]:
    """What is in a copy of another project: one within this one from which its own code takes something."""
    inner = _projects(paths, links)
    if "" not in inner or len(inner) == 1:
        return set()
    own = {path for path in paths if path.endswith(".py") and len(_above(_folder(path)) & inner) == 1}  # fmt: skip
    inner = {above for path in links.needs(own) - own for above in _above(_folder(path)) & inner} - {""}  # fmt: skip
    return {path for path in paths if not inner.isdisjoint(_above(_folder(path)))}


def _apart(paths: Collection[str], needed: Collection[str], links: Links) -> set[str]:
    """What is in a project within this one from which nothing is needed."""
    inner = _projects(paths, links)
    if "" not in inner:
        return set()
    inner -= {above for path in needed for above in _above(_folder(path))}
    return {path for path in paths if not inner.isdisjoint(_above(_folder(path)))}


def _reach(starts: Collection[str], scripts: Collection[str], links: Links) -> frozenset[str]:
    """What uses a file that trains; where no program is seen to, what imports one."""
    taking = links.taking(starts)
    return taking if not taking.isdisjoint({*scripts}) else links.needing(starts)


def _is_training(path: str, trains: Collection[str]) -> bool:
    """Is training what a program is for: does it train itself, or is it called after that?"""
    return path in trains or is_called(path)


def _top(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""
