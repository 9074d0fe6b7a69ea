"""How far rounding alone can carry two runs of the same program apart.

Higham and Mary, *A New Approach to Probabilistic Rounding Error Analysis*, SIAM J. Sci. Comput. 41 (2019), theorem 2.4: n roundings
with unit roundoff u give a relative error of at most ``exp(λ√n·u + n·u²/(1-u)) - 1``, with a probability of at least
``1 - 2n·exp(-λ²(1-u)²/2)``. n is counted in the operators that were noted, and u is that of the narrowest format among them.
"""

from __future__ import annotations

import math

import msgspec

from hpushim.prove.records import Process

_FAILURE = 1e-3  # probability with which rounding alone may exceed the bound
_UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}


class Bound(msgspec.Struct, frozen=True):
    """Of one pair of runs: the narrowest format, and the roundings of a step."""

    format: str
    roundings: int

    def at(self, step: int) -> float:
        """The largest relative difference that rounding explains after ``step`` steps, each of which adds its own."""
        return step * limit(self.roundings, _UNIT[self.format])

    def shown(self) -> str:
        """In words, for one step."""
        return f"rounding in {self.format} explains {self.at(1):.1e} a step ({self.roundings} roundings)"


def limit(n: int, unit: float) -> float:
    """The bound for ``n`` roundings with unit roundoff ``unit``; at most 1."""
    n = max(n, 1)
    sure = math.sqrt(2 * math.log(2 * n / _FAILURE)) / (1 - unit)
    exponent = sure * math.sqrt(n) * unit + n * unit * unit / (1 - unit)
    return min(math.expm1(min(exponent, 1)), 1.0)


def of(processes: list[Process], *, narrowest: bool = True) -> Bound:
    """The bound that the noted operators of some processes give; without ``narrowest`` that of float32."""
    formats: dict[str, int] = {}
    for process in processes:
        here: dict[str, int] = {}
        for noted in process.operators.values():
            step: dict[str, int] = {}
            for _, results, _, length, *_ in noted["operators"]:
                kind = results[0][0] if results else ""
                if kind in _UNIT:
                    # Narrow formats are accumulated in float32: one rounding for each result.
                    step[kind] = step.get(kind, 0) + (1 if kind.endswith("float16") else length)
            here = {k: max(here.get(k, 0), step.get(k, 0)) for k in here.keys() | step.keys()}
        formats = {k: max(formats.get(k, 0), here.get(k, 0)) for k in formats.keys() | here.keys()}
    for name in ("bfloat16", "float16") if narrowest else ():
        if formats.get(name):
            return Bound(name, formats[name])
    if narrowest and formats and set(formats) == {"float64"}:
        return Bound("float64", formats["float64"])
    return Bound("float32", max(formats.get("float32", 0), 1))
