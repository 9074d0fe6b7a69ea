"""Rules that know nothing of CUDA, to try the engine with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from hpushim.engine import run
from hpushim.engine.document import Document
from hpushim.engine.rule import Rule, TextRule
from hpushim.engine.run import Context
from hpushim.engine.syntax import Module
from hpushim.matrix import load
from hpushim.model import Edit, Finding, Fix, Span, Target


class Swap(Rule):
    """The name ``old_name`` becomes ``new_name``."""

    code = "HPU901"
    name = "swap"
    markers = (b"old_name",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if node.id == "old_name":
            fix = Fix("swap", "safe", (module.replace(node, "new_name"),))
            yield self.finding(module, node, "`old_name` is old", fix=fix)


class Unsafe(Rule):
    """The name ``risky`` becomes ``bold``, with ``--unsafe``."""

    code = "HPU902"
    name = "unsafe"
    markers = (b"risky",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if node.id == "risky":
            fix = Fix("dare", "unsafe", (module.replace(node, "bold"),))
            yield self.finding(module, node, "`risky` is risky", fix=fix)


class Raises(Rule):
    """Fails on the name ``bomb``."""

    code = "HPU903"
    name = "raises"
    markers = (b"bomb",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        yield self.finding(module, node, "seen")
        if node.id == "bomb":
            raise KeyError("bomb")


class Restless(Rule):
    """Never comes to rest: ``flip`` and ``flop`` become each other."""

    code = "HPU904"
    name = "restless"
    markers = (b"fl",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        other = {"flip": "flop", "flop": "flip"}.get(node.id)
        if other:
            fix = Fix("turn", "safe", (module.replace(node, other),))
            yield self.finding(module, node, "turns", fix=fix)


class Breaks(Rule):
    """Writes what does not parse, and what swallows its surroundings."""

    code = "HPU905"
    name = "breaks"
    markers = (b"broken", b"swallow")

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if node.id == "broken":
            fix = Fix("break", "safe", (module.replace(node, "1 +"),))
            yield self.finding(module, node, "breaks", fix=fix)
        if node.id == "swallow":
            # Opens a string that a later quote in the file closes: the result parses.
            fix = Fix("swallow", "safe", (module.replace(node, "x = '''"),))
            yield self.finding(module, node, "swallows", fix=fix)


class Group(Rule):
    """All uses of names that start with ``pair_`` change together."""

    code = "HPU906"
    name = "group"
    markers = (b"pair_",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if node.id.startswith("pair_"):
            group = f"pair:{node.id}"
            fix = Fix("pair", "safe", (module.replace(node, "both_" + node.id[5:]),), group)
            yield self.finding(module, node, "one of several", fix=fix)


class Words(TextRule):
    """In text files ``old`` becomes ``new``."""

    code = "HPU907"
    name = "words"
    markers = (b"old",)
    kinds = frozenset({"yaml", "shell", "json", "toml"})

    def check(self, document: Document) -> Iterator[Finding]:
        at = document.data.find(b"old")
        while at >= 0:
            span = Span(at, at + 3)
            fix = Fix("new", "safe", (document.replace(span, "new"),))
            yield self.finding(document, span, "`old` is old", fix=fix)
            at = document.data.find(b"old", at + 3)


class Imports(Rule):
    """Every ``old_name`` needs an import, which is made once."""

    code = "HPU908"
    name = "imports"
    markers = (b"needs_import",)

    def on_Name(self, module: Module, node: ast.Name) -> Iterator[Finding]:
        if node.id == "needs_import":
            edits: tuple[Edit, ...] = (module.replace(node, "lib.made"),)
            edits = (module.insert(0, f"import lib{module.newline}"), *edits)
            yield self.finding(module, node, "imports", fix=Fix("import", "safe", edits))


EVERY: tuple[Any, ...] = (Swap, Unsafe, Raises, Restless, Breaks, Group, Words, Imports)


def use(patch: pytest.MonkeyPatch, *classes: Any) -> None:
    """Makes these the only rules there are."""
    python = tuple(item for item in classes if issubclass(item, Rule))
    text = tuple(item for item in classes if issubclass(item, TextRule))
    patch.setattr(run, "rules", lambda: python)
    patch.setattr(run, "text_rules", lambda: text)
    patch.setattr(run, "_markers", lambda: tuple(m for item in python for m in item.markers))


def context(**options: Any) -> Context:
    """A context for the default target."""
    return Context(Target(), load(), **options)
