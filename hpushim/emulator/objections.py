"""Gives the C++ device what Gaudi objects to, so that it records it (``observe``), acts on it (``faithful``) or
raises at the first one (``strict``): environment variable HPUSHIM_POLICY.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable

from hpushim import messages
from hpushim.emulator import device, hccl, ledger, profiles
from hpushim.emulator.profiles import Profile
from hpushim.errors import EmulatorError
from hpushim.matrix.version import within

_POLICIES = ("observe", "faithful", "strict")
_RUNS, _FALLS_BACK, _FORBIDDEN, _FAILS = range(4)
_DEMOTED, _REFUSED = 1, 2
# torch's numbers of its dtypes (c10::ScalarType), which its file formats rest on.
_NUMBERS = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "float8_e5m2fnuz": 25,
    "float8_e4m3fnuz": 26,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
# Operators of the CPU's own making that are in for a kernel of the device: no program requests them by name.
_STAND_INS = ("_fused_sdp_choice", "mkldnn_")


def enforce() -> None:
    """Hand the current profile's rules to the device; call again after the environment changed."""
    profile = profiles.current()
    native = device.load()
    native.set_library_roots(ledger.library_roots())
    device.set_memory_limit(profile.memory_bytes * _pool_percent() // 100)
    native.set_teller(report)
    native.set_objections(
        profile.gaudi,
        _POLICIES.index(profile.policy),
        _operators(profile),
        _exceptions(profile),
        _dtypes(profile),
    )
    native.move_host_arguments(profile.lazy)
    native.set_e4m3_limit(*_e4m3_limit(profile))
    native.set_marked_operators(list(profile.operators.patched), list(profile.operators.whole))
    hccl.enforce(profile)


def bits(dtypes: Iterable[str]) -> int:
    """Dtypes as the device takes them: one bit for each; names that torch lacks count nothing."""
    return sum(1 << _NUMBERS[name] for name in set(dtypes) if name in _NUMBERS)


def report(code: str, line: str, text: str, refused: bool = True) -> None:
    """Say what Gaudi would have refused, or objected to: rank 0 alone, to the logger of the shim."""
    ledger.add_objection(code, line, text, refused=refused)
    if messages.verbosity() != "quiet" and messages.reports_here():
        messages.emit(logging.WARNING, f"{code} {line}: {text} (emulated)")


def _pool_percent() -> int:
    """The share of the device's memory that a process may take (PT_HPU_POOL_MEM_ACQUIRE_PERC)."""
    found = os.environ.get("PT_HPU_POOL_MEM_ACQUIRE_PERC", "").strip() or "100"
    if not found.isdigit() or not 1 <= int(found) <= 100:
        raise EmulatorError(
            f"PT_HPU_POOL_MEM_ACQUIRE_PERC is {found!r}; expected a percentage from 1 to 100"
        )
    return int(found)


def _e4m3_limit(profile: Profile) -> tuple[float, str]:
    """The largest float8_e4m3fn where it is smaller than torch's 448, else 0; and the code of its row."""
    from hpushim.matrix import load

    largest = dict(profile.largest_values).get("float8_e4m3fn", 448.0)
    row = load().row("torch.float8_e4m3fn")
    return (largest if largest < 448.0 else 0.0), (row.rule if row else "")


Rule = tuple[str, int, int, list[tuple[str, int]], list[str]]


def _operators(profile: Profile) -> list[Rule]:
    """Overloads with an objection: name, what the device does, dtypes taken (bits; 0: no list), dtypes by argument,
    arguments whose common type counts."""
    rules: list[Rule] = []
    for name, support in profile.operators.support.items():
        if any(part in name for part in _STAND_INS):
            continue
        if support == "none":
            rules.append((name, _FAILS, 0, [], []))
        elif support == "fallback":
            rules.append((name, _FALLS_BACK if _may_fall_back(name) else _FORBIDDEN, 0, [], []))
        elif support == "native" and (gate := profile.operators.dtypes(name, profile.gaudi)):
            every, named = _kernel_dtypes(profile, gate)
            promoted = list(profile.operators.promoted.get(name, ()))
            rules.append((name, _RUNS, every, named, promoted))
    return rules


_CONDITION = re.compile(r"(?:(not )?(\w+)|(\w+)(?:\.(dtype|ndim))? (==|!=|>=|is) ([\w.]+))")
Exceptional = tuple[str, bool, str, list[tuple[str, str, str, int, str]]]


def _exceptions(profile: Profile) -> list[Exceptional]:
    """Calls that a kernel does not serve on this target: operator, whether they raise, the message, conditions."""
    mode = "lazy" if profile.lazy else "eager"
    return [
        (name, note.fails, note.text, [condition(word) for word in note.when])
        for note in profile.operators.conditions
        if (not note.gaudi or profile.gaudi in note.gaudi)
        and (not note.mode or mode in note.mode)
        and within(profile.release, note.since, "")
        for name in note.ops.split()
    ]


def condition(text: str) -> tuple[str, str, str, int, str]:
    """A condition as the device takes it: argument, part, relation, number, and a word or another argument."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise EmulatorError(f"the matrix has the condition {text!r}; see OpNote")
    negated, flag, argument, part, relation, value = found.groups()
    if flag:
        return flag, "", "==" if negated else "!=", 0, ""
    if value in _NUMBERS:
        return argument, part or "", relation, _NUMBERS[value], ""
    if value.isdigit():
        return argument, part or "", relation, int(value), ""
    return argument, part or "", relation, 0, value.removesuffix(f".{part}")


def _may_fall_back(name: str) -> bool:
    """PT_HPU_PLACE_ON_CPU: empty allows every operator, ``none`` forbids all, else a list of allowed names."""
    allowed = os.environ.get("PT_HPU_PLACE_ON_CPU", "").strip()
    if not allowed:
        return True
    plain = name.partition("::")[2]
    return any(one.strip() in (name, plain, plain.partition(".")[0]) for one in allowed.split(","))


def _kernel_dtypes(
    profile: Profile, gate: dict[str, frozenset[str]]
) -> tuple[int, list[tuple[str, int]]]:
    """Bits of the dtypes that a kernel takes: for every argument, and for single ones by name."""
    taken = {
        argument: bits(one for one in _NUMBERS if profile.takes(listed, one))
        for argument, listed in gate.items()
    }
    return taken.pop("*", 0), list(taken.items())


def _dtypes(profile: Profile) -> list[tuple[int, int, int, str, str]]:
    """(dtype, demoted or refused, the narrower dtype, the text, code) for dtypes that the device has not as they are."""
    from hpushim.matrix import load

    rules = []
    for dtype, number in _NUMBERS.items():
        rule, kept = profile.dtype(dtype)
        row = load().row(f"torch.{dtype}")
        code = row.rule if row else ""
        if rule == "demoted":
            rules.append((number, _DEMOTED, _NUMBERS[kept], f"{dtype} is kept as {kept}", code))
        elif rule == "refused":
            rules.append((number, _REFUSED, number, f"{dtype} tensors are refused", code))
    return rules
