"""Markers for rules that take their names from the matrix: words without which a file has none of them."""

from __future__ import annotations

import re
from collections.abc import Collection

from hpushim.matrix import load

_ARGUMENT = re.compile(r"^(?P<call>[\w.]+)\((?P<name>\w+)=")
_LONG = 7
#: What is told where a file is read anyway, and is no reason to read it.
_ADVICE = ("native", "noop", "unknown")


def of_names(codes: Collection[str]) -> tuple[bytes, ...]:
    """What a file holds that uses a Python name under these codes.

    A long word of torch stands for itself; a short one has a dot in front, or is imported; of
    another package's names it is the import. Methods are no names that could be looked up.
    """
    found: set[str] = set()
    for row in load().rows:
        if row.rule not in codes or row.kind != "python" or row.status in ("native", "unknown"):
            continue
        for name in row.names:
            package, _, rest = name.partition(".")
            word = rest.rpartition(".")[2]
            if package != "torch":
                found |= {f"import {package}", f"from {package}"}
            elif len(word) > _LONG and not rest.rpartition(".")[0].rpartition(".")[2][:1].isupper():
                found.add(word)
            elif row.status not in _ADVICE:
                found |= {f".{word}", f"import {word}"}
    return _sorted(found)


def of_arguments(codes: Collection[str]) -> tuple[bytes, ...]:
    """The calls that have an argument under these codes: ``Trainer(``."""
    return _sorted(
        {
            argument["call"].rpartition(".")[2] + "("
            for row in load().by_kind("argument")
            if row.rule in codes and row.status not in _ADVICE
            for name in row.names
            if (argument := _ARGUMENT.match(name))
        }
    )


def of_packages(codes: Collection[str]) -> tuple[bytes, ...]:
    """``import X`` and ``from X`` for every package under these codes."""
    packages = {
        name.partition(".")[0]
        for row in load().by_kind("package")
        if row.rule in codes and row.status not in _ADVICE
        for name in row.names
        if name.replace(".", "_").isidentifier()
    }
    return _sorted({f"{word} {name}" for name in packages for word in ("import", "from")})


def of_requirements() -> tuple[bytes, ...]:
    """The names under which packages are asked for in requirements."""
    names = {name.rstrip("*") for row in load().by_kind("package") for name in row.names}
    spellings = {name.replace("_", "-") for name in names} | {
        name.replace("-", "_") for name in names
    }
    return _sorted(spellings)


def _sorted(words: Collection[str]) -> tuple[bytes, ...]:
    return tuple(sorted(word.encode() for word in words))
