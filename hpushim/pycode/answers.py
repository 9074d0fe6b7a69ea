"""One question to all values of a file: requested from a value, answered for all that it depends on, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeAlias, TypeVar

from hpushim.pycode.places import At, Edge


class _Joins(Protocol):
    def __or__(self: A, other: A, /) -> A: ...
    def __and__(self: A, other: A, /) -> A: ...


A = TypeVar("A", bound=_Joins)
#: What is enough; and what is enough where something else is not there (nothing: that alone is).
Needed: TypeAlias = tuple[A, tuple[tuple[A, A], ...]]


class Circular:
    """What holds something that points back at it: :class:`Answers` that ask its methods, or another of this kind.

    It is emptied when nobody needs it any more; else the tree that it holds would wait for the collector of circles.
    """

    def empty(self) -> None:
        """Lets go of all that it holds."""
        held = vars(self)
        parts = [part for part in held.values() if isinstance(part, Circular)]
        held.clear()
        for part in parts:
            part.empty()


class Answers(Generic[A]):
    """Answers that grow along edges: an ``enum.Flag``, an ``int`` of bits or a ``frozenset``.

    The answer for a value is what ``own`` says of it, joined with what ``carry`` lets through of the answers at the ends of
    its ``edges``. It is the least one that fits, also where values go round in a circle, so it does not depend on which
    comes first. Each value is looked at once: a thousand questions cost no more than the values that they touch.
    """

    def __init__(
        self,
        own: Callable[[At], A],
        edges: Callable[[At], Iterable[Edge]],
        carry: Callable[[Edge, A], A] = lambda _, answer: answer,
        needs: Callable[[Edge, A], Needed[A]] = lambda _, part: (part, ()),
    ) -> None:
        self._own = own
        self._edges = edges
        self._carry = carry
        #: The question at the end of an edge for something of a part.
        self._needs = needs
        self._known: dict[At, A] = {}
        #: What values say by themselves, and what is known of the answer before all of it is.
        self._said: dict[At, A] = {}
        self._shown: dict[At, A] = {}
        #: What is known not to be in the answer.
        self._without: dict[At, A] = {}
        self._ends: dict[At, tuple[Edge, ...]] = {}
        #: Values of which what is not there is needed, and whether one was met again, and so is taken for not there.
        self._open: set[At] = set()
        self._met_again = False

    def of(self, at: At) -> A:
        """The answer for a value."""
        found = self._known.get(at)
        return self._solve(at) if found is None else found

    def has(self, at: At, part: A) -> bool:
        """Is something of ``part`` in the answer for a value?

        It is looked at no further than to the first value that says so, and nowhere that makes no difference to ``part``.
        """
        came: dict[At, tuple[At, Edge] | None] = {at: None}
        wanted = {at: part}
        todo = [at]
        for place in todo:  # grows; a value of which more is wanted comes again
            want = wanted[place]
            known = self._known.get(place)
            found = (known if known is not None else self._seen(place)) & want
            if found:
                self._remember(came, place, found)
                return True
            without = self._without.get(place)
            if known is not None or (without is not None and without | want == without):
                continue
            for edge in self._edges_of(place):
                end = edge.at
                need, others = self._needs(edge, want)
                for other, unless in others:
                    if not unless or not self._has_beside(end, unless):
                        if not other:
                            return True
                        need = need | other
                if not need:
                    continue
                before = wanted.get(end)
                if before is None:
                    came[end] = place, edge
                    wanted[end] = need
                    todo.append(end)
                elif before | need != before:
                    wanted[end] = before | need
                    todo.append(end)
        if self._met_again:
            self._met_again = bool(self._open)
            return False
        for place, want in wanted.items():
            without = self._without.get(place)
            self._without[place] = want if without is None else without | want
        return False

    def _has_beside(self, at: At, part: A) -> bool:
        if at in self._open:
            self._met_again = True
            return False
        self._open.add(at)
        try:
            return self.has(at, part)
        finally:
            self._open.discard(at)

    def _seen(self, at: At) -> A:
        """What is known of an answer."""
        said, shown = self._says(at), self._shown.get(at)
        return said if shown is None else said | shown

    def _remember(self, came: dict[At, tuple[At, Edge] | None], at: At, found: A) -> None:
        """Keeps what was found, for all on the way to it."""
        step = came[at]
        while step is not None:
            at, edge = step
            found = self._carry(edge, found)
            self._shown[at] = self._shown[at] | found if at in self._shown else found
            step = came[at]

    def _edges_of(self, at: At) -> tuple[Edge, ...]:
        found = self._ends.get(at)
        if found is None:
            found = self._ends[at] = tuple(self._edges(at))
        return found

    def _says(self, at: At) -> A:
        found = self._said.get(at)
        if found is None:
            found = self._said[at] = self._own(at)
        return found

    def _solve(self, start: At) -> A:
        known, carry = self._known, self._carry
        answers: dict[At, A] = {}
        used_by: dict[At, list[tuple[At, Edge]]] = {}
        todo = [start]
        answers[start] = self._says(start)
        for at in todo:  # grows
            for edge in self._edges_of(at):
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
