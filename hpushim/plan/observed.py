"""What one rank of a planned run did: its collectives, its optimizer steps, its memory. Plain data."""

from __future__ import annotations

from collections import Counter

import msgspec

from hpushim.plan.fake import LeftOut


class Collective(msgspec.Struct, frozen=True):
    """One call of a collective by this rank."""

    name: str  #: as the matrix names it, ``all_reduce``; the operator's name for one that is not known
    bytes: int  #: of the whole: of what is reduced, or of all the parts together
    dtypes: tuple[str, ...]  #: torch's names without the module
    reduction: str  #: ``SUM`` …; "" for a collective that reduces nothing
    ranks: tuple[int, ...]  #: of its group
    step: int  #: optimizer steps that were over by then


class Parameters(msgspec.Struct, frozen=True):
    """Bytes of what the optimizers hold: on this rank, and over all ranks that share it."""

    here: int = 0
    whole: int = 0
    gradients_here: int = 0
    gradients_whole: int = 0
    state_here: int = 0
    state_whole: int = 0
    largest: int = 0  #: of the largest parameter, whole


class Overrun(msgspec.Struct, frozen=True):
    """Where the memory of a device would first have been too small."""

    line: str  #: of the program, ``train.py:12``
    asked: int  #: bytes
    in_use: int  #: bytes before that


class Observed(msgspec.Struct):
    """A run of one rank, until it was ended or ended by itself."""

    world: int
    steps: int = 0
    collectives: list[Collective] = []
    parameters: Parameters = Parameters()
    peak: int = 0  #: bytes on the emulated device at most
    began: bool = False  #: the program made a process group
    replicated: bool = False  #: it wrapped a model in DistributedDataParallel, whose buckets hold the gradients once more
    notes: list[str] = []
    overrun: Overrun | None = None
    left_out: LeftOut | None = None  #: None where all was computed

    @property
    def unit(self) -> int:
        """Bytes of the largest unit of parameters that is gathered, as far as it was seen; of the largest parameter at least."""
        sizes = [one.bytes for one in self.collectives if one.name.startswith("all_gather")]
        return max(
            [self.parameters.largest, *(size for size in sizes if size <= self.parameters.whole)]
        )

    @property
    def rest(self) -> int:
        """The peak without parameters, gradients, state and what the way of training in parallel holds beside them."""
        held = self.parameters
        beside = held.gradients_here if self.replicated else 0
        if held.here < held.whole and any(
            one.name.startswith("all_gather") for one in self.collectives
        ):
            beside += 2 * self.unit
        known = held.here + held.gradients_here + held.state_here + beside
        return max(self.peak - known, 0)

    def last_step(self) -> tuple[Collective, ...]:
        """The collectives of the last whole step; of the whole run where no optimizer stepped."""
        if not self.steps:
            return tuple(self.collectives)
        return tuple(one for one in self.collectives if one.step == self.steps - 1)

    def before(self) -> tuple[Collective, ...]:
        """The collectives that come once: of each step before the last, what is more than in the last one.

        The first step holds those before training, the second those of DistributedDataParallel's buckets, which it makes anew. So what
        comes once, and a step times their number, is what the run sent.
        """
        usual = Counter((one.name, one.bytes, one.ranks) for one in self.last_step())
        rest: list[Collective] = []
        left: Counter[tuple[str, int, tuple[int, ...]]] = Counter()
        step = -1
        for one in self.collectives:
            if one.step >= self.steps - 1:
                break
            if one.step != step:
                step, left = one.step, usual.copy()
            key = (one.name, one.bytes, one.ranks)
            left[key] -= 1
            if left[key] < 0:
                rest.append(one)
        return tuple(rest)
