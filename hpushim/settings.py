"""The environment variables of hpushim: what each may say. A value that means nothing is an error that lists what does.

Standard library only, and small: every process that imports torch may read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from hpushim.errors import HpushimError


class Setting(NamedTuple):
    """One variable. Without ``values`` and ``pattern`` any text will do."""

    values: tuple[str, ...] = ()
    also: Mapping[str, str] = MappingProxyType({})  #: other spellings of the values
    pattern: str = ""
    expected: str = ""
    default: str = ""


SETTINGS = {
    "HPUSHIM": Setting(
        ("auto", "off", "hpu", "emulate"),
        also={"1": "auto", "on": "auto", "0": "off", "gaudi": "hpu"},
        default="auto",
    ),
    "HPUSHIM_ALLOW_IMPORT": Setting(),
    "HPUSHIM_CACHE": Setting(("0", "1"), default="1"),
    "HPUSHIM_CACHE_DIR": Setting(),
    "HPUSHIM_CAPABILITY": Setting(
        pattern=r"\d+(\.\d+)?", expected="a version such as 8.0", default="8.0"
    ),
    "HPUSHIM_CUDA_AVAILABLE": Setting(("auto", "1", "0"), default="auto"),
    "HPUSHIM_DEVICES": Setting(pattern=r"0*[1-9]\d*", expected="a number from 1", default="1"),
    "HPUSHIM_EMULATED_RANDOM": Setting(("own", "cpu"), default="own"),
    "HPUSHIM_GAUDI": Setting(("gaudi1", "gaudi2", "gaudi3"), default="gaudi2"),
    "HPUSHIM_LEDGER": Setting(),
    "HPUSHIM_LOG": Setting(("quiet", "summary", "sites", "trace")),
    "HPUSHIM_POLICY": Setting(("observe", "faithful", "strict"), default="observe"),
    "HPUSHIM_PROVE_CUDA_PYTHON": Setting(),
    "HPUSHIM_SAVE_TAG": Setting(("hpu", "cuda"), default="hpu"),
    "HPUSHIM_SHOW_REWRITES": Setting(("0", "1"), default="0"),
    "HPUSHIM_STACK": Setting(),  # a release that the matrix knows; the emulator reads it
}
# Set by hpushim itself for its child processes, or read by its tests alone.
_OTHERS = {
    "HPUSHIM_LEADER", "HPUSHIM_LEDGER_OWNER", "HPUSHIM_MACHINE", "HPUSHIM_MAIN", "HPUSHIM_PROVE", "HPUSHIM_REWRITE", "HPUSHIM_STORY", "HPUSHIM_SUMMARY", "HPUSHIM_TOLD",
    "HPUSHIM_CORPORA", "HPUSHIM_CORPORA_DATA", "HPUSHIM_CORPORA_PYTHON", "HPUSHIM_FRAMEWORKS_PYTHON", "HPUSHIM_TORCH_TESTS",
}  # fmt: skip


def read(name: str) -> str:
    """What a variable says, or its default. Raises HpushimError, with what is expected, for a value that means nothing."""
    setting = SETTINGS[name]
    text = os.environ.get(name, "").strip()
    if not text:
        return setting.default
    if setting.values:
        word = text.lower()
        word = setting.also.get(word, word)
        if word in setting.values:
            return word
        *most, last = setting.values
        raise HpushimError(
            f"{name}={text!r}: expected {', '.join(most)} or {last}; unset it or choose one of these"
        )
    if setting.pattern and re.fullmatch(setting.pattern, text) is None:
        raise HpushimError(
            f"{name}={text!r}: expected {setting.expected}; unset it for {setting.default}"
        )
    return text


def check() -> None:
    """Reads every variable once. Raises HpushimError for the first value that means nothing."""
    for name in SETTINGS:
        read(name)


def unknown() -> list[str]:
    """The variables that begin with HPUSHIM_ and that nobody reads: most likely misspelled."""
    known = SETTINGS.keys() | _OTHERS
    return sorted(name for name in os.environ if name.startswith("HPUSHIM_") and name not in known)


def nearest(name: str) -> str:
    """The variable that a misspelled one may mean, as words for a message; empty when none is close."""
    import difflib

    close = difflib.get_close_matches(name, SETTINGS, n=1)
    return f"; did you mean {close[0]}?" if close else ""
