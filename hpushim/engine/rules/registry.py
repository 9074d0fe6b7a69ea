"""The rules that there are: every class that declares codes in the ``codemods`` room and the rooms in it."""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hpushim.engine.rules.listed import Listed, decoded, encoded
from hpushim.engine.rules.rule import AnyRule, Rule, TextRule
from hpushim.errors import HpushimError
from hpushim.kept import Kept
from hpushim.matrix import default_path

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable, Iterator

    from hpushim.engine.base.accounted import Accounted
    from hpushim.engine.python.module import Module
    from hpushim.model import Finding

PACKAGE = "hpushim.codemods"


@cache
def every_rule() -> tuple[AnyRule, ...]:
    """Every rule, by code. Raises :class:`~hpushim.errors.HpushimError` where the rules cannot be imported."""
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise HpushimError(
            "the rules (hpushim.codemods) are not installed; in a checkout run: pip install -e ."
        ) from None
    import pkgutil

    found: list[AnyRule] = []
    for info in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if info.ispkg or info.name == f"{PACKAGE}.command":
            continue
        module = importlib.import_module(info.name)
        found += [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, (Rule, TextRule))
            and item.__module__ == module.__name__
            and "code" in vars(item)
        ]
    return tuple(sorted(found, key=lambda rule: rule.code))


@cache
def listed() -> tuple[Listed, ...]:
    """What is known of every rule before it is loaded, by code: kept until a file of theirs, or the matrix, changes."""
    kept = kept_for("rules")
    if data := kept.read():
        return decoded(data)
    found = tuple(map(Listed.of, every_rule()))
    kept.write(encoded(found))
    return found


def kept_for(name: str) -> Kept:
    """What is worked out of the rules and the matrix, under a name."""
    return Kept(__file__, name, _sources())


@cache
def _sources() -> list[str]:
    """The files that what is listed comes from."""
    found = importlib.util.find_spec(PACKAGE)
    roots = [*(found.submodule_search_locations or ()), str(Path(__file__).parent)] if found else []
    rooms = [
        (root, *(entry.path for entry in os.scandir(root) if entry.is_dir())) for root in roots
    ]
    files = [entry.path for room in rooms for folder in room for entry in os.scandir(folder)]
    return [str(default_path()), *sorted(file for file in files if file.endswith(".py"))]


@cache
def rules() -> tuple[Listed, ...]:
    """The rules on Python source, by code."""
    return tuple(rule for rule in listed() if rule.python)


@cache
def text_rules() -> tuple[Listed, ...]:
    """The rules on other files, by code."""
    return tuple(rule for rule in listed() if not rule.python)


def home(rule: AnyRule) -> Path:
    """The path of a rule's module without its ending; its page is beside it."""
    file = importlib.import_module(rule.__module__).__file__
    assert file is not None
    return Path(file).with_suffix("")


def accounting() -> Callable[[Module, Iterable[Finding]], Iterator[Accounted]]:
    """What says what becomes of each CUDA token of a module, once the rules have seen it."""
    module = importlib.import_module(f"{PACKAGE}.values.tokens")
    return module.entries  # type: ignore[no-any-return]


def choosing() -> Callable[[Module, list[ast.AST], int], bool]:
    """What says whether a place, by what is around it, is in a branch that a run takes only on request."""
    module = importlib.import_module(f"{PACKAGE}.values.unchosen")
    return module.unchosen  # type: ignore[no-any-return]


def sharing() -> Callable[[bytes], set[str]]:
    """What names what a file has in itself that another one may define for it."""
    module = importlib.import_module(f"{PACKAGE}.edits.neutral")
    return module.shared  # type: ignore[no-any-return]


def porting() -> ModuleType:
    """What reads a file that was ported as the code before, and writes what became of that: ``before``, ``back``, ``worded``."""
    return importlib.import_module(f"{PACKAGE}.analysis.ports")
