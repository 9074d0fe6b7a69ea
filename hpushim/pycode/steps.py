"""The bound of the work on one file, counted in steps, so that it is the same on every machine."""

from __future__ import annotations

#: A file may take so many steps, and so many for each of its bytes; files of public projects take less than a hundredth of that.
_STEPS, _STEPS_PER_BYTE = 500_000, 100


class TooManySteps(BaseException):
    """A file takes more work than any file should. No Exception: nobody on the way takes it for a fault of his own."""

    def __init__(self, most: int) -> None:
        super().__init__(f"takes more than {most:,} steps to look at")


class Steps:
    """The steps that the work on one file has taken, and the most that it may take."""

    __slots__ = ("most", "taken")

    def __init__(self, size: int) -> None:
        self.taken = 0
        self.most = _STEPS + _STEPS_PER_BYTE * size

    def spend(self, steps: int = 1) -> None:
        """Counts steps; raises :class:`TooManySteps` when there are too many."""
        self.taken += steps
        if self.taken > self.most:
            raise TooManySteps(self.most)
