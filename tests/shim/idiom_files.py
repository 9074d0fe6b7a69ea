"""Reads the idioms, one file for each area in ``idioms/``: a heading, what is said of the snippet, the snippet.

A snippet asserts what it needs; it sees ``torch``, ``nn``, ``F``, ``np``, ``dist`` and ``tmp`` (an empty directory). Above it may stand:
``early:`` a statement that runs before the shim is there; ``expect:`` ``ok`` (left out) or codes, divided by ``|``, with which the
shim refuses; ``says:`` the code that it must say while the snippet runs; ``rewritten: yes`` where ``hpushim run``
has to have read the source. ``process:`` at the top of a file: the process that its snippets share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "idioms"
REFERENCE = FOLDER / "reference.tsv"

_SNIPPET = re.compile(r"^## (.+?)\n(.*?)^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Idiom:
    """One snippet; ``process`` says which others it shares a process with."""

    area: str
    name: str
    code: str
    process: str
    early: str = ""
    expect: str = "ok"
    says: str = ""
    rewritten: bool = False

    @property
    def key(self) -> str:
        """``area/name``, which is unique."""
        return f"{self.area}/{self.name}"


@dataclass(frozen=True)
class Reference:
    """One idiom of the list that the shim was designed against, with the snippets that show it."""

    number: int
    idiom: str
    keys: tuple[str, ...]


@cache
def idioms() -> tuple[Idiom, ...]:
    """Every snippet, by area."""
    return tuple(one for file in sorted(FOLDER.glob("*.md")) for one in _read(file))


@cache
def reference() -> tuple[Reference, ...]:
    """The list of reference, by number."""
    lines = REFERENCE.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return tuple(Reference(int(n), idiom, tuple(keys.split("; "))) for n, idiom, keys in rows)


def _read(file: Path) -> list[Idiom]:
    text = file.read_text(encoding="utf-8")
    head, *_ = text.partition("\n## ")
    shared = _said(head).get("process", ["plain"])[0]
    found = []
    for name, head, code in _SNIPPET.findall(text):
        said = _said(head)
        early = "\n".join(said.pop("early", []))
        one = {key: values[-1] for key, values in said.items()}
        found.append(
            Idiom(
                file.stem, name, code, "early" if early else shared, early,
                one.get("expect", "ok"), one.get("says", ""), "rewritten" in one,
            )
        )  # fmt: skip
    return found


def _said(head: str) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if colon and not line.startswith("#"):
            said.setdefault(key, []).append(value)
    return said
