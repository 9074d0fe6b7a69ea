"""Every CUDA device that one file spells: what each is evidence of, and what it belongs to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from hpushim.engine.python.module import Module
from hpushim.pycode.answers import Circular
from hpushim.pycode.places import last_name
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits.spelling import agnostic
from .device_lists import device_lists
from .device_literals import Finder, Site
from .flow import Flow
from .groups import Ties
from .load_places import only_loads
from .roles import Role


class Devices(Circular):
    """The device texts of a file: ``module.view(Devices)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.flow = Flow(module)
        self._finder = Finder(module, self.flow)
        self.sites: list[Site] = self._finder.sites()
        self._ties = Ties(module, self.sites)

    def of_role(self, *roles: Role) -> Iterator[Site]:
        """The sites of some roles, in source order."""
        kept = () if agnostic(self._module) else self.several
        return (site for site in self.sites if site.role in roles and site not in kept)

    def counterpart(self, site: Site) -> str:
        """The device that is written for this one, as messages quote it."""
        if site.text.new:
            return f"`{site.text.new}`" if "\n" not in site.text.new else "`hpu` there"
        keeps = site.text.index == "0" or (bool(site.text.index) and self.keeps_index)
        return '`"hpu:0"`' if keeps else '`"hpu"`'

    @cached_property
    def several(self) -> list[Site]:
        """Several devices of one process: they are not rewritten, or nobody would find them again.

        The first may be, where what is written for it shows that it was one.
        """
        lists = self._module.view(device_lists)
        roles = (Role.DEVICE, Role.TO, Role.ARGUMENT, Role.NAME)
        found = [
            site
            for site in self.sites
            if site.text.index.isdigit()
            and site.role in roles
            and not any(above in lists for above in self._module.ancestors(site.node))
            and not only_loads(self._module, site.node)
            and not self._is_set(site.node)
        ]
        indices = {site.text.index for site in found}
        if any(self._module.index.strings("hpu:0")):
            indices.add("0")  # it has been rewritten
        if len(indices) < 2:
            return []
        return [
            site for site in found if site.text.index != "0" or self._module.target.style == "dual"
        ]

    def _is_set(self, node: ast.expr) -> bool:
        """``torch.cuda.set_device("cuda:1")``: which one the process has."""
        call = self._module.parent(node)
        return isinstance(call, ast.Call) and last_name(call.func) == "set_device"

    def group(self, node: ast.AST) -> str:
        """The group of a device text or of an availability check; "" when it is alone."""
        return self._ties.group(node)

    @property
    def keeps_index(self) -> bool:
        """Does every device that has an index keep one, for the file reads it again?"""
        return self._finder.keeps_index

    def is_device(self, node: ast.AST) -> bool:
        """Does the expression hold a device?"""
        return self._finder.is_device(node)

    def is_parsed(self, node: ast.expr) -> bool:
        """Is a text read as a configuration or a command line?"""
        return self.flow.is_parsed(node)

    def goes_to_device(self, node: ast.expr) -> bool:
        """Is the value used as a device, or compared with one?"""
        return self.flow.use(node) is not None

    def handles_hpu(self, node: ast.AST) -> bool:
        """Does the code around a node have a branch for ``hpu`` already?"""
        return self._finder.beside_hpu(node)


def may_be_cuda(module: Module, node: ast.expr) -> bool:
    """Does the file show how the expression, a device or its type, may come to be CUDA?"""
    return spelled_by(module, node) is not None


def spelled_by(module: Module, node: ast.expr) -> Site | None:
    """The device text that the expression, a device or its type, may come to be."""
    texts: dict[ast.AST, Site] = {site.node: site for site in module.view(Devices).sites}
    origins = module.view(Values).origins
    parts = (part for part in walk(node) if isinstance(part, ast.expr) and texts)
    spelled = (
        texts[each]
        for part in parts
        for origin in (part, *origins(part))
        for each in walk(origin)
        if each in texts
    )
    return next(spelled, None)


__all__ = ["Devices", "Role", "Site", "may_be_cuda", "spelled_by"]
