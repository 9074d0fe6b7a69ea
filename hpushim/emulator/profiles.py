"""What the emulated device is: generation, software release, execution mode, and how Gaudi treats dtypes and operators.

Every fact comes from the compatibility matrix; this module only joins them for one target.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

from hpushim.errors import EmulatorError
from hpushim.matrix.operators import Operators
from hpushim.matrix.schema import Generation

Policy = Literal["observe", "faithful", "strict"]
DtypeRule = Literal["native", "demoted", "refused"]


@dataclass(frozen=True)
class Profile:
    """One emulated target. Sizes in bytes; dtypes by torch's names without the module."""

    gaudi: Generation
    release: str
    lazy: bool
    lazy_default: str  #: what an unset PT_HPU_LAZY_MODE means in this release: "0" or "1"
    policy: Policy
    memory_bytes: int
    tensor_cores: int  #: 0 where their number is not established
    device_name: str  #: what ``torch.hpu.get_device_name()`` answers
    dtypes: frozenset[str]
    kept_as: tuple[
        tuple[str, str], ...
    ]  #: dtypes that the device takes, and the narrower one that it keeps
    narrow_integers: str  #: what int64 is kept as where it is narrowed
    largest_values: tuple[
        tuple[str, float], ...
    ]  #: of dtypes whose range is not that of torch on every generation

    def largest(self, name: str) -> float:
        """The largest finite value that the device keeps in an 8-bit floating dtype; KeyError where it has no such dtype."""
        return dict(self.largest_values)[name]

    def dtype(self, name: str) -> tuple[DtypeRule, str]:
        """How tensors of a dtype live on the device: (rule, dtype that they have there).

        ``("native", same)``, ``("demoted", narrower)``, or ``("refused", "")``.
        """
        if name == "int64" and not self.wide_integers:
            return "demoted", self.narrow_integers
        narrower = dict(self.kept_as)
        if name in narrower and name != "int64":
            return "demoted", narrower[name]
        return ("native", name) if name in self.dtypes else ("refused", "")

    @property
    def wide_integers(self) -> bool:
        """Is int64 64 bits wide? Where the device has it, PT_ENABLE_INT64_SUPPORT decides, and unset the mode."""
        if "int64" not in self.dtypes:
            return False
        if os.environ.get("PT_ENABLE_INT64_SUPPORT", "").strip():
            return _flag("PT_ENABLE_INT64_SUPPORT")
        return "int64" not in dict(self.kept_as)

    def takes(self, listed: frozenset[str], name: str) -> bool:
        """Does a kernel with this dtype list take a tensor of this dtype?

        Beside what the list names: what the matrix says is implied, and int64 for int32 where the device narrows it.
        """
        if name in listed or self.operators.implied.get(name) in listed:
            return True
        return name == "int64" and not self.wide_integers and "int32" in listed

    @cached_property
    def operators(self) -> Operators:
        """The matrix's operator table."""
        from hpushim.matrix import load

        return load().operators

    def falls_back(self, operator: str, dtypes: tuple[str, ...] = ()) -> bool:
        """Would the device run this overload (``aten::mm``) with arguments of these dtypes on the CPU?"""
        support = self.operators.support.get(operator)
        if support == "fallback":
            return True
        gate = self.operators.dtypes(operator, self.gaudi)
        if support != "native" or gate is None or "*" not in gate:
            return False
        return any(not self.takes(gate["*"], one) for one in dtypes)

    def fails(self, operator: str) -> bool:
        """Has this overload neither a kernel on the device nor one on the CPU?"""
        return self.operators.support.get(operator) == "none"


def current() -> Profile:
    """The profile that the environment requests (HPUSHIM_GAUDI, HPUSHIM_STACK, HPUSHIM_POLICY, PT_HPU_LAZY_MODE)."""
    names = ("HPUSHIM_GAUDI", "HPUSHIM_STACK", "HPUSHIM_POLICY", "PT_HPU_LAZY_MODE")
    return _profile(*(os.environ.get(name, "").strip() for name in names))


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in ("1", "true", "yes", "on", "y")


@lru_cache(maxsize=8)
def _profile(gaudi: str, stack: str, policy: str, lazy: str) -> Profile:
    from hpushim.matrix import load

    matrix = load()
    chosen = _one_of("HPUSHIM_GAUDI", gaudi or "gaudi2", tuple(matrix.generations))
    release = matrix.release(stack) if stack else list(matrix.releases.values())[-1]
    if release is None:
        raise EmulatorError(
            f"HPUSHIM_STACK is {stack!r}; expected a release that the matrix knows: {', '.join(matrix.releases)}"
        )
    default = "1" if release.default_mode == "lazy" else "0"
    generation = matrix.generations[chosen]  # type: ignore[index]
    in_lazy_mode = (lazy or default) != "0"
    kept_as = generation.kept_as | (generation.kept_as_in_lazy_mode if in_lazy_mode else {})
    return Profile(
        gaudi=chosen,  # type: ignore[arg-type]
        release=release.stack,
        lazy=in_lazy_mode,
        lazy_default=default,
        policy=_one_of("HPUSHIM_POLICY", policy or "observe", get_args(Policy)),  # type: ignore[arg-type]
        memory_bytes=generation.memory_bytes,
        tensor_cores=generation.tensor_cores,
        device_name=generation.device_name,
        dtypes=frozenset(generation.dtypes),
        kept_as=tuple(kept_as.items()),
        narrow_integers=(generation.kept_as | generation.kept_as_in_lazy_mode)["int64"],
        largest_values=tuple(generation.largest.items()),
    )


def _one_of(variable: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise EmulatorError(f"{variable} is {value!r}; expected one of {', '.join(allowed)}")
    return value
