"""What a step would send and a device would hold, by formulas that are reported with the figures.

Sending. A group of ``n`` ranks lies on ``s`` servers with ``k`` of its devices each. For a whole of ``S`` bytes one device sends, inside its
server and out of it, when a collective goes in two levels, as HCCL's do:

- all_reduce: ``2 (k-1)/k S`` inside, ``2 (s-1)/s S/k`` outside
- all_gather, reduce_scatter, reduce: half of that
- broadcast: ``S`` inside where there are others, ``S/k`` outside; scatter and gather: ``S/n`` for each rank but one
- all_to_all: ``(k-1)/n S`` inside, ``(n-k)/n S`` outside; send: ``S``

Holding. With ``P`` parameters, ``G`` gradients, ``O`` state of the optimizers, ``A`` the rest of the peak that was seen, for the batch
that was run, without what the way that it was run in holds beside: replicated (DDP) ``P + 2 G + O + A``, for its buckets hold gradients once more; sharded over ``n`` (FSDP)
``(P + G + O)/n + 2 U + A``, where ``U`` is the largest unit that is gathered; tensor parallel over ``t`` devices ``(P + G + O)/t + A``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hpushim.matrix import Matrix
from hpushim.model import Target
from hpushim.plan.fake import LeftOut
from hpushim.plan.observed import Collective, Observed, Overrun


class Traffic(msgspec.Struct, frozen=True):
    """All calls of one collective on one group in a step."""

    name: str
    reduction: str
    dtypes: tuple[str, ...]
    ranks: int
    servers: int
    calls: int
    bytes: int  #: of the wholes together
    inside: int  #: that one device sends to others of its server
    outside: int  #: that one device sends out of its server


class Holding(msgspec.Struct, frozen=True):
    """What a device would hold under one way of training in parallel."""

    way: str
    formula: str
    bytes: int
    fits: bool


class Refusal(msgspec.Struct, frozen=True):
    """What HCCL does not do, or does otherwise, with a collective of the run."""

    what: str
    status: str
    note: str
    row: str


class Estimate(msgspec.Struct, frozen=True):
    """A run on paper."""

    target: Target
    world: int
    servers: int
    cards: int  #: in a server
    memory: int  #: bytes of a device
    steps: int
    first: tuple[Traffic, ...]
    step: tuple[Traffic, ...]
    peak: int
    holdings: tuple[Holding, ...]
    refusals: tuple[Refusal, ...]
    seconds: (
        float | None
    )  #: at least for what a step sends, at the documented rate of the ports; None where that is not known
    notes: tuple[str, ...]
    overrun: Overrun | None = None  #: where a device of the target would run out of memory first
    left_out: LeftOut | None = None  #: None where all was computed


def estimate(observed: Observed, matrix: Matrix, target: Target) -> Estimate:
    """What was observed of one rank, for all devices of the target."""
    info = matrix.generations[target.gaudi]
    step = tuple(_traffic(observed.last_step(), info.cards))
    seconds = None
    if info.ports is not None:
        rate = info.ports.gbit * 1e9 / 8
        inside = sum(one.inside for one in step) / (info.ports.inside * rate)
        seconds = max(inside, sum(one.outside for one in step) / (info.ports.outside * rate))
    memory = info.memory_bytes
    return Estimate(
        target=target,
        world=observed.world,
        servers=-(-observed.world // info.cards),
        cards=info.cards,
        memory=memory,
        steps=observed.steps,
        first=tuple(_traffic(observed.before(), info.cards)),
        step=step,
        peak=observed.peak,
        holdings=tuple(_holdings(observed, info.cards, memory)),
        refusals=tuple(_refusals(observed.collectives, matrix, target, info.cards)),
        seconds=seconds,
        notes=tuple(dict.fromkeys(observed.notes)),
        overrun=observed.overrun,
        left_out=observed.left_out,
    )


def sent(name: str, whole: int, ranks: int, servers: int) -> tuple[int, int]:
    """Bytes that one device sends for one collective, inside its server and out of it; the formulas are at the top."""
    if ranks < 2:
        return 0, 0
    here = ranks / servers
    inside, outside = (here - 1) / here, (servers - 1) / servers / here
    if name.startswith("all_reduce"):
        shares = 2 * inside, 2 * outside
    elif name.startswith(("all_gather", "reduce")):
        shares = inside, outside
    elif name == "broadcast":
        shares = float(here > 1), 1 / here if servers > 1 else 0.0
    elif name in ("scatter", "gather") or name.startswith("all_to_all"):
        shares = (here - 1) / ranks, (ranks - here) / ranks
    else:
        shares = (1.0, 0.0) if servers == 1 else (0.0, 1.0)
    return round(shares[0] * whole), round(shares[1] * whole)


def _traffic(calls: Sequence[Collective], cards: int) -> Iterator[Traffic]:
    """The calls by collective, group and dtype, the largest first."""
    groups: dict[tuple[str, str, tuple[str, ...], tuple[int, ...]], list[Collective]] = {}
    for one in calls:
        groups.setdefault((one.name, one.reduction, one.dtypes, one.ranks), []).append(one)
    found = []
    for (name, reduction, dtypes, ranks), same in groups.items():
        servers = len({rank // cards for rank in ranks})
        parts = [sent(name, one.bytes, len(ranks), servers) for one in same]
        whole = sum(one.bytes for one in same)
        inside, outside = sum(part[0] for part in parts), sum(part[1] for part in parts)
        found.append(
            Traffic(name, reduction, dtypes, len(ranks), servers, len(same), whole, inside, outside)
        )
    yield from sorted(found, key=lambda one: (-one.bytes, one.name))


def _holdings(observed: Observed, cards: int, memory: int) -> Iterator[Holding]:
    held = observed.parameters
    if not held.whole:
        return
    all_ = held.whole + held.gradients_whole + held.state_whole
    unit, rest = observed.unit, observed.rest
    world, tensor = observed.world, min(cards, observed.world)
    ways = (
        ("as it was run (the peak of this rank)", "peak", observed.peak),
        ("replicated (DDP)", "P + 2 G + O + A", all_ + held.gradients_whole + rest),
        (
            f"sharded over {world} (FSDP)",
            f"(P + G + O)/{world} + 2 U + A",
            all_ // world + 2 * unit + rest,
        ),
        (f"tensor parallel over {tensor}", f"(P + G + O)/{tensor} + A", all_ // tensor + rest),
    )
    for way, formula, size in ways:
        yield Holding(way, formula, size, size <= memory)


def _refusals(
    calls: Sequence[Collective], matrix: Matrix, target: Target, cards: int
) -> Iterator[Refusal]:
    seen: set[tuple[str, str]] = set()
    for one in calls:
        for refusal in _of_one(one, matrix, target, cards):
            if (refusal.what, refusal.note) not in seen:
                seen.add((refusal.what, refusal.note))
                yield refusal


def _of_one(one: Collective, matrix: Matrix, target: Target, cards: int) -> Iterator[Refusal]:
    if one.reduction and (row := matrix.row(f"torch.distributed.ReduceOp.{one.reduction}")):
        verdict = matrix.assess(row, target)
        if verdict.status not in ("native", "renamed"):
            yield Refusal(f"{one.name} with {one.reduction}", verdict.status, row.note, row.name)
    for rule in matrix.collectives:
        if one.name in rule.names.split():
            for dtype in one.dtypes:
                if rule.dtypes and dtype not in rule.dtypes.split():
                    text = rule.note or f"takes {rule.dtypes}"
                    yield Refusal(
                        f"{one.name} of {dtype}", "unsupported", text, "dtypes in collectives"
                    )
                elif rule.exact and dtype not in rule.exact.split():
                    text = rule.note or "is converted to float32 and back"
                    yield Refusal(
                        f"{one.name} of {dtype}", "changed", text, "dtypes in collectives"
                    )
    if (row := matrix.row(f"torch.distributed.{one.name}")) and (
        status := matrix.assess(row, target).status
    ) not in ("native", "renamed"):
        yield Refusal(one.name, status, row.note, row.name)
    for server in {rank // cards for rank in one.ranks}:
        part = sorted(rank % cards for rank in one.ranks if rank // cards == server)
        row = matrix.row("part of the devices of a server")
        if row and 1 < len(part) < cards and not _aligned(part):
            what = f"a group of the devices {', '.join(map(str, part))} of a server"
            yield Refusal(what, row.status, row.note, row.name)


def _aligned(part: Sequence[int]) -> bool:
    """Is it one of the groups of devices that Gaudi's documents advise: 2 or 4 neighbours that begin at a multiple of as many?"""
    size = len(part)
    return size in (2, 4) and part[0] % size == 0 and part[-1] - part[0] == size - 1
