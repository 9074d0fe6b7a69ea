"""Where a function is defined that several files of a project come to need: in one of them, or in a module that they import already.

Each file is rewritten by itself first. Files that then define the same helper are rewritten once more, with the knowledge of
which file has it for them: ``project.homes`` names, for each file, the module that it imports the helper from.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import PurePath

from hpushim.engine.links import Links

#: What modules are called that hold such helpers, the best first.
_NAMES = ("device", "devices", "utils", "util", "misc", "common", "helpers", "helper")


class Homes:
    """Chooses the homes; ``imports`` are those of each Python file, ``texts`` what they hold."""

    def __init__(
        self,
        imports: Mapping[str, Collection[tuple[str, str]]],
        texts: Mapping[str, bytes],
        package: str,
    ) -> None:
        self._imports = imports
        self._texts = texts
        self._package = package
        self._links = Links(imports)

    def of(
        self, users: Collection[str], defined: Collection[str], *, further: bool = True
    ) -> dict[str, str]:
        """For each file the module that it imports the helper from, "" for one that defines it for others.

        ``users`` need it, ``defined`` have it already, ``further`` files may get it. A file that no other can help is left out.
        """
        found: dict[str, str] = {}
        left = set(users)
        while True:
            best: tuple[tuple[int, ...], str, dict[str, str]] | None = None
            for home in self._candidates(defined) if further else sorted(defined):
                served = self._served(home, left - {home})
                count = len(served) + (home in left)
                if not served or (count < 2 and home not in defined):
                    continue
                rank = (home in defined, count, -_place(home), home in left, -len(home))
                if best is None or (*rank, home) > (*best[0], best[1]):
                    best = rank, home, served
            if best is None:
                return found
            _, home, served = best
            found.update(served)
            if home not in defined:
                found[home] = ""
            left -= {home, *served}

    def _candidates(self, defined: Collection[str]) -> list[str]:
        fitting = {p for p in self._imports if _place(p) < len(_NAMES)} | {*defined}
        return sorted(p for p in fitting if p in self._texts and self._may_define(p))

    def _may_define(self, path: str) -> bool:
        """Does the file have the package at hand when it is loaded, under no condition, or can it have it at no cost?

        A module of helpers can where files that have the package import it, and none that builds the project, which may run without.
        """
        body: list[ast.stmt] = []
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            body = ast.parse(self._texts[path]).body
        if any(
            isinstance(s, ast.Import) and any(a.name == self._package and not a.asname for a in s.names)
            for s in body
        ):  # fmt: skip
            return True
        users = self._links.needing((path,)) - {path}
        imports = any(isinstance(s, (ast.Import, ast.ImportFrom)) for s in body)
        tops = [{module.partition(".")[0] for module, _ in self._imports[each]} for each in users]
        builds = any(top & {"setuptools", "distutils"} for top in tops)
        named = PurePath(path).stem in _NAMES
        return named and imports and not builds and any(self._package in top for top in tops)

    def _served(self, home: str, users: Collection[str]) -> dict[str, str]:
        """The users that can import from ``home``, with what they call it."""
        needs = self._links.needs((home,))
        found: dict[str, str] = {}
        for user in users:
            if user not in needs and (module := self._module(user, home)):
                found[user] = module
        return found

    def _module(self, user: str, home: str) -> str:
        """What ``user`` calls ``home`` in an import; "" where that is not known."""
        imported = sorted(self._imports.get(user, ()))
        for module, name in imported:
            for each in (module, f"{module}{name}" if module.endswith(".") else f"{module}.{name}"):
                if (name or each is module) and self._is(user, each, home):
                    return each
        needs, around = self._links.needs((user,)), PurePath(home).parent
        near = around in (folder := PurePath(user).parent, *folder.parents)
        near = near or any(PurePath(each).parent == around for each in needs)
        if home not in needs and not (near and self._is_light(home)):
            return ""  # what it does, and needs, when it is loaded is not known
        relative = any(module.startswith(".") for module, _ in imported)
        if relative and (name := self._relative(user, home)):
            return name
        beside = [one for path, one in self._imports.items() if PurePath(path).parent == folder]
        for module, _ in sorted({*imported, *(each for one in beside for each in one)}):
            names = tuple(module.split("."))
            for base in (folder.parts[:n] for n in range(len(folder.parts), -1, -1)):
                name = ".".join(_parts(home)[len(base) :])
                there = self._links.found(user, module)
                if {(*base, *names)} == set(map(_parts, there)) and self._is(user, name, home):
                    return name  # beside what the user, or a neighbour, imports, or below
        return next(filter(None, (self._as_called(user, home, name) for name in sorted(self._called.get(user, ())))), "")  # fmt: skip

    @cached_property
    def _called(self) -> dict[str, set[str]]:
        """What each file is called by those that import it."""
        found: dict[str, set[str]] = {}
        for path, imported in self._imports.items():
            for module, name in imported:
                for each in (module, f"{module}{name}" if module.endswith(".") else f"{module}.{name}"):  # fmt: skip
                    for there in self._links.found(path, each) if name or each is module else ():
                        found.setdefault(there, set()).add(each)
        return found

    def _as_called(self, user: str, home: str, name: str) -> str:
        """What the user calls ``home`` where others call the user by a name: from the same root, or relative."""
        if name.startswith("."):
            return self._relative(user, home)
        names, parts, there = tuple(name.split(".")), _parts(user), _parts(home)
        root = parts[: len(parts) - len(names)]
        if parts[len(root) :] != names or there[: len(root)] != root:
            return ""
        module = ".".join(there[len(root) :])
        return module if self._links.found(user, module) == {home} else ""

    def _is(self, user: str, module: str, home: str) -> bool:
        """Is ``home`` what the user gets by importing a module, seen from its own folder or one above?"""
        if self._links.found(user, module) != {home}:
            return False
        names, parts = tuple(module.split(".")), _parts(home)
        base = parts[: len(parts) - len(names)]
        inside = PurePath(user).parent.parts[: len(base)] == base and parts[len(base) :] == names
        return module.startswith(".") or inside

    def _is_light(self, home: str) -> bool:
        """Does it import nothing but Python's own modules, and what everybody has that imports the package?"""
        tops = {module.partition(".")[0] for module, _ in self._imports.get(home, ())}
        return tops <= {*sys.stdlib_module_names, self._package, "numpy"}

    def _relative(self, user: str, home: str) -> str:
        """``.utils`` for a neighbour, ``..utils`` for one in the folder above; "" where that leads out of the package."""
        folder, parts = PurePath(user).parent.parts, _parts(home)
        shared = 0
        while shared < min(len(folder), len(parts) - 1) and folder[shared] == parts[shared]:
            shared += 1
        ways = [*(folder[:n] for n in range(shared, len(folder) + 1)), *(parts[:n] for n in range(shared, len(parts)))]  # fmt: skip
        if not all(self._links.is_package(way) for way in ways):
            return ""
        return "." * (len(folder) - shared + 1) + ".".join(parts[shared:])


def _place(path: str) -> int:
    """How well the name of a file says that it holds helpers; the file of a folder of this name does as well."""
    pure = PurePath(path)
    names = (pure.stem, pure.parent.name)
    return min((_NAMES.index(name) + at for at, name in enumerate(names) if name in _NAMES), default=len(_NAMES))  # fmt: skip


def _parts(path: str) -> tuple[str, ...]:
    parts = PurePath(path).with_suffix("").parts
    return parts[:-1] if parts[-1:] == ("__init__",) else parts
