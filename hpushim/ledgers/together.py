"""The ledgers of all processes of a run as one: added up one by one, so that a run of many ranks takes the memory of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hpushim.ledgers.model import Break, Cause, Ledger, LeftOut, Process, Records, Site

#: Of all processes together it is as much as of the one that took most.
_LARGEST = frozenset({"peak_bytes"})
#: Facts of the first process; they are the same in all.
_FIRST = frozenset({"schema_version", "emulated", "complete", "gaudi", "mode"})


class Together:
    """Takes in the processes in order, the first one first."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._first: Records | None = None
        self._main: Records | None = None
        self._numbers: dict[str, int] = {}
        self._tables: dict[str, dict[str, int]] = {}
        #: Values in order, each once.
        self._once: dict[str, dict[Any, None]] = {}
        self._sites: dict[tuple[str, int, str, str], list[int]] = {}
        self._causes: dict[Cause, list[int]] = {}
        self._breaks: dict[str, int] = {}
        self._compute = [0, 0]
        self._on_cpu = ""
        self._later = [0, 0]
        self._left_out: list[tuple[str, LeftOut]] = []

    def add(self, process: Process) -> None:
        name, records = process.name, process.records
        self.names.append(name)
        if self._first is None:
            self._first = _without_lines(records)
        if self._main is None or records.steps.count > self._main.steps.count:
            self._main = _without_lines(records)
        for field, value in _simple(records):
            if isinstance(value, int):
                how = max if field in _LARGEST else int.__add__
                self._numbers[field] = how(self._numbers.get(field, 0), value)
            elif isinstance(value, dict):
                table = self._tables.setdefault(field, {})
                for key, count in value.items():
                    table[key] = table.get(key, 0) + count
        for field in ("process_groups", "demotion_lines", "objections"):
            self._once.setdefault(field, {}).update(dict.fromkeys(getattr(records, field)))
        for site in records.sites:
            held = self._sites.setdefault((site.file, site.line, site.kind, site.what), [0, 0])
            held[0] += site.count
            held[1] += site.bytes
        for cause in records.recompilation_causes:
            plain = msgspec.structs.replace(cause, count=0, others=0)
            held = self._causes.setdefault(plain, [0, 0])
            held[0] += cause.count
            held[1] += cause.others
        for each in records.graph_breaks:
            self._breaks[each.reason] = self._breaks.get(each.reason, 0) + each.count
        self._compute[0] += records.compute_operators.hpu
        self._compute[1] += records.compute_operators.cpu or 0
        self._on_cpu = self._on_cpu or records.first_compute_on_cpu
        for entry in records.steps.entries[1:]:
            self._later[0] += entry.get("steps", 0)
            self._later[1] += entry.get("host_syncs", 0)
        if records.left_out.sites or records.left_out.recompilation_causes:
            self._left_out.append((name, records.left_out))

    def ledger(self, path: str, unfinished: Iterable[str], written: float) -> Ledger:
        assert self._first is not None and self._main is not None
        changes: dict[str, Any] = {**self._numbers, **self._tables}
        changes.update((field, tuple(held)) for field, held in self._once.items())
        joined = msgspec.structs.replace(
            self._first,
            **changes,
            sites=tuple(Site(*place, count, size) for place, (count, size) in self._sites.items()),
            recompilation_causes=tuple(
                msgspec.structs.replace(cause, count=count, others=others)
                for cause, (count, others) in self._causes.items()
            ),
            graph_breaks=tuple(Break(reason, count) for reason, count in self._breaks.items()),
            compute_operators=type(self._first.compute_operators)(*self._compute),
            first_compute_on_cpu=self._on_cpu,
            steps=self._main.steps,
        )
        return Ledger(
            path,
            len(self.names),
            joined,
            self._main,
            (self._later[0], self._later[1]),
            tuple(self._left_out),
            tuple(unfinished),
            written,
        )


def _without_lines(records: Records) -> Records:
    return msgspec.structs.replace(records, sites=(), recompilation_causes=(), objections=(), demotion_lines=())  # fmt: skip


def _simple(records: Records) -> Iterator[tuple[str, object]]:
    """The numbers and the tables of numbers."""
    for field in Records.__struct_fields__:
        value = getattr(records, field)
        if field not in _FIRST and isinstance(value, (int, dict)):
            yield field, value
