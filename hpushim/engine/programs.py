"""Which programs of a project train, the one that a person would start first, each with what shows it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from hpushim.engine.base.started import by_last, resolved
from hpushim.engine.links import Links
from hpushim.model import Program
from hpushim.patterns import lazily

#: What the one program of a folder is called.
_PLAIN = frozenset({"main", "run", "__main__"})
#: What programs are called that do something else with a model.
_OTHERS = lazily(
    r"(?:^|_)(?:eval|test|infer|predict|sampl|generat|demo|gradio|streamlit|gui|app|show|visual|export|convert|extract|preprocess|prepare|plot|score|serve|bench|profil|download)",
    re.IGNORECASE,
)
#: Programs that show how a package is used.
SHOWN = lazily(r"(?:^|/)(?:examples?|samples|demos?|tutorials?)/", re.IGNORECASE)
_README = lazily(r"(?:^|/)readme\.md$", re.IGNORECASE)
#: A program of another package that trains: ``fairseq-train``.
_FOREIGN = lazily(r"(\w+)-train$")


class Started(NamedTuple):
    """What names a program: the README or another file, with its place among what that starts."""

    by: str
    first: bool
    place: int


def started(paths: Collection[str], launches: Mapping[str, Sequence[str]]) -> dict[str, Started]:
    """The files that commands in the project's texts and scripts start, or that it installs as commands.

    ``launches``: of each file the names in its commands, ``train.py``, ``lib/train`` for a module. What a script starts that the README
    names is named by the README.
    """
    readmes = sorted((path for path in launches if _README.search(path)), key=lambda path: (path.count("/"), path))  # fmt: skip
    outer = [path for path in readmes if path.count("/") == readmes[0].count("/")]
    ends = by_last(paths)
    found: dict[str, Started] = {}
    todo = [(path, Started(path, True, 0)) for path in outer]
    todo += [(path, Started(path, False, 0)) for path in launches if path not in outer]
    for path, how in todo:  # grows
        for place, name in enumerate(launches.get(path, ())):
            for each in resolved(path, name, ends):
                if each != path and (each not in found or (how.first and not found[each].first)):
                    found[each] = Started(how.by, how.first, place)
                    if how.first and each in launches:
                        todo.append((each, found[each]))
    return found


def programs(
    starts: Collection[str],
    scripts: Collection[str],
    loads: Collection[str],
    links: Links,
    named: Mapping[str, Started],
) -> tuple[tuple[int, Program], ...]:
    """The programs that train, the likeliest first, each with its points.

    ``starts`` are the files that train, ``scripts`` those that can be started, ``loads`` those that import by names which they make. A reader
    wants to know whether a program trains itself, or imports what does; whether the README or a script starts it; then what it is called.
    """
    reach = links.taking(starts)
    alone = {path for path in starts if links.needing({path}) == {path}}
    able = {*scripts, *(path for path in named if path.endswith(".py"))}
    if able.isdisjoint(reach) and not alone:
        reach = links.needing(starts)
    #: Of what a README starts and is seen to train, that is more than a name.
    shown = any(how.first and (path in reach or path in starts) for path, how in named.items())
    found = []
    for path in {*alone, *able}:
        points, why = 0, []
        if path in starts:
            points, why = 12, ["has a training loop"]
        elif path in reach:
            inner = min({*starts} & links.needs({path}), key=lambda each: (not is_called(each), each), default="")  # fmt: skip
            points, why = 12, [f"uses the training loop of `{inner}`"]
        elif starts and (is_called(path) or _is_plain(path) or path in named) and not links.needs({path}).isdisjoint(loads):  # fmt: skip
            points, why = 12 if path in named and named[path].first else 8, ["may load a training loop by name"]  # fmt: skip
        elif not is_called(path) or path.endswith(".ipynb"):
            continue
        if is_called(path):
            beside = shown and not (path in named and named[path].first)
            points += (_CALLED - 6 * beside) if points else 8
            why.append("its name suggests training")
        elif _OTHERS.search(PurePath(path).stem):
            points -= 10
        elif does_more(path, starts, named):
            points -= 6
        if how := named.get(path):
            points += 10 if how.first else 4
            why.append(f"`{how.by}` has a command that starts it")
        if _OTHERS.match(PurePath(path).parent.name):
            points -= 3
        points += 2 * _is_plain(path) - 3 * bool(SHOWN.search(path)) - path.count("/")
        points -= 2 * (path not in able) + 16 * path.endswith(".ipynb")
        place = how.place if how and how.first else len(named)
        found.append((-points, place, len(path), path, why))
    return tuple((-less, Program(path, ", ".join(why))) for less, _, _, path, why in sorted(found))


#: By so many points less a program does something else, where it is not for its name.
_APART = 12
#: What a program that trains is more likely for its name.
_CALLED = 13


def training(ranked: Sequence[tuple[int, Program]], starts: Collection[str]) -> tuple[Program, ...]:
    """Of the programs, the likeliest first, those that are started for training: what trains by itself is no less one for another name."""
    least = ranked[0][0] - _APART if ranked else 0
    own = {path for path in starts if not is_called(path) and not _OTHERS.search(PurePath(path).stem)}  # fmt: skip
    return tuple(each for points, each in ranked if points + _CALLED * (each.path in own) > least)


def trained_by(launches: Mapping[str, Sequence[str]], modules: Collection[str]) -> tuple[str, str]:
    """The script that starts another package's program which trains, and that package; of what the project imports."""
    for path in sorted(launches, key=lambda path: (path.count("/"), path)):
        for name in launches[path]:
            found = _FOREIGN.match(name)
            if found and found[1] in modules and path.endswith(".sh"):
                return path, found[1]
    return "", ""


def does_more(path: str, starts: Collection[str], named: Mapping[str, Started]) -> bool:
    """Does a program do something else with what it takes from the training: by its name, or since nothing but an import shows that it trains?"""
    if path in starts or is_called(path) or is_called(PurePath(path).parent.name):
        return False
    return bool(_OTHERS.search(PurePath(path).stem)) or (path not in named and not _is_plain(path))


def trainless(
    launches: Mapping[str, Sequence[str]], training: Collection[str], paths: Collection[str]
) -> set[str]:
    """The shell scripts that start programs of the project, none of which trains, however far."""
    ends = by_last(paths)
    scripts: dict[str, set[str]] = {}
    for path, names in launches.items():
        if path.endswith(".sh"):
            found = (resolved(path, name, ends) or ends.get(PurePath(name).name, ()) for name in names)  # fmt: skip
            scripts[path] = {each for some in found for each in some} - {path}
    train = {*training}
    while more := {path for path, those in scripts.items() if not those.isdisjoint(train)} - train:
        train |= more
    return {path for path, those in scripts.items() if those} - train


def starters(
    first: Collection[str], launches: Mapping[str, Sequence[str]], paths: Collection[str]
) -> set[str]:
    """The files that start one of the programs."""
    ends = by_last(paths)
    return {path for path, names in launches.items() if any(each in first for name in names for each in resolved(path, name, ends))} - {*first}  # fmt: skip


def is_called(path: str) -> bool:
    """Is a program called after training?"""
    return "train" in PurePath(path).stem.lower()


def _is_plain(path: str) -> bool:
    return PurePath(path).stem.lower() in _PLAIN
