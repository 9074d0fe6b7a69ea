"""What becomes of one operator overload on Gaudi: kernel, decomposition, CPU, or an error."""

from __future__ import annotations

import fnmatch
from functools import cached_property
from typing import Literal

from hpushim.matrix.schema import Generation, OperatorTable, OpNote

Support = Literal["native", "composite", "default", "fallback", "none", "custom"]
_CLASSES: tuple[Support, ...] = ("native", "composite", "default", "fallback", "none", "custom")

#: What is before an operator's name in Python, and how the operator's own name begins then. torch makes these
#: functions and methods from the operators themselves; a function written in Python may have another name.
_SPELLED = (
    ("torch.Tensor.", ""),
    ("torch.nn.functional.", ""),
    ("torch.linalg.", "linalg_"),
    ("torch.fft.", "fft_"),
    ("torch.special.", "special_"),
    ("torch._C._nn.", ""),
    ("torch.", ""),
)


def spellings(packet: str) -> tuple[str, ...]:
    """How Python may write an operator without overload: ``aten::linalg_det`` is ``torch.linalg.det``."""
    namespace, _, name = packet.partition("::")
    if namespace != "aten" or name.startswith("_"):
        return ()
    inside = [head + name[len(own) :] for head, own in _SPELLED if own and name.startswith(own)]
    return tuple(inside) or (f"torch.{name}",)


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
    def packets(self) -> dict[str, tuple[str, ...]]:
        """Overloads by the operator that they belong to: ``"aten::add"`` has ``"aten::add.Tensor"`` and more."""
        found: dict[str, list[str]] = {}
        for name in self.support:
            found.setdefault(name.partition(".")[0], []).append(name)
        return {packet: tuple(sorted(names)) for packet, names in found.items()}

    def named(self, name: str) -> tuple[str, ...]:
        """The overloads that a name calls; none for a name that is no operator.

        Names are ``aten::add.Tensor``, ``aten::add``, ``torch.ops.aten.add.Tensor``, ``torch.add``, ``torch.Tensor.add_``,
        ``torch.nn.functional.relu``, ``torch.linalg.det`` or the bare ``add``.
        """
        name = name.removeprefix("torch.ops.")
        namespace, dot, rest = name.partition("::" if "::" in name else ".")
        if dot and any(one.startswith(f"{namespace}::") for one in self.packets):
            whole = f"{namespace}::{rest}".removesuffix(".default")
            return (
                (whole,) if "." in rest and whole in self.support else self.packets.get(whole, ())
            )
        if "::" in name:
            return ()
        for head, own in _SPELLED:
            if name.startswith(head) and (
                found := self.packets.get(f"aten::{own}{name[len(head) :]}")
            ):
                return found
        return () if "." in name else self.packets.get(f"aten::{name}", ())

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Overloads whose full name matches a shell pattern such as ``"aten::add*"``; of one without ``::`` none."""
        if "::" not in pattern:
            return ()
        return tuple(sorted(fnmatch.filter(self.support, pattern)))

    @cached_property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """By full name: for which arguments a kernel leaves the device, and like remarks."""
        notes: dict[str, tuple[str, ...]] = {}
        for note in self._table.note:
            for name in note.ops.split():
                notes[name] = (*notes.get(name, ()), note.text)
        return notes

    @property
    def conditions(self) -> tuple[OpNote, ...]:
        """The notes that say for which arguments, or on which generation or in which mode, the kernel does not serve."""
        return tuple(n for n in self._table.note if n.when or n.gaudi or n.mode)

    @property
    def implied(self) -> dict[str, str]:
        """Dtypes that no list names, with the dtype that represents them: ``bool`` is taken where ``int8`` is."""
        return self._table.implied

    @property
    def patched(self) -> tuple[str, ...]:
        """Operators, without overload (``"aten::fill_"``), that compile nothing for another number given to them."""
        return tuple(f"aten::{name}" for name in self._table.patched.split())

    @property
    def whole(self) -> tuple[str, ...]:
        """Operators, without overload, that take whole numbers through float32, where torch's CPU kernel refuses them."""
        return tuple(f"aten::{name}" for name in self._table.whole.split())

    @cached_property
    def promoted(self) -> dict[str, tuple[str, ...]]:
        """Arguments whose common type is looked up in the dtype list, by the operator's full name."""
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
