"""The names that shim and codemods write in place of CUDA's, and which of them somebody ran on a device."""

from __future__ import annotations

from collections.abc import Iterable

from hpushim.matrix.schema import Row

#: Kinds of rows whose target is text for a file; of the others it is advice.
_KINDS = ("python", "argument", "string", "env", "flag", "command", "config")


def written_for(row: Row) -> tuple[str, ...]:
    """What the row has written: its target, and each argument that it gives a value, as ``torch.load(map_location="hpu")``."""
    if row.kind not in _KINDS:
        return ()
    called = (row.target or row.name).partition("(")[0]
    values = tuple(f"{called}({item.name}={item.value})" for item in row.args if item.value)
    return ((called,) if row.target else ()) + values


def written(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Every written name, with the rows that have it written."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        for name in written_for(row):
            found[name] = (*found.get(name, ()), row.name)
    return found


def appears(name: str, new: str) -> bool:
    """Does a rewrite with the texts ``new`` write this name? An argument's value, or the name behind its module in either style."""
    called, _, value = name.partition("=")
    if value:
        return value.strip("\"')") in new or "=" in new
    above, _, last = called.rpartition(".")
    behind = above.rpartition(".")[2]
    return (f"{behind}.{last}" if behind else last) in new or f").{last}" in new
