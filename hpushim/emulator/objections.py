"""Tells the C++ device what Gaudi objects to, so that it records it (``observe``), acts on it (``faithful``) or
raises at the first one (``strict``): environment variable HPUSHIM_POLICY.
"""

from __future__ import annotations

import os

from hpushim.emulator import device, ledger, profiles
from hpushim.emulator.profiles import Profile
from hpushim.errors import EmulatorError

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
# Operators of the CPU's own making that stand in for a kernel of the device: no program asks for them by name.
_STAND_INS = ("_fused_sdp_choice", "mkldnn_")


def enforce() -> None:
    """Hand the current profile's rules to the device; call again after the environment changed."""
    profile = profiles.current()
    native = device.load()
    native.set_library_roots(ledger.library_roots())
    device.set_memory_limit(profile.memory_bytes * _pool_percent() // 100)
    native.set_objections(
        profile.gaudi, _POLICIES.index(profile.policy), _operators(profile), _dtypes(profile)
    )


def _pool_percent() -> int:
    """The share of the device's memory that a process may take (PT_HPU_POOL_MEM_ACQUIRE_PERC)."""
    found = os.environ.get("PT_HPU_POOL_MEM_ACQUIRE_PERC", "").strip() or "100"
    if not found.isdigit() or not 1 <= int(found) <= 100:
        raise EmulatorError(
            f"PT_HPU_POOL_MEM_ACQUIRE_PERC is {found!r}; expected a percentage from 1 to 100"
        )
    return int(found)


def _operators(profile: Profile) -> list[tuple[str, int, int]]:
    """(overload, what the device does with it, bits of the dtypes that its kernel takes or 0) where there is an objection."""
    rules = []
    for name, support in profile.operators.support.items():
        if any(part in name for part in _STAND_INS):
            continue
        if support == "none":
            rules.append((name, _FAILS, 0))
        elif support == "fallback":
            rules.append((name, _FALLS_BACK if _may_fall_back(name) else _FORBIDDEN, 0))
        elif support == "native":
            bits = _kernel_dtypes(profile, name)
            if bits:
                rules.append((name, _RUNS, bits))
    return rules


def _may_fall_back(name: str) -> bool:
    """PT_HPU_PLACE_ON_CPU: empty allows every operator, ``none`` forbids all, else a list of allowed names."""
    allowed = os.environ.get("PT_HPU_PLACE_ON_CPU", "").strip()
    if not allowed:
        return True
    plain = name.partition("::")[2]
    return any(one.strip() in (name, plain, plain.partition(".")[0]) for one in allowed.split(","))


def _kernel_dtypes(profile: Profile, name: str) -> int:
    """Bits of the dtypes that a kernel takes, those that reach it in a narrower form among them; 0: no list."""
    gate = profile.operators.dtypes(name, profile.gaudi)
    if gate is None or "*" not in gate:
        return 0
    taken = [number for dtype, number in _NUMBERS.items() if profile.dtype(dtype)[1] in gate["*"]]
    return sum(1 << number for number in taken)


def _dtypes(profile: Profile) -> list[tuple[int, int, int, str]]:
    """(dtype, demoted or refused, the narrower dtype, what to tell) for dtypes that the device has not as they are."""
    rules = []
    for dtype, number in _NUMBERS.items():
        rule, kept = profile.dtype(dtype)
        if rule == "demoted":
            rules.append((number, _DEMOTED, _NUMBERS[kept], f"{dtype} is kept as {kept}"))
        elif rule == "refused":
            rules.append((number, _REFUSED, number, f"{dtype} tensors are refused"))
    return rules
