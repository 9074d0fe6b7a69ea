"""What there is to know of a rule before a file wants it; its module is imported when one does."""

from __future__ import annotations

import importlib
from functools import cached_property
from pathlib import PurePath
from typing import Any

import msgspec

from hpushim.engine.base.kind import Kind
from hpushim.engine.rules.rule import AnyRule, Rule, TextRule
from hpushim.engine.rules.wants import ProjectFact, Wants

#: What of a rule's wants is kept as it is; a fact is a function, which is named by its module and its name there.
_FIELDS = tuple(field for field in Wants.__struct_fields__ if field != "facts")


class Listed:
    """One rule: ``load()`` gives the class."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept
        self.code: str = kept["codes"][0]
        self.codes: tuple[str, ...] = tuple(kept["codes"])
        #: Whether it is a rule on Python source, and whether that has something to say of whole modules.
        self.python: bool = kept["python"]
        self.whole: bool = kept["whole"]
        self.kinds: frozenset[Kind] = frozenset(kept["kinds"])
        self.markers: tuple[str, ...] = tuple(kept["markers"])

    @classmethod
    def of(cls, rule: AnyRule) -> Listed:
        """The entry of a rule that is loaded."""
        python = issubclass(rule, Rule)
        wants, also = (rule.wants, rule.also) if issubclass(rule, Rule) else (Wants(), Wants())
        found = cls(
            {
                "rule": (rule.__module__, rule.__qualname__),
                "bases": [base.__qualname__ for base in rule.__mro__[1:]],
                "codes": list(rule.codes),
                "python": python,
                "whole": issubclass(rule, Rule) and rule.on_module is not Rule.on_module,
                "kinds": [] if issubclass(rule, Rule) else sorted(rule.kinds),
                "markers": [] if issubclass(rule, Rule) else rule.markers,
                "chooses": issubclass(rule, TextRule)
                and rule.files.__func__ is not TextRule.files.__func__,  # type: ignore[attr-defined]
                "wants": _words(wants),
                "also": _words(also),
                "facts": [(*_place(fact), fact.name, fact.spreads) for fact in (wants | also).facts],
            }
        )  # fmt: skip
        found.__dict__["_class"] = rule
        return found

    @cached_property
    def _class(self) -> AnyRule:
        rule: AnyRule = _named(*self.kept["rule"])
        return rule

    def load(self) -> Any:
        """The class, imported now unless it was before."""
        return self._class

    @cached_property
    def reasons(self) -> Wants:
        """What of the rule's words is a reason to read a file."""
        return Wants(**{name: tuple(value) for name, value in self.kept["wants"].items()})

    @cached_property
    def wants(self) -> Wants:
        """All that the rule wants, but for the facts."""
        return self.reasons | Wants(**{name: tuple(v) for name, v in self.kept["also"].items()})

    @property
    def facts(self) -> tuple[ProjectFact, ...]:
        """The facts that it wants to know of all files; imports what finds them."""
        return tuple(_named(*place) for *place, _, _ in self.kept["facts"])

    @property
    def named_facts(self) -> tuple[tuple[str, str], ...]:
        """The names of these facts, and how each spreads; imports nothing."""
        return tuple((name, spreads) for *_, name, spreads in self.kept["facts"])

    def extends(self, base: AnyRule) -> bool:
        """Does the rule's class extend this one?"""
        return base.__qualname__ in self.kept["bases"]

    def reads(self, path: PurePath, kind: Kind) -> bool:
        """Does this rule on files that are not Python read a file?"""
        if kind not in self.kinds:
            return False
        return not self.kept["chooses"] or bool(self.load().files(path, kind))


def _words(wants: Wants) -> dict[str, list[str]]:
    return {field: list(value) for field in _FIELDS if (value := getattr(wants, field))}


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _place(fact: ProjectFact) -> tuple[str, str]:
    module = importlib.import_module(fact.find.__module__)
    for name, item in vars(module).items():
        if item is fact:
            return module.__name__, name
    raise LookupError(f"the fact `{fact.name}` is not in {module.__name__}, beside its function")


def encoded(rules: tuple[Listed, ...]) -> bytes:
    """The entries as bytes."""
    return msgspec.json.encode([rule.kept for rule in rules])


def decoded(data: bytes) -> tuple[Listed, ...]:
    """The entries again."""
    return tuple(map(Listed, msgspec.json.decode(data)))
