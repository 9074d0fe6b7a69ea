"""What is known of each dependency: the matrix first, then the package's own files, then nobody's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpushim.dependencies.audit import Audit, audit
from hpushim.dependencies.imports import Import, imported
from hpushim.dependencies.places import Package, Places, normal
from hpushim.model import Dependency

if TYPE_CHECKING:
    from hpushim.matrix import Matrix
    from hpushim.model import Target


def assess(
    sources: Iterable[bytes],
    own: frozenset[str],
    required: Iterable[str],
    places: Places,
    matrix: Matrix,
    target: Target,
    beside: Iterable[bytes] = (),
) -> tuple[Dependency, ...]:
    """Each third-party package that ``sources`` import or that the project's files require (``required``), those in most files first.

    ``beside`` are sources that no training run needs, ``own`` the names of the project's own modules.
    """
    counts = imported(sources, own)
    aside = {
        name: each._replace(required=False)
        for name, each in imported(beside, own).items()
        if name not in counts
    }
    counts.update(aside)
    by_name = {normal(name): name for name in counts}
    for name in required:
        package = places.named(name)
        plain = matrix.policy.distributions.get(normal(name), name.replace("-", "_"))
        known = package.imports if package else {plain}
        if normal(name) not in by_name and not any(each in counts for each in known):
            counts.setdefault(min(known, key=_shown, default=name), Import(0, False))
    assessing = _Assessing(places, matrix, target)
    found = [
        msgspec.structs.replace(one, aside=name in aside)
        for name, each in counts.items()
        if (one := assessing.one(name, each))
    ]
    return tuple(sorted(found, key=lambda each: (each.aside, -each.files, each.name)))


def _shown(name: str) -> tuple[bool, str]:
    """Of the names that a package is imported by, the public ones come first."""
    return name.startswith("_"), name


class _Assessing:
    def __init__(self, places: Places, matrix: Matrix, target: Target) -> None:
        self._places, self._matrix, self._target = places, matrix, target
        self._audits: dict[Path | str, Audit] = {}

    def one(self, name: str, each: Import) -> Dependency | None:
        if name in self._matrix.policy.torch_family:
            return None
        package = self._places.imported(name)
        version = package.version if package else ""
        row = self._matrix.row(name)
        if row is not None:
            status = self._matrix.assess(row, self._target).status
            return Dependency(
                name, *each, "matrix", version, "by row", f"{status}: {row.note}", status
            )
        if package is None:
            if audited := self._matrix.policy.plain.get(name):
                return Dependency(name, *each, "matrix", "", "plain Python", f"version {audited}")
            return Dependency(name, *each, "none")
        found = self._audit(package)
        return Dependency(name, *each, "files", version, found.kind, found.evidence)

    def _audit(self, package: Package) -> Audit:
        """What the package's files say, and where they say nothing those of what it requires."""
        known = self._audits.get(package.name)
        if known is not None:
            return known
        self._audits[package.name] = Audit("plain Python")  # packages may require each other
        found = audit(package.files())
        if found.kind == "plain Python":
            for name in package.requires:
                other = self._places.named(name)
                if normal(name) in self._matrix.policy.torch_family:
                    continue
                if other is None or self._matrix.row(name):
                    continue
                inner = self._audit(other)
                if inner.kind not in ("plain Python", "knows hpu", "chooses its device"):
                    found = Audit(inner.kind, f"requires {other.name}: {inner.evidence}")
                    break
        self._audits[package.name] = found
        return found
