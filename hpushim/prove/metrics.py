"""The numbers that a script prints and logs: read from its output and from the text files that it wrote, and compared by their text.

A line's text without its numbers is what the number is called, so that ``step 3: loss 0.51`` of one run is beside that of the
other, whatever else either prints. Numbers that a second run of the same program does not repeat are no metrics: what has the unit or the
name of a time, a rate or a size is left out here; what differs beside that is measured again before it counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hpushim.prove.runs import Run

LOGS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".log", ".yaml", ".yml", ".md")
#: A number by itself: no part of a name, a path, a date or a time of day.
_DIGITS = r"(?<![\w.:/\\#-])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(rf"{_DIGITS}(?![\w/\\-]|[.:]\d)")
_CLOCK = re.compile(
    r"\d+:\d\d(?::\d\d(?:[.,]\d+)?)?|\b\d\d ?: ?\d\d ?: ?\d\d(?![\d.])|\d{4}-\d\d-\d\d"
    r"|\b(?:\d+ ?h:? ?)?\d+ ?m:? ?\d+(?:\.\d+)? ?s\b"
)
_DEVICE = re.compile(r"\b(cuda|hpu|cpu)(:0)?\b", re.IGNORECASE)
_UNITS = r"(?:ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|it/s|s/it|[kmg]i?b|bytes|tok(?:ens)?/s\w*|\w+/s(?:ec\w*)?)"
#: What has the unit of a time, a rate or a size, also where the unit is written on to the number.
_QUANTITY = re.compile(rf"{_DIGITS}\s*{_UNITS}(?!\w)", re.IGNORECASE)
_MEASURED = re.compile(
    r"(?:time(?: (?:cost|used|taken|spent))?(?: is)?|takes|spent|elapsed|eta|speed|throughput|latency|duration|seconds|memory|mem|date|fps|rate/s|took|pid|port|took in|flops|mfu)\w*[\"']?\s*[:=(,]?\s*$",
    re.IGNORECASE,
)
_HEADERS = re.compile(r"[A-Za-z_][\w /.%-]*")


class Number(msgspec.Struct, frozen=True):
    """A number as it was written: ``slack`` is what its last place leaves open."""

    value: float
    slack: float
    decimal: bool
    line: int


Metrics = dict[tuple[str, str], list[Number]]


class Odd(msgspec.Struct, frozen=True):
    """The first number of a metric that is another one in the second run."""

    where: str
    name: str
    line: int
    expected: float
    found: float
    key: tuple[str, str]

    def shown(self) -> str:
        return f"{self.name} in {self.where}, line {self.line}, is {self.found:.6g}, {self.expected:.6g} expected"


def of(run: Run) -> Metrics:
    """Every number of a run's output, its logs and what it handed to a logging library, in order, by where it is and its text."""
    found: Metrics = {}
    for where, text in (("output", run.output), *sorted(run.logs.items())):
        _read(where, text, found)
    for name, value, line in run.record.scalars:
        found.setdefault(("log", name), []).append(Number(value, abs(value) * 1e-6, True, line))
    return found


def _read(where: str, text: str, found: Metrics) -> None:
    header: list[str] = []
    for number, line in enumerate(text.replace("\r", "\n").splitlines(), 1):
        plain = _QUANTITY.sub("<amount>", _CLOCK.sub("<time>", _DEVICE.sub("<device>", line)))
        parts = list(_NUMBER.finditer(plain))
        if not parts:
            cells = re.split(r"[,\t]", plain)
            header = cells if all(_HEADERS.fullmatch(c.strip()) for c in cells) else header
            continue
        called = " ".join(_NUMBER.sub("#", plain).split())
        columns = re.split(r"[,\t]", plain)
        for place, part in enumerate(parts):
            before = plain[: part.start()]
            if _MEASURED.search(before):
                continue
            name = f"{called} [{place}]"
            if len(header) == len(columns) > 1:
                name = header[len(re.split(r"[,\t]", before)) - 1].strip()
                if _MEASURED.search(name):
                    continue
            found.setdefault((where, name), []).append(_number(part[0], number))


def _number(text: str, line: int) -> Number:
    mantissa, _, exponent = text.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    slack = 10.0 ** (int(exponent or 0) - places)
    decimal = "." in mantissa or bool(exponent)
    return Number(float(text), slack if decimal else 0.0, decimal, line)


def odd(
    ours: Metrics, theirs: Metrics, limit: float, *, ranks: int = 1, decimals: bool = False
) -> Iterator[Odd]:
    """Metrics whose numbers are farther apart than ``limit`` (relative) and the last place that was written, the first of each.

    Several ``ranks`` write in any order. With ``decimals`` whole numbers are not compared: a count of devices is another one on a device.
    """
    for key in ours:
        if key not in theirs:
            continue
        if decimals and not all(one.decimal for one in (*ours[key], *theirs[key])):
            continue
        if ranks > 1 and len(ours[key]) != len(theirs[key]):
            continue
        for a, b in zip(_ordered(ours[key], ranks), _ordered(theirs[key], ranks), strict=False):
            if not _near(a, b, limit):
                where, name = key
                yield Odd(where, _called(name), b.line, a.value, b.value, key)
                break


def _ordered(numbers: Iterable[Number], ranks: int) -> list[Number]:
    found = list(numbers)
    return sorted(found, key=lambda one: one.value) if ranks > 1 else found


def _near(a: Number, b: Number, limit: float) -> bool:
    if a.value == b.value or (a.value != a.value and b.value != b.value):
        return True
    room = limit * max(abs(a.value), abs(b.value)) + max(a.slack, b.slack) * 1.01
    return abs(a.value - b.value) <= room


def _called(name: str) -> str:
    """The words before the number that is meant, of a line's text."""
    text, _, place = name.rpartition(" [")
    if not text:
        return repr(name)
    before = text.split("#")[int(place.rstrip("]"))]
    words = before.strip(" \t,;|:={[(\"'").split()[-4:]
    return repr(" ".join(words)) if words else f"number {int(place.rstrip(']')) + 1}"
