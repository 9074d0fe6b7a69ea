"""What the matrix says of a package's row, for the versions of the package that the project requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hpushim.engine.base.text import Text
from hpushim.matrix import Limit, Row, Verdict

if TYPE_CHECKING:
    from packaging.version import Version

#: What pip has taken behind operators to which it says nothing: `>=1.4.*`, `>=1.8+cu111`.
_TAIL = re.compile(r"(\.\*|\+[\w.]+)$")


def assess(text: Text, row: Row, wanted: str = "") -> Verdict:
    """The verdict on ``row``; a limit by package version decides where the project's versions all lie in it.

    Without a version in the project's files the newest one will be installed, for which the row itself holds.
    """
    verdict = text.matrix.assess(row, text.target)
    for limit in verdict.limits:
        specifiers = [wanted] if wanted else _requested(text, row, limit)
        if limit.package and limit.status and _all_within(specifiers, limit):
            verdict = msgspec.structs.replace(
                verdict, status=limit.status, note=limit.text or verdict.note
            )
    return verdict


def _requested(text: Text, row: Row, limit: Limit) -> list[str]:
    """What the project's files say of the package, under any name that the row has for it."""
    packages = {limit.package, *(re.split(r"[.(]", name)[0] for name in row.names)}
    plain = {package.replace("_", "-").lower() for package in packages}
    return [specifier for name, specifier in text.project.pins if name in plain]


def _all_within(specifiers: list[str], limit: Limit) -> bool:
    return bool(specifiers) and all(
        within(specifier, limit.since, limit.until) for specifier in specifiers
    )


def within(specifier: str, since: str, until: str) -> bool:
    """Is every version that ``specifier`` admits one from ``since`` to ``until``, as far as its clauses say?

    ``2.5`` as the end takes all of ``2.5.*`` in; an empty text is no bound. A clause that is no version specifier says nothing.
    """
    from packaging.version import Version

    clauses = [clause for text in specifier.split(",") if (clause := _clause(text.strip()))]
    end = _next(Version(until).release) if until else None
    ends = end is None or any(_ends_before(clause, end) for clause in clauses)
    first = [c.version for c in clauses if c.operator in ("==", "===", ">=", ">", "~=")]
    return ends and (not since or any(version >= Version(since) for version in first))


class _Clause(NamedTuple):
    """One condition on a version: ``==2.5.*`` has ``prefix``."""

    operator: str
    version: Version
    prefix: bool


def _clause(text: str) -> _Clause | None:
    """A clause with the release that its version belongs to: ``2.0`` for ``2.0rc1`` and for ``2.0+cu121``."""
    from packaging.specifiers import InvalidSpecifier, Specifier
    from packaging.version import InvalidVersion, Version

    plain = _TAIL.sub("", text)
    try:
        found = Specifier(plain)
        version = Version(Version(found.version).base_version)
    except (InvalidSpecifier, InvalidVersion):
        return None
    return _Clause(found.operator, version, text.endswith(".*"))


def _ends_before(clause: _Clause, end: Version) -> bool:
    """Is every version that the clause admits an earlier one than ``end``?"""
    if clause.operator == "~=":
        return _next(clause.version.release[:-1]) <= end
    if clause.operator == "<":
        return clause.version <= end
    if clause.operator not in ("==", "===", "<="):
        return False
    return _next(clause.version.release) <= end if clause.prefix else clause.version < end


def _next(release: tuple[int, ...]) -> Version:
    """The first version behind all that begin with these numbers."""
    from packaging.version import Version

    return Version(".".join(map(str, (*release[:-1], release[-1] + 1))))
