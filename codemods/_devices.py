"""Every CUDA device that one file spells, and what each belongs to.

Made once per file: each device text with the evidence that it is one, the comparisons that test for CUDA,
and the groups: a check, the literals that it chooses and the comparisons with them stand or fall together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _imports
from ._claims import claimed
from ._finder import Finder, Site
from ._flow import Flow

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module


@dataclass
class Devices:
    """The device texts of a file; ``group`` names what a node's fix belongs to."""

    module: Module
    flow: Flow
    sites: list[Site] = field(default_factory=list)
    _keys: dict[ast.AST, list[str]] = field(default_factory=dict)
    _parents: dict[str, str] = field(default_factory=dict)
    _shared: dict[str, int] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> Iterator[Site]:
        """The sites of some kinds that no other rule has claimed."""
        for site in self.sites:
            if site.kind in kinds and not claimed(self.module, site.node):
                yield site

    def group(self, node: ast.AST) -> str:
        """The group of a device text or of an availability check; "" when it stands alone."""
        raw = self.raw_group(node)
        return _imports.of(self.module).group(group=raw) if raw else ""

    def raw_group(self, node: ast.AST) -> str:
        """The same before imports have joined it with others."""
        keys = self._keys.get(node, [])
        found = self._find(keys[0]) if keys else ""
        return f"device:{found}" if self._shared.get(found, 0) > 1 else ""

    def handles_hpu(self, node: ast.AST) -> bool:
        """Does the code around a node have a branch for ``hpu`` already?"""
        return Finder(self.module, self.flow, self).beside_hpu(node)

    # -- groups -----------------------------------------------------------------------------

    def join(self, node: ast.AST, keys: list[str]) -> None:
        """Says that ``node`` stands or falls with everything that shares one of ``keys``."""
        if not keys:
            return
        self._keys[node] = keys
        for key in keys[1:]:
            self._merge(keys[0], key)

    def count(self) -> None:
        for keys in self._keys.values():
            found = self._find(keys[0])
            self._shared[found] = self._shared.get(found, 0) + 1

    def _find(self, key: str) -> str:
        while self._parents.get(key, key) != key:
            key = self._parents[key]
        return key

    def _merge(self, first: str, second: str) -> None:
        one, two = self._find(first), self._find(second)
        if one != two:
            self._parents[max(one, two)] = min(one, two)


def of(module: Module) -> Devices:
    """The device texts of ``module``, found on first demand and shared by all rules."""
    found = module.notes.get("devices")
    if not isinstance(found, Devices):
        found = module.notes["devices"] = Devices(module, Flow(module))
        found.sites += Finder(module, found.flow, found).run()
        found.count()
    return found


__all__ = ["Devices", "Site", "of"]
