"""An estimate as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpushim.matrix import Matrix
from hpushim.plan.estimate import Estimate, Traffic
from hpushim.plan.fake import LeftOut

_MANY = 12
_LINES = 5


def render(found: Estimate, matrix: Matrix) -> str:
    """All of it, each figure with what it rests on."""
    return "\n".join(_lines(found, matrix)) + "\n"


def _lines(found: Estimate, matrix: Matrix) -> Iterator[str]:
    info = matrix.generations[found.target.gaudi]
    yield f"ESTIMATE, not a measurement: one rank of {found.world} on the emulated HPU, with torch's fake process group."
    yield (
        f"{info.title}, release {found.target.stack}: {found.world} devices are {found.servers} {'server' if found.servers == 1 else 'servers'} of {found.cards}, "
        f"{info.memory_gb} GB a device; {_steps(found.steps)} run"
    )
    yield ""
    if not found.step and not found.first:
        yield "No collectives: the program made no process group, or did not use it."
    if found.step:
        yield (
            "Collectives of one step"
            if found.steps
            else "Collectives of the whole run (no optimizer stepped)"
        )
        yield from _table(found.step)
    if found.first:
        yield "Once in the run: before the first step, or in one step alone"
        yield from _table(found.first)
    if found.seconds is not None and found.step and info.ports:
        yield (
            f"At the documented rate of the ports ({info.ports.inside} inside and {info.ports.outside} out of a server, "
            f"{info.ports.gbit} Gbit/s each) that takes {found.seconds * 1e3:.2f} ms a step at least, if nothing else delays it."
        )
        yield ""
    if found.overrun:
        yield (
            f"OUT OF MEMORY foreseen at {found.overrun.line}: {_size(found.overrun.asked)} more with "
            f"{_size(found.overrun.in_use)} of {_size(found.memory)} in use"
        )
        yield ""
    if found.holdings:
        yield f"Memory of a device ({info.memory_gb} GB), for the batch that was run"
        for one in found.holdings:
            yield f"  {one.way:<40} {_size(one.bytes):>10}  {'fits' if one.fits else 'DOES NOT FIT'}  = {one.formula}"
        yield "  P parameters, G gradients, O state of the optimizers, A the rest of the peak, U the largest unit that is gathered."
        yield "  A lower bound: a Gaudi rounds blocks up and takes a workspace for each graph."
        yield ""
    if found.refusals:
        yield "What HCCL rejects or does differently"
        for refusal in found.refusals:
            yield f'  {refusal.what}: {refusal.status}: {refusal.note} (`hpushim api "{refusal.row}"`)'
        yield ""
    elif found.step or found.first:
        yield "The matrix lists no limit of HCCL for the collectives of this run."
        yield ""
    if found.left_out:
        yield from _left_out(found.left_out, found.cards)
    for note in found.notes:
        yield f"note: {note}"
    yield "A device sends, of a whole of S bytes over s servers with k devices of the group each: all_reduce 2 (k-1)/k S inside and"
    yield '2 (s-1)/s S/k outside; all_gather, reduce_scatter and reduce half of that; sources: `hpushim api "links between devices"`,'
    yield '`hpushim api "devices in a server"`, `hpushim api "memory of a device"`. Values that collectives return are not real here.'


def _left_out(what: LeftOut, cards: int) -> Iterator[str]:
    yield f"Nothing was computed (--fake): {what.operators:,} calls of operators were answered by the shapes of their results"
    yield f"  host memory: {_size(what.host)} in large tensors at the peak of one process; a server runs up to {cards} of them"
    for said, calls in (
        ("values that were not there, read as 0", what.reads),
        ("size of the result unknown, estimated by its upper limit", what.estimated),
        ("computed, since torch has no shape rule for them", what.computed),
        ("not saved", what.saved),
    ):
        if calls:
            most = sorted(calls.items(), key=lambda one: (-one[1], one[0]))
            names = ", ".join(f"{name} ({number:,} ×)" for name, number in most[:_LINES])
            rest = f", and {len(most) - _LINES} more" if len(most) > _LINES else ""
            yield f"  {said}: {names}{rest}"
    yield ""


def _table(traffic: Sequence[Traffic]) -> Iterator[str]:
    yield f"  {'collective':<32} {'calls':>5} {'ranks':>6} {'servers':>7} {'whole':>10} {'sent inside':>12} {'sent outside':>12}"
    for one in traffic[:_MANY]:
        name = " ".join(filter(None, (one.name, one.reduction, "/".join(one.dtypes))))
        yield (
            f"  {name:<32} {one.calls:>5} {one.ranks:>6} {one.servers:>7} {_size(one.bytes):>10} "
            f"{_size(one.inside):>12} {_size(one.outside):>12}"
        )
    if len(traffic) > _MANY:
        yield f"  … and {len(traffic) - _MANY} smaller ones"
    if len(traffic) > 1:
        yield (
            f"  {'all':<32} {sum(one.calls for one in traffic):>5} {'':>6} {'':>7} {_size(sum(one.bytes for one in traffic)):>10} "
            f"{_size(sum(one.inside for one in traffic)):>12} {_size(sum(one.outside for one in traffic)):>12}"
        )
    yield ""


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'} of the first optimizer"


def _size(number: int) -> str:
    """Bytes in the units of documents, powers of a thousand."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1000
    return f"{value:.2f} TB"
