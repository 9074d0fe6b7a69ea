"""The rules that there are: every class with a ``code`` in the ``codemods`` room and the rooms in it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from hpushim.engine.rules.rule import AnyRule, Rule, TextRule
from hpushim.errors import HpushimError

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
def rules() -> tuple[type[Rule], ...]:
    """The rules on Python source, by code."""
    return tuple(rule for rule in every_rule() if issubclass(rule, Rule))


@cache
def text_rules() -> tuple[type[TextRule], ...]:
    """The rules on other files, by code."""
    return tuple(rule for rule in every_rule() if issubclass(rule, TextRule))


def home(rule: AnyRule) -> Path:
    """The path of a rule's module without its ending; its page is beside it."""
    file = importlib.import_module(rule.__module__).__file__
    assert file is not None
    return Path(file).with_suffix("")
