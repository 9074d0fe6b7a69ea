"""Every CUDA device that one file spells: what each is evidence of, and what it belongs to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.python.walk import walk

from .device_texts import device_name
from .finder import Finder, Site
from .flow import Flow
from .roles import Role
from .ties import Ties

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module


class Devices:
    """The device texts of a file: ``module.view(Devices)``."""

    def __init__(self, module: Module) -> None:
        self.flow = Flow(module)
        self._finder = Finder(module, self.flow)
        self.sites: list[Site] = self._finder.sites()
        self._ties = Ties(module, self.sites)

    def of_role(self, *roles: Role) -> Iterator[Site]:
        """The sites of some roles, in source order."""
        return (site for site in self.sites if site.role in roles)

    def group(self, node: ast.AST) -> str:
        """The group of a device text or of an availability check; "" when it stands alone."""
        return self._ties.group(node)

    @property
    def keeps_index(self) -> bool:
        """Does every device that has an index keep one, for the file reads it again?"""
        return self._finder.keeps_index

    def is_device(self, node: ast.AST) -> bool:
        """Does the expression hold a device?"""
        return self._finder.is_device(node)

    def handles_hpu(self, node: ast.AST) -> bool:
        """Does the code around a node have a branch for ``hpu`` already?"""
        return self._finder.beside_hpu(node)


def may_be_cuda(module: Module, node: ast.expr, depth: int = 4) -> bool:
    """Does the file show how the expression, a device or its type, may come to be CUDA?"""
    devices = module.view(Devices)
    texts = {site.node for site in devices.sites}
    return bool(texts) and _reaches(module, devices, texts, node, depth)


def _reaches(
    module: Module, devices: Devices, texts: set[ast.expr], node: ast.expr, depth: int
) -> bool:
    for part in walk(node):
        if part in texts:
            return True
        if depth and isinstance(part, ast.Name):
            values = [value for value in module.values(part) if value is not part]
        elif depth and isinstance(part, ast.Attribute):
            values = module.index.stored(part.attr)
            if device_name(part.attr) and any(devices.of_role(Role.OPTION)):
                return True
        else:
            continue
        if any(_reaches(module, devices, texts, value, depth - 1) for value in values):
            return True
    return False


__all__ = ["Devices", "Role", "Site", "may_be_cuda"]
