"""What becomes of one operator overload on Gaudi: kernel, decomposition, CPU, or an error."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from hpushim.matrix.schema import Generation, OperatorTable

Support = Literal["native", "composite", "default", "fallback", "none", "custom"]
_CLASSES: tuple[Support, ...] = ("native", "composite", "default", "fallback", "none", "custom")


class Operators:
    """The operator table, taken apart at the first question."""

    def __init__(self, table: OperatorTable) -> None:
        self._table = table

    @property
    def source(self) -> tuple[str, ...]:
        """Where the table comes from."""
        return self._table.source

    @cached_property
    def support(self) -> dict[str, Support]:
        """Support class of each overload, by full name (``"aten::add.Tensor"``)."""
        return {
            f"{namespace}::{name}": support
            for support in _CLASSES
            for namespace, names in getattr(self._table, support).items()
            for name in names.split()
        }

    @cached_property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """By full name: for which arguments a kernel leaves the device, and like remarks."""
        notes: dict[str, tuple[str, ...]] = {}
        for note in self._table.note:
            for name in note.ops.split():
                notes[name] = (*notes.get(name, ()), note.text)
        return notes

    @property
    def implied(self) -> dict[str, str]:
        """Dtypes that no list names, with the dtype that stands for them: ``bool`` is taken where ``int8`` is."""
        return self._table.implied

    @property
    def patched(self) -> tuple[str, ...]:
        """Operators, without overload (``"aten::fill_"``), that compile nothing for another number given to them."""
        return tuple(f"aten::{name}" for name in self._table.patched.split())

    @cached_property
    def promoted(self) -> dict[str, tuple[str, ...]]:
        """Arguments of whose common type the dtype list is asked, by the operator's full name."""
        return {
            name: tuple(item.arguments.split())
            for item in self._table.promotion
            for name in item.ops.split()
        }

    def of(self, name: str, support: Support) -> bool:
        """Does the overload belong to this class?"""
        return self.support.get(name) == support

    def dtypes(self, name: str, gaudi: Generation) -> dict[str, frozenset[str]] | None:
        """Dtypes that the kernel takes, by argument (``"*"``: every argument); None where no list is known.

        Dtypes are torch's names without the module: ``bfloat16``, ``float8_e4m3fn``.
        """
        return self._gates.get(gaudi, {}).get(name)

    @cached_property
    def _gates(self) -> dict[Generation, dict[str, dict[str, frozenset[str]]]]:
        gates: dict[Generation, dict[str, dict[str, frozenset[str]]]] = {}
        for gate in self._table.gate:
            by_argument: dict[str, frozenset[str]] = {}
            for part in gate.dtypes.split(";"):
                argument, _, dtypes = part.rpartition("=")
                by_argument[argument.strip() or "*"] = frozenset(dtypes.split())
            for generation in gate.gaudi:
                gates.setdefault(generation, {}).update(
                    dict.fromkeys(gate.ops.split(), by_argument)
                )
        return gates
