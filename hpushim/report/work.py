"""Findings that a person has to deal with, as pieces of work: what one decision settles is one piece, with a range of minutes.

A piece is one cause: kernels of the project with all that calls them, a package, or what a message says apart from what it quotes. Tests,
tools and images are pieces of their own. What has no counterpart on Gaudi has no range: nobody can say what replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec

from hpushim.model import AREAS, Effort, Report

if TYPE_CHECKING:
    from hpushim.report.assessment import Item

#: Minutes for a piece, for each further message in it, and for each further function where the message is the same, from and to.
#: Estimates; no study of ports gives figures.
_FIRST: dict[Effort, tuple[int, int]] = {"minutes": (5, 20), "hours": (60, 240), "none": (0, 0)}
_MORE: dict[Effort, tuple[int, int]] = {"minutes": (1, 5), "hours": (5, 30), "none": (0, 0)}
_SAME: dict[Effort, tuple[int, int]] = {"minutes": (0, 2), "hours": (1, 5), "none": (0, 0)}
#: For each further file, whose code is another one.
_FILE: dict[Effort, tuple[int, int]] = {"minutes": (0, 3), "hours": (10, 60), "none": (0, 0)}
_DAY = 8 * 60
#: A folder with CUDA kernels of the project's own, to be written with torch's operators.
KERNELS = (_DAY, 5 * _DAY)
_QUOTED = re.compile(r"`[^`]*`")
#: What has to be done before a program runs on Gaudi as it should.
REQUIRED: frozenset[str] = frozenset({"stops", "kernels", "cpu"})


class Work(msgspec.Struct, frozen=True):
    """One piece of work: its first finding's code and message, and all its places as ``path:line``.

    ``least`` and ``most`` are minutes, zero where Gaudi has no counterpart. ``required``: the program does not train on Gaudi before it
    is done; ``chosen``: it does so for those who choose this by an option or by a name; ``aside``: it is in files that no training run
    needs. ``function``: where all of it is.
    """

    code: str
    message: str
    effort: Effort
    places: tuple[str, ...]
    function: str
    least: int
    most: int
    required: bool
    aside: bool
    chosen: bool = False


def pieces(items: Iterable[Item], report: Report) -> tuple[Work, ...]:
    """The work for all findings left to a person, what decides first."""
    by_hand = [item for item in items if item.effort is not None]
    kernels = {item.path for item in by_hand if item.trouble == "kernels"}
    beside = {_folder(path) for path in kernels | {each.path for each in report.kernels}} - {""}
    built: dict[str, str] = {}
    for (
        item
    ) in by_hand:  # an extension of the project's own, which it may import in several folders
        if item.finding.code == _IMPORTED:
            folder = _of(item.path, beside)
            if folder != item.path or item.finding.message not in built:
                built[item.finding.message] = folder
    imported = {_top(item.finding.row) for item in by_hand if item.area == PACKAGES or item.finding.message.startswith(f"`{item.finding.row}`: ")}  # fmt: skip
    found: dict[tuple[object, ...], list[Item]] = {}
    for item in by_hand:
        aside = _is_aside(item, report)
        code, message = item.finding.code, item.finding.message
        if item.trouble == "kernels" or (is_required(item) and item.path in kernels):
            folder = built[message] if code == _IMPORTED else _of(item.path, beside)
            found.setdefault((aside, folder), []).append(item)
        elif (name := _package(item, imported)) is not None:
            found.setdefault((False, name), []).append(item)
        elif item.trouble == "unread" or (is_required(item) and item.area == PACKAGES):
            found.setdefault((aside, code, message), []).append(item)
        else:
            found.setdefault((aside, code, _QUOTED.sub("``", message)), []).append(item)
    found = _joined(found)
    #: Packages that stop where they are imported: there is nothing to do where they are required.
    reported = {item.finding.row for item in by_hand if item.area == PACKAGES and is_required(item)}
    written = any(key[1] in beside and not key[0] for key in found)
    python = sum(f.path.endswith(".py") and f.path not in report.around for f in report.files)
    made = []
    for key, group in found.items():
        group.sort(key=lambda item: (item.trouble != "kernels", item.area != PACKAGES, _is_aside(item, report), not is_required(item), not _is_reached(item.path, report), item.path in report.chosen, item.area == PACKAGES and item.path != report.program))  # fmt: skip
        places = [(item.path, item.finding.function) for item in group]
        stops = [i for i in group if is_required(i) and not (i.area == FILES and i.trouble == "cpu" and i.finding.row in reported)]  # fmt: skip
        required = [item for item in stops if _is_needed(item, report)]
        conditional = all(item.finding.conditional for item in required or group)
        inner = all(item.finding.function or item.finding.conditional for item in group)
        optional = group[0].area == PACKAGES and not required and inner
        piece = _piece(
            group,
            places,
            _is_aside(group[0], report),
            required=bool(required),
            optional=optional,
        )
        if group[0].trouble == "kernels" and written and key[1] not in beside:
            piece = _built_only(piece)
        if all(map(_only_builds, group)) if not required else piece.aside and _is_import(group):
            piece = _built_only(piece)
        reached = any(_is_reached(item.path, report) for item in group)
        certain = any(_is_reached(item.path, report) and item.path not in report.chosen for item in group)  # fmt: skip
        own = group[0].trouble == "kernels"
        if own and piece.least >= KERNELS[0]:
            piece = _with_counterparts(piece, group, report)
        if (own or piece.effort == "none") and not certain:  # of what is chosen by its name
            piece = msgspec.structs.replace(piece, required=False)
        if not piece.required and not all(map(_only_builds, stops)):
            piece = msgspec.structs.replace(piece, chosen=True)
        late = optional or (piece.required and (not certain or conditional))
        users = len({item.path for item in group}) if group[0].area == PACKAGES and not late else 0
        carries = users > 2 and users * CARRIES >= python
        rank = -1 if carries else _rank(group[0])
        decides = piece.required and piece.effort == "none"
        made.append((not piece.required, not piece.chosen, piece.aside, not decides, not (reached or carries), late, rank, -piece.most, piece))  # fmt: skip
    made.sort(key=lambda each: each[:-1])
    return tuple(work for *_, work in made)


def distance(path: str, report: Report) -> tuple[bool, bool]:
    """How far a file is from training: first what a run may need, of that first what the program imports."""
    return path in report.around, not _is_reached(path, report)


def _is_reached(path: str, report: Report) -> bool:
    """Does the program import the file? Of others than Python's, and where no program is known, that is taken for granted."""
    return path in report.reached or not report.reached or not path.endswith((".py", ".ipynb"))


def _joined(found: dict[tuple[object, ...], list[Item]]) -> dict[tuple[object, ...], list[Item]]:
    """The same, where what has to be done in one function for one code is one piece: who makes it real-valued writes all of it anew."""
    made: dict[tuple[object, ...], list[Item]] = {}
    first: dict[tuple[str, str, str], tuple[object, ...]] = {}
    for key, group in found.items():
        places = {(item.finding.code, item.path, item.finding.function) for item in group}
        apart = group[0].area == PACKAGES or not is_required(group[0])
        inner = () if apart else [place for place in places if place[2]]
        into = next((first[place] for place in inner if place in first), key)
        made.setdefault(into, []).extend(group)
        first.update(dict.fromkeys(inner, into))
    return made


#: Behind all other ranks.
_LAST = 99
#: A package that one in so many Python files imports carries the project.
CARRIES = 7
#: Of these each is a decision of its own.
PACKAGES = AREAS[7]
FILES = AREAS[8]
#: The code of an import of the project's own extension, and the files that only build it.
_IMPORTED = "HPU723"
BUILDERS = frozenset({"setup.py", "build.py"})


def optional_kernels(report: Report) -> bool:
    """Does the project also run without the kernels that it builds: are all imports of them optional or guarded?"""
    imports = [(file.path, f) for file in report.files for f in file.findings if f.code == _IMPORTED]  # fmt: skip
    return bool(imports) and all(
        f.severity != "error" or path in report.chosen or path in report.around
        for path, f in imports
    )


def _is_import(items: Iterable[Item]) -> bool:
    """Do the items only import an extension, as its tests do?"""
    return all(item.finding.code == _IMPORTED for item in items)


def _only_builds(item: Item) -> bool:
    return PurePath(item.path).name in BUILDERS


def _is_needed(item: Item, report: Report) -> bool:
    """The same as :func:`is_required`, where the program comes there by its defaults as well."""
    return is_required(item) and is_on_the_way(item, report)


def is_on_the_way(item: Item, report: Report) -> bool:
    """Can the program not do without the file, and comes by its defaults to the place?"""
    if item.finding.unchosen:
        return False
    parts = item.finding.function.split(".")
    if not report.unused.isdisjoint((item.path, f"{item.path}:{parts[0]}", f"{item.path}:{'.'.join(parts[:2])}")):  # fmt: skip
        return False
    if _only_builds(item) and optional_kernels(report):
        return False
    if (item.finding.severity == "unknown" or item.trouble == "cpu") and not _is_reached(item.path, report):  # fmt: skip
        return False
    return item.path not in report.chosen and item.path not in report.around


def _built_only(work: Work) -> Work:
    """What builds or imports kernels whose folder is a piece of its own: lines to take out."""
    places = len(work.places) - 1
    (least, most), (more, at_most) = _FIRST["minutes"], _MORE["minutes"]
    return msgspec.structs.replace(
        work, effort="minutes", least=least + more * places, most=most + at_most * places
    )


#: What a file calls the same written with torch's operators.
_SAME_IN_TORCH = re.compile(rb"\ndef (\w+_(?:native|ref|reference|naive|torch|pytorch|slow)|(?:native|naive|torch|reference|slow)_\w+)\(")  # fmt: skip


def _with_counterparts(work: Work, group: Sequence[Item], report: Report) -> Work:
    """The same, where files that hold or build kernels also have plain code for it: hours for each file, a look where it has."""
    texts = {file.path: file.before or b"" for file in report.files}
    files = {item.path for item in group if item.trouble == "kernels"} - {path for path in texts if PurePath(path).name in BUILDERS}  # fmt: skip
    named = {path: found[1].decode() for path in files if (found := _SAME_IN_TORCH.search(texts.get(path, b"")))}  # fmt: skip
    if not named:
        return work
    (least, most), written = _FIRST["hours"], len(files) - len(named) + 1
    first, *rest = re.split(r"(?<=[;.]) ", work.message, maxsplit=1)
    where, name = min(named.items())
    reported = f"{first.rstrip(';.')} (`{name}` in {PurePath(where).name} is plain code for it){first[len(first.rstrip(';.')) :]}"
    return msgspec.structs.replace(work, message=" ".join((reported, *rest)), least=min(work.least, least * written), most=min(work.most, most * written))  # fmt: skip


def _package(item: Item, imported: Collection[str]) -> str | None:
    """The package that an item is about as a whole: what imports it, in however many files, and what requires it are one decision."""
    row, named = item.finding.row, _QUOTED.match(item.finding.message)
    part = (row or "").replace(".", "_") if item.area == PACKAGES else row or ""
    if _top(row) not in imported or not part.isidentifier() or named is None:
        return None
    return named[0].strip("`").partition(".")[0].replace("-", "_")


def _top(row: str | None) -> str:
    """The package of the row of a part of it; torch is there, whatever part of it is not."""
    return row or "" if row and row.startswith("torch.") else (row or "").partition(".")[0]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _of(path: str, folders: Collection[str]) -> str:
    """The folder of kernels that a file belongs to: the outermost around it."""
    return min((f for f in folders if path.startswith(f"{f}/")), key=len, default=path)


def _is_aside(item: Item, report: Report) -> bool:
    """Is a finding in what no training run needs: such a file, or a function that exports?"""
    return item.path in report.around or "export" in item.finding.function.lower()


def _rank(item: Item) -> int:
    """What decides first; settings that could not be read decide nothing."""
    if item.trouble == "unread" and not item.path.endswith((".py", ".ipynb")):
        return _LAST
    order = ("stops", "kernels", "cpu", "unread", "unknown", "numbers", "speed")
    if item.effort == "none" and item.trouble == "stops":
        return -1
    return order.index(item.trouble) if item.trouble in order else len(order)


def span(works: Sequence[Work]) -> tuple[int, int]:
    """Minutes for all of ``works``, from and to."""
    return sum(work.least for work in works), sum(work.most for work in works)


def in_words(least: int, most: int) -> str:
    """``5 to 20 minutes``, ``1 to 4 hours``, ``2 to 6 days`` (of eight hours)."""
    for unit, size, above in (("minutes", 1, 0), ("hours", 60, 90), ("days", _DAY, 2 * _DAY)):
        if most >= above:
            low, high, name = round(least / size), max(1, round(most / size)), unit
    return f"{low:,} to {high:,} {name}" if low else f"up to {high:,} {name.removesuffix('s') if high == 1 else name}"  # fmt: skip


def _piece(
    items: Sequence[Item],
    around: Sequence[tuple[str, str]],
    aside: bool,
    *,
    required: bool,
    optional: bool,
) -> Work:
    """``required``: training needs it; ``optional``: only a choice that a run need not make comes there."""
    first = items[0]
    effort: Effort = "minutes" if optional else first.effort or "minutes"
    least, most = _FIRST[effort]
    if first.trouble == "kernels" and effort == "none":
        # What is guarded has another branch: a look at that is enough.
        effort, (least, most) = ("hours", KERNELS) if required else ("minutes", _FIRST["minutes"])
    said: dict[tuple[str, str], str] = {}
    for item, place in zip(items, around, strict=True):
        said.setdefault(place, item.finding.message)
    further, same = len(set(said.values())) - 1, len(said) - len(set(said.values()))
    (more, at_most), (each, at_most_each) = _MORE[effort], _SAME[effort]
    files, (file, at_most_file) = len({path for path, _ in said}) - 1, _FILE[effort]
    if _package(first, {_top(first.finding.row)}):
        further = same = files = 0
    return Work(
        first.finding.code,
        first.finding.message,
        effort,
        tuple(dict.fromkeys(f"{item.path}:{item.finding.line}" for item in items)),
        around[0][1] if len(said) == 1 else "",
        least + more * further + each * same + file * files,
        most + at_most * further + at_most_each * same + at_most_file * files,
        required and not aside,
        aside,
    )


def is_required(item: Item) -> bool:
    """Does the program not train on Gaudi before a person has done something here?"""
    if item.trouble == "kernels":
        return item.finding.severity == "error"
    return item.trouble in REQUIRED or item.finding.severity == "unknown"
