"""What the matrix says of a package's row, for the versions of the package that the project asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hpushim.engine.text import Text
    from hpushim.matrix import Limit, Row, Verdict

_CLAUSE = re.compile(r"(===|[~=!<>]=|[<>])\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_Version = tuple[int, ...]
_ANY = 1_000_000_000  # the last part of a version that may be any number


def judge(text: Text, row: Row) -> Verdict:
    """The verdict on ``row``; a limit by package version decides where the project's versions all lie in it.

    Without a version in the project's files the newest one will be installed, for which the row itself stands.
    """
    verdict = text.matrix.judge(row, text.target)
    for limit in verdict.limits:
        if limit.package and limit.status and _all_within(_asked(text, row, limit), limit):
            verdict = msgspec.structs.replace(verdict, status=limit.status)
    return verdict


def _asked(text: Text, row: Row, limit: Limit) -> list[str]:
    """What the project's files say of the package, under any name that the row has for it."""
    packages = {limit.package, *(re.split(r"[.(]", name)[0] for name in row.names)}
    plain = {package.replace("_", "-").lower() for package in packages}
    return [specifier for name, specifier in text.project.pins if name in plain]


def _all_within(specifiers: list[str], limit: Limit) -> bool:
    return bool(specifiers) and all(_within(specifier, limit) for specifier in specifiers)


def _within(specifier: str, limit: Limit) -> bool:
    """Is every version that ``specifier`` admits in the limit, as far as its clauses say?"""
    below = above = False
    for operator, number, star in _CLAUSE.findall(specifier):
        version = _version(number)
        last, first = _last(operator, version, bool(star)), _first(operator, version)
        if limit.until and last is not None:
            end = _version(limit.until)
            below |= (
                last <= (*end[:-1], end[-1] + 1) if operator == "<" else last[: len(end)] <= end
            )
        if limit.since and first is not None:
            above |= first >= _version(limit.since)
    return (below or not limit.until) and (above or not limit.since)


def _last(operator: str, version: _Version, star: bool) -> _Version | None:
    """The newest version that a clause admits (``<``: the one that it stays below); None without an end."""
    if operator == "~=":
        return (*version[:-1], _ANY)
    if operator in ("==", "===", "<=", "<"):
        return (*version, _ANY) if star else version
    return None


def _first(operator: str, version: _Version) -> _Version | None:
    return version if operator in ("==", "===", ">=", ">", "~=") else None


def _version(number: str) -> _Version:
    return tuple(int(part) for part in number.split("."))
