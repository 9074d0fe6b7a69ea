"""The value graph of one file: where a value comes from, and where it goes.

``sources(x)`` are the values that ``x`` may be, one step back; ``uses(x)`` are the places that it goes to, one step on. Each step
says how (:data:`~hpushim.pycode.places.How`). Along the edges of ``SAME`` the value itself goes on:

================  =========================================================================================
``name``          between a variable and the places that read it
``attribute``     between an attribute and the places that read it: of one class and its bases, or of unknown objects
``assigned``      ``x = v``, ``x: T = v``, ``(x := v)``, ``a, b = v, w``, ``self.x = v``, ``t["k"] = v``, ``t.append(v)``, ``setattr``
``choice``        ``v if c else w``, ``v or w``, ``await v``, ``min(v, w)``, ``copy(v)``
``default``       a parameter's default; ``t.get(k, v)``, ``getattr(o, "x", v)``, a field's default
``argument``      to the parameter of a function of the file, also through ``*``, ``**``, ``partial``, lambdas, threads and pools, and of
                  the methods that Python calls for an operator; to the field of a dataclass, a named tuple, a namespace
``returned``      from ``return``, ``yield``, a lambda's body or a property, to the calls; from ``__getitem__``, ``__str__`` … to the operators
``item``          into and out of lists, tuples, sets, tables, comprehensions, and what ``zip``, ``chain``, ``items`` make of them
``loop``          ``for x in v``
``entered``       ``with v as x``
``option``        ``add_argument("--x", default=v, choices=[v])`` to ``args.x``; ``@click.option`` to the parameter
``matched``       a name that ``case`` gives the subject or a part of it
================  =========================================================================================

Along three another value is made of it: ``added`` (``x += v``), ``negated`` (``not v``), ``text`` (a part of a text: f-strings, ``+``,
``%``, ``format``, ``join``, ``str``), ``slice`` (``v[a:b]``), ``part`` (``v.split(":")``, ``v.lower()``: cut out of it, or in other letters).
The others end the way: ``given`` leads to a parameter, ``imported`` to
an import (other files and the project's facts know more), ``defined`` to a function or class; forward ``argument`` to a call that
takes the value is an end as well where the function is not one of this file.

What lies inside a container is followed to where it is taken out: :class:`~hpushim.pycode.places.At` names a node and the way
into its value. Nothing is limited by depth: edges are found when they are first requested and kept, and a whole question is
answered by :class:`~hpushim.pycode.answers.Answers`, in time that grows with the edges. A file has a bound of steps;
:class:`TooManySteps` ends the work on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.backward import Backward
from hpushim.pycode.forward import Forward
from hpushim.pycode.places import SAME, At, Cell, Edge, Function, How, Part
from hpushim.pycode.steps import TooManySteps

if TYPE_CHECKING:
    from hpushim.pycode.source import Source

#: The edges back to what a value comes from, unchanged.
_ENDS: frozenset[How] = frozenset(("given", "imported", "defined"))
_ORIGINS = SAME | _ENDS


class Values(Backward, Forward):
    """The value graph of a source: ``source.view(Values)``."""

    SAME = SAME

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._sources: dict[At, tuple[Edge, ...]] = {}
        self._uses: dict[At, tuple[Edge, ...]] = {}
        self._origins: dict[At, list[ast.AST]] = {}

    def sources(self, place: At | ast.AST | Cell) -> tuple[Edge, ...]:
        """Where a value comes from, one step back."""
        return self._edges(place, self._sources, self._back)

    def uses(self, place: At | ast.AST | Cell) -> tuple[Edge, ...]:
        """Where a value goes, one step on."""
        return self._edges(place, self._uses, self._on)

    def callees(self, call: ast.Call) -> list[Function]:
        """The functions of this file that a call may reach."""
        return list(dict.fromkeys(target.function for target in self.calls.targets(call)))

    def calls_of(self, function: Function) -> list[ast.Call]:
        """The calls of this file that may reach a function."""
        return self.calls.calls_of(function)

    def returns(self, function: Function) -> list[ast.expr]:
        """The expressions that a function returns."""
        return self.calls.returns(function)

    def bind(self, call: ast.Call, function: Function) -> dict[str, ast.expr]:
        """Which argument of a call is which parameter, by its name. What ``*`` and ``**`` spread is not among them."""
        return {
            given.parameter: given.at.node  # type: ignore[misc]
            for target in self.calls.targets(call)
            if target.function is function
            for given in self.calls.given(call, target)
            if not given.way and not given.at.way
        }

    def reach(
        self,
        start: At | ast.AST | Cell,
        step: Callable[[At], Iterable[Edge]],
        how: frozenset[How] = SAME,
        seen: set[At] | None = None,
        ways: int = 0,
    ) -> Iterator[Edge]:
        """Every edge that ``step`` (``sources``, ``uses``) leads to from a place: on along those of ``how``, which come once, to all ends.

        With ``seen``, the places that ways from other starts came to, nothing is gone through again. With ``ways``, no node is gone
        through by more than so many: containers that hold each other in circles have thousands.
        """
        first = start if isinstance(start, At) else At(start)
        seen = set() if seen is None else seen
        todo = [first] if first not in seen else []
        come: dict[ast.AST | Cell, int] = {}
        while todo:
            for edge in step(todo.pop()):
                if edge.how not in how:
                    yield edge
                elif edge.at not in seen and edge.at != first:
                    seen.add(edge.at)
                    yield edge
                    if ways:
                        come[edge.node] = come.get(edge.node, 0) + 1
                    if come.get(edge.node, 0) <= ways:
                        todo.append(edge.at)

    def origins(self, node: ast.AST) -> list[ast.AST]:
        """The expressions (and parameters, imports, definitions) that a value comes from in the end."""
        at, way = At(node), dict[At, None]()
        # What comes from one value alone has the origins of that: those along a chain are found once.
        while (found := self._origins.get(at)) is None:
            way[at] = None
            back = [edge.at for edge in self.sources(at) if edge.how in _ORIGINS]
            if len(back) != 1 or back[0] in way or self._ends(at):
                found = self._find_origins(at)
                break
            at = back[0]
        if not self.calls.settling:
            self._origins.update(dict.fromkeys(way, found))
        return [*found]

    def _find_origins(self, start: At) -> list[ast.AST]:
        back = self.reach(start, self.sources, _ORIGINS)
        found = [start, *(edge.at for edge in back if edge.how in _ORIGINS)]
        return [
            at.node for at in found if isinstance(at.node, ast.AST) and not at.way if self._ends(at)
        ]

    def _ends(self, at: At) -> bool:
        """Does nothing of the file give the value: no edge, or to cells alone that nothing is stored in?"""
        back = (edge for edge in self.sources(at) if edge.how in _ORIGINS)
        return all(isinstance(edge.node, Cell) and self._ends(edge.at) for edge in back)

    def _edges(
        self,
        place: At | ast.AST | Cell,
        known: dict[At, tuple[Edge, ...]],
        find: Callable[[At], Iterator[Edge | None]],
    ) -> tuple[Edge, ...]:
        at = place if isinstance(place, At) else At(place)
        found = known.get(at)
        if found is None:
            found = tuple(filter(None, dict.fromkeys(find(at))))
            if not self.calls.settling:
                known[at] = found
            self.spend(1 + len(found))
        return found


__all__ = ["SAME", "At", "Cell", "Edge", "How", "Part", "TooManySteps", "Values"]
