"""What happened at one line of source, in words, with what the matrix says to it; the same things together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpushim.ledgers import advice as matrix_says
from hpushim.ledgers.model import Cause, Event, Site, Weight

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

_COPY = "copy to the host"  # the host sync that goes with each copy
_MOST_SIZES = 6

_KINDS = {
    "number": " (a number)",
    "tensor": " (its dtype, or how many dimensions)",
    "layout": " (its layout)",
}
#: Names that the emulated device gives to what people call otherwise.
_PLAIN = (
    (re.compile(r"aten::"), ""),
    (re.compile(r"_scaled_dot_product_\w*?(_backward)?(?!\w)"), r"scaled_dot_product_attention\1"),
    (re.compile(r"_overrideable"), ""),
    (re.compile(r"_ in group"), " in group"),
)

#: How heavy an event is: it does not run on a Gaudi, it costs time there, it changes numbers, or it only shows what runs.
WEIGHTS: dict[str, Weight] = {
    "unsupported": "blocks",
    "refused_dtype": "blocks",
    "collective_limit": "blocks",
    "held": "blocks",
    "compute_on_cpu": "costs",
    "cpu_fallback": "costs",
    "recompilation": "costs",
    "recompilation_by_number": "costs",
    "host_sync": "costs",
    "synchronize": "costs",
    "demotion": "changes",
}
_ORDER = ("blocks", "changes", "costs", "shows")


def events_of(sites: Sequence[Site], causes: Sequence[Cause], matrix: Matrix) -> tuple[Event, ...]:
    """The events of one line, the heaviest first."""
    counts: Counter[tuple[str, str]] = Counter()
    moved: Counter[tuple[str, str]] = Counter()
    for site in sites:
        counts[site.kind, site.what] += site.count
        moved[site.kind, site.what] += site.bytes
    # Each copy to the host is a host sync too, and each mark that ends a graph is reported as its end: one event, not two.
    moved["host_sync", _COPY] += moved.pop(("device_to_host", "copy"), 0)
    counts.pop(("device_to_host", "copy"), None)
    marks = counts.pop(("mark_step", "mark_step"), 0)
    ended = counts.get(("graph_end", "mark_step"), 0)
    if marks > ended:
        counts["mark_step", "a mark_step() without a graph before it"] = marks - ended
    for name in ("recompilation", "recompilation_by_number"):
        for kind, what in [key for key in counts if key[0] == name]:
            if any(_names(cause, what) for cause in causes):
                del counts[kind, what]
    events = [
        _event(Site("", 0, kind, what, count, moved[kind, what]), matrix)
        for (kind, what), count in counts.items()
    ]
    events += _recompilations(causes, matrix)
    events.sort(key=lambda one: (_ORDER.index(one.weight), -one.count, one.text))
    return tuple(events)


def _names(cause: Cause, what: str) -> bool:
    """Whether a site's text is the one that the recorder writes for this cause."""
    if not cause.differences:
        return what == cause.operator
    first = cause.differences[0]
    dimension = f", dimension {first.dimension}" if first.dimension is not None else ""
    return what == f"{cause.operator}, {first.argument}{dimension}"


def _recompilations(causes: Sequence[Cause], matrix: Matrix) -> list[Event]:
    together: dict[tuple[str, ...], list[Cause]] = {}
    for cause in causes:
        key = tuple(f"{d.argument} {d.dimension} {d.kind}" for d in cause.differences)
        together.setdefault((cause.operator, *key), []).append(cause)
    events = []
    for alike in together.values():
        first = alike[0]
        kind = "recompilation_by_number" if first.by_number else "recompilation"
        count = sum(cause.count + cause.others for cause in alike)
        says = matrix_says.of_row(
            matrix, matrix_says.NUMBERS if first.by_number else matrix_says.SHAPES
        )
        others = sum(cause.others for cause in alike)
        text = f"{_plain(first.operator)} compiled again: {_changes(alike, others)}"
        events.append(Event(kind, WEIGHTS[kind], text, count, 0, says))
    return events


def _changes(alike: Sequence[Cause], others: int) -> str:
    """``mat1 dimension 0: 4, then 7, 5``, for each argument that was another."""
    together: dict[str, list[str]] = {}
    for at, first in enumerate(alike[0].differences):
        seen = [first.before]
        seen += [cause.differences[at].after for cause in alike]
        sizes = list(dict.fromkeys(seen))
        where = f" dimension {first.dimension}" if first.dimension is not None else ""
        shown = ", ".join(sizes[1 : 1 + _MOST_SIZES]) or first.after
        more = ", …" if others or len(sizes) > 1 + _MOST_SIZES else ""
        change = f"{where}{_KINDS.get(first.kind, '')}: {sizes[0]}, then {shown}{more}"
        together.setdefault(change, []).append(first.argument)
    parts = [f"{_arguments(names)}{change}" for change, names in together.items()]
    return "; ".join(parts) if parts else "no difference is known"


def _arguments(names: Sequence[str]) -> str:
    """``self, other``; of the parts of a list, the first and the last: ``tensors[0] … tensors[34]``."""
    lists: dict[str, list[str]] = {}
    for name in names:
        lists.setdefault(name.partition("[")[0], []).append(name)
    shown = (parts if len(parts) < 3 else [f"{parts[0]} … {parts[-1]}"] for parts in lists.values())
    return ", ".join(name for parts in shown for name in parts)


def _event(site: Site, matrix: Matrix) -> Event:
    weight = WEIGHTS.get(site.kind, "shows")
    says = matrix_says.of_site(matrix, site)
    return Event(site.kind, weight, _text(site, matrix), site.count, site.bytes, says)


def _text(site: Site, matrix: Matrix) -> str:
    what = _plain(site.what)
    if site.kind == "host_sync":
        if site.what == "item":
            return "a value is read on the host, which waits for the device"
        if site.what == _COPY:
            return "copied to the host, which waits for the device"
        return f"the result size of {what} depends on data: the host waits for the device"
    if site.kind == "cpu_fallback":
        remark = matrix_says.remark(matrix, site.what)
        return f"{what} runs on the CPU on a Gaudi{f' ({remark})' if remark else ''}"
    texts = {
        "compute_on_cpu": f"{what} ran on the CPU: its tensors are not on hpu",
        "recompilation": f"compiled again: {what}",
        "recompilation_by_number": f"compiled again for another number: {what}",
        "demotion": what,
        "refused_dtype": what,
        "unsupported": f"{what} does not work on a Gaudi",
        "collective": f"collective: {what}",
        "host_to_device": "copied to the device",
        "host_argument": f"{what}: a CPU tensor among its arguments was copied to the device",
        "graph_end": f"a graph ended here, by {_ender(what)}",
        "synchronize": "the host waits for the device",
        "mark_step": what,
        "operator": what,
    }
    return texts.get(site.kind, f"{site.kind.replace('_', ' ')}: {what}")


def _ender(what: str) -> str:
    return {"item": "a value that is read", _COPY: "a copy to the host"}.get(what, what)


def _plain(what: str) -> str:
    """An operator as people write it; a collective without torch's underscore."""
    for pattern, plain in _PLAIN:
        what = pattern.sub(plain, what)
    return what
