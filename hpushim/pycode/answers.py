"""One question to all values of a file: requested from a value, answered for all that it depends on, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from hpushim.pycode.places import At, Edge


class _Joins(Protocol):
    def __or__(self: A, other: A, /) -> A: ...
    def __and__(self: A, other: A, /) -> A: ...


A = TypeVar("A", bound=_Joins)


class Answers(Generic[A]):
    """Answers that grow along edges: an ``enum.Flag``, an ``int`` of bits or a ``frozenset``.

    The answer for a value is what ``own`` says of it, joined with what ``carry`` lets through of the answers at the ends of
    its ``edges``. It is the least one that fits, also where values go round in a circle, so it does not depend on who asks
    first. Each value is looked at once: a thousand questions cost no more than the values that they touch.
    """

    def __init__(
        self,
        own: Callable[[At], A],
        edges: Callable[[At], Iterable[Edge]],
        carry: Callable[[Edge, A], A] = lambda _, answer: answer,
    ) -> None:
        self._own = own
        self._edges = edges
        self._carry = carry
        self._known: dict[At, A] = {}
        #: What values say by themselves, and what is known of the answer before all of it is.
        self._said: dict[At, A] = {}
        self._shown: dict[At, A] = {}

    def of(self, at: At) -> A:
        """The answer for a value."""
        found = self._known.get(at)
        return self._solve(at) if found is None else found

    def shows(self, at: At, part: A, plain: Callable[[Edge], bool]) -> bool:
        """Is something of ``part`` seen in the answer along the ``plain`` edges alone, which carry what they get unchanged?

        It is looked at no further than to the first value that says so by itself: most questions that are answered "no" end
        there, without all that the value depends on besides.
        """
        shown, known = self._shown, self._known
        came: dict[At, At | None] = {at: None}
        todo = [at]
        while todo:
            place = todo.pop()
            found = known.get(place)
            if found is None:
                found = shown.get(place)
                if found is None or not found & part:
                    found = self._says(place)
            if found & part:
                step: At | None = place
                while step is not None:
                    shown[step] = shown[step] | found if step in shown else found
                    step = came[step]
                return True
            if place not in known:
                for edge in self._edges(place):
                    if edge.at not in came and plain(edge):
                        came[edge.at] = place
                        todo.append(edge.at)
        return False

    def _says(self, at: At) -> A:
        found = self._said.get(at)
        if found is None:
            found = self._said[at] = self._own(at)
        return found

    def why(self, at: At, part: A) -> list[Edge]:
        """The shortest way along the edges to a value that has ``part`` of the answer by itself; empty when it is ``at``."""
        came: dict[At, tuple[At, Edge] | None] = {at: None}
        todo = [at]
        for place in todo:
            if self._says(place) | part == self._says(place):
                way: list[Edge] = []
                step = came[place]
                while step is not None:
                    way.append(step[1])
                    step = came[step[0]]
                return way[::-1]
            for edge in self._edges(place):
                if edge.at not in came and self._carry(edge, self.of(edge.at)) | part == self._carry(edge, self.of(edge.at)):  # fmt: skip
                    came[edge.at] = place, edge
                    todo.append(edge.at)
        return []

    def _solve(self, start: At) -> A:
        known, carry = self._known, self._carry
        answers: dict[At, A] = {}
        used_by: dict[At, list[tuple[At, Edge]]] = {}
        todo = [start]
        answers[start] = self._says(start)
        for at in todo:  # grows
            for edge in self._edges(at):
                done = known.get(edge.at)
                if done is not None:
                    answers[at] = answers[at] | carry(edge, done)
                    continue
                used_by.setdefault(edge.at, []).append((at, edge))
                if edge.at not in answers:
                    answers[edge.at] = self._says(edge.at)
                    todo.append(edge.at)
        waiting = todo  # the last found come first: they are what the others are made of
        queued = set(waiting)
        while waiting:
            at = waiting.pop()
            queued.discard(at)
            answer = answers[at]
            for user, edge in used_by.get(at, ()):
                joined = answers[user] | carry(edge, answer)
                if joined != answers[user]:
                    answers[user] = joined
                    if user not in queued:
                        queued.add(user)
                        waiting.append(user)
        known.update(answers)
        return answers[start]
