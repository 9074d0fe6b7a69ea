"""A ledger as it is in its file, and what is reported of it: plain data.

Of the file everything but the totals may be missing, as in one of an older release.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SCHEMA_VERSION = 1  # of the file
#: How often something happened, or how many bytes: what is below or beyond is no ledger's.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Site(msgspec.Struct, frozen=True):
    """What happened at a line, how often, and the bytes that were moved."""

    file: str
    line: Count
    kind: str
    what: str
    count: Count
    bytes: Count = 0


class Difference(msgspec.Struct, frozen=True):
    """What was another at a recompilation. ``kind``: ``dimension``, ``number``, ``tensor`` (dtype or how many dimensions) or ``layout``."""

    argument: str
    before: str
    after: str
    kind: str = ""
    dimension: int | None = None


class Cause(msgspec.Struct, frozen=True):
    """Why a graph was compiled again: the first operator that differed. ``others``: the same, with further sizes."""

    operator: str
    count: Count
    differences: tuple[Difference, ...] = ()
    others: Count = 0
    file: str = ""
    line: Count = 0

    @property
    def by_number(self) -> bool:
        """Whether nothing but a number that is given to an operator was another."""
        return bool(self.differences) and all(d.kind == "number" for d in self.differences)


class Steps(msgspec.Struct, frozen=True):
    """The steps that optimizers took; each entry holds one or more of them, in order."""

    count: Count = 0
    optimizers: Count = 0
    entries: tuple[dict[str, Count], ...] = ()


class Compute(msgspec.Struct, frozen=True):
    """Matrix products, convolutions and the like, by where they ran."""

    hpu: Count = 0
    cpu: Count | None = None


class Objection(msgspec.Struct, frozen=True):
    """What was reported while the program ran."""

    code: str
    text: str
    site: str


class DemotionLine(msgspec.Struct, frozen=True):
    """A line that puts a dtype on the device which the device keeps in a narrower one."""

    file: str
    line: Count
    what: str


class Break(msgspec.Struct, frozen=True):
    """Why torch.compile ended a graph."""

    reason: str
    count: Count


class Group(msgspec.Struct, frozen=True):
    """A process group."""

    backend: str
    device: str
    size: Count


class LeftOut(msgspec.Struct, frozen=True):
    """What had no room."""

    recompilation_causes: Count = 0
    sites: Count = 0


class Records(msgspec.Struct, frozen=True):
    """The ledger of one process."""

    schema_version: int
    emulated: bool
    complete: bool = False
    gaudi: str = ""
    mode: str = ""
    operators: Count = 0
    mark_steps: Count = 0
    graphs: Count = 0
    graph_runs: Count = 0
    recompilations: Count = 0
    recompilations_by_number: Count = 0
    host_syncs: Count = 0
    host_to_device: Count = 0
    device_to_host: Count = 0
    host_to_device_bytes: Count = 0
    device_to_host_bytes: Count = 0
    cpu_fallbacks: Count = 0
    demotions: Count = 0
    collectives: Count = 0
    peak_bytes: Count = 0
    compute_operators: Compute = Compute()
    fallback_operators: dict[str, Count] = {}
    recompilation_causes: tuple[Cause, ...] = ()
    parameters: dict[str, Count] = {}
    first_compute_on_cpu: str = ""
    steps: Steps = Steps()
    objections: tuple[Objection, ...] = ()
    demotion_lines: tuple[DemotionLine, ...] = ()
    graph_breaks: tuple[Break, ...] = ()
    process_groups: tuple[Group, ...] = ()
    sites: tuple[Site, ...] = ()
    left_out: LeftOut = LeftOut()


class Process(msgspec.Struct, frozen=True):
    """The ledger of one process of a run: ``""`` for its first, else ``rank1`` or ``pid123``."""

    name: str
    records: Records


class Ledger(msgspec.Struct, frozen=True):
    """The ledger of a run: the ledgers of its processes as one."""

    path: str
    processes: int
    #: Counts added up, the largest peak, every line once.
    joined: Records
    #: The process that took most steps, without its lines.
    main: Records
    #: Steps after each process's first one, and the times that they waited for a value.
    later: tuple[int, int] = (0, 0)
    #: What had no room, by the process.
    left_out: tuple[tuple[str, LeftOut], ...] = ()
    unfinished: tuple[str, ...] = ()  #: files of processes that did not end, or were killed
    written: float = 0.0  #: when, in seconds since the epoch


class Advice(msgspec.Struct, frozen=True):
    """What the matrix says: its row, the code of the rule that finds it in source, the note."""

    row: str
    code: str
    note: str
    confidence: str

    @property
    def label(self) -> str:
        """The code, or the row's name where no rule looks for it."""
        return self.code or self.row

    @property
    def said(self) -> str:
        """The note, marked where no source states it."""
        sure = self.confidence in ("documented", "source")
        return self.note if sure else f"{self.note} ({self.confidence})"


Weight = Literal["blocks", "costs", "changes", "shows"]


class Event(msgspec.Struct, frozen=True):
    """Something that happened at a line, in words."""

    kind: str
    weight: Weight
    text: str
    count: int
    bytes: int = 0
    advice: Advice | None = None


class Line(msgspec.Struct, frozen=True):
    """A line of source and what happened there."""

    file: str
    line: int
    own: bool
    shown: str  #: the path as it is shown: below the current folder without it
    source: str = ""
    events: tuple[Event, ...] = ()
    first_change: int = (
        0  #: which shape that was another, in order of time from 1, came here first; 0: none did
    )


class Fact(msgspec.Struct, frozen=True):
    """A total, in words."""

    name: str
    value: str
    advice: Advice | None = None


class Summary(msgspec.Struct, frozen=True):
    """What the renderers show."""

    path: str
    verdict: str
    facts: tuple[Fact, ...]
    memory: tuple[Fact, ...]
    lines: tuple[Line, ...]
    steps: Steps
    after: dict[str, int]  #: what happened after the last step
    breaks: tuple[Break, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the matrix says to anything here, each row once, in order of appearance."""
        found = [fact.advice for fact in (*self.facts, *self.memory)]
        found += [event.advice for line in self.lines for event in line.events]
        return tuple(dict.fromkeys(one for one in found if one is not None))
