"""Rules that know nothing of CUDA, to try the engine with."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import libcst as cst
import pytest

from hpushim.engine import assess
from hpushim.engine.base.code import Code
from hpushim.engine.context import Context
from hpushim.engine.data.document import Document
from hpushim.engine.python.changes import Import, Remove, Rename, Replace, Rewrite
from hpushim.engine.python.module import Module
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.listed import Listed
from hpushim.engine.rules.rule import Claim, Found, Rule, Strength, TextRule, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.matrix import load
from hpushim.model import Finding, Fix, Span, Target


class _OnWords(Rule):
    """Base: every use of a wanted name of one word, which nothing binds."""

    def on_module(self, module: Module) -> Yield:
        for word in self.wants.words:
            for node in module.index.names(word):
                yield from self.on_word(module, node)

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        raise NotImplementedError


class Swap(_OnWords):
    """The name ``old_name`` becomes ``new_name``."""

    HPU901 = Code("swap", fix="safe")
    wants = Wants(words=("old_name",))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        fix = Rewrite("swap", "safe", (Replace(node, "new_name"),))
        yield self.finding(node, "`old_name` is old", fix=fix)


class Unsafe(_OnWords):
    """The name ``risky`` becomes ``bold``, with ``--unsafe``."""

    HPU902 = Code("unsafe", fix="safe")
    wants = Wants(words=("risky",))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        fix = Rewrite("dare", "unsafe", (Replace(node, "bold"),))
        yield self.finding(node, "`risky` is risky", fix=fix)


class Wraps(Rule):
    """``wrap(x)`` becomes ``x``: it speaks of the whole call."""

    HPU911 = Code("wraps", fix="safe")
    wants = Wants(calls=("wrap",))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        fix = Rewrite("unwrap", "safe", (Replace(node, module.source(node.args[0])),))
        yield self.finding(node, "`wrap` goes", fix=fix)


class Rest(Rule):
    """``odd`` wherever nobody has spoken of it."""

    HPU912 = Code("rest", severity="unknown", fix="safe")
    wants = Wants(words=("odd",))

    strength = Strength.REST

    def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
        for node in module.index.names("odd"):
            if not said.of(module.span(node)):
                yield self.finding(node, "`odd` is not known")


class Keeps(Rule):
    """All of a file that has ``keep`` stays, but for what stands beside ``open``."""

    HPU913 = Code("keeps", fix="safe")
    wants = Wants(words=("keep",))

    def on_module(self, module: Module) -> Yield:
        yield Claim(module.tree)
        for node in module.index.names("open_"):
            yield Claim(module.statement(node), Strength.OPEN)


class Raises(Rule):
    """Fails on the name ``breakpoint``."""

    HPU903 = Code("raises", fix="safe")
    wants = Wants(names=("builtins.breakpoint",))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        yield self.finding(node, "seen")
        raise KeyError("breakpoint")


class Restless(_OnWords):
    """Never comes to rest: ``flip`` and ``flop`` become each other."""

    HPU904 = Code("restless", fix="safe")
    wants = Wants(words=("flip", "flop"))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        other = "flop" if node.id == "flip" else "flip"
        fix = Rewrite("turn", "safe", (Replace(node, other),))
        yield self.finding(node, "turns", fix=fix)


class Breaks(_OnWords):
    """Writes what does not parse, and what swallows its surroundings."""

    HPU905 = Code("breaks", fix="safe")
    wants = Wants(words=("broken", "swallow"))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        if node.id == "broken":
            yield self.finding(
                node, "breaks", fix=Rewrite("break", "safe", (Replace(node, "1 +"),))
            )
        else:
            # Opens a string that a later quote in the file closes: the result parses.
            opened = Replace(node, lambda _: cst.SimpleString("'''"))
            yield self.finding(node, "swallows", fix=Rewrite("swallow", "safe", (opened,)))


class Group(_OnWords):
    """All uses of one of these names change together."""

    HPU906 = Code("group", fix="safe")
    wants = Wants(words=("pair_a", "pair_b", "pair_c"))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        change = Replace(node, "both_" + node.id[5:])
        fix = Rewrite("pair", "safe", (change,), f"pair:{node.id}")
        yield self.finding(node, "one of several", fix=fix)


class Words(TextRule):
    """In text files ``old`` becomes ``new``."""

    HPU907 = Code("words", fix="safe")
    markers = ("old",)
    kinds = frozenset({"yaml", "shell", "json", "toml"})

    def check(self, document: Document) -> Iterator[Finding]:
        at = document.data.find(b"old")
        while at >= 0:
            span = Span(at, at + 3)
            fix = Fix("new", "safe", (document.replace(span, "new"),))
            yield self.finding(span, "`old` is old", fix=fix)
            at = document.data.find(b"old", at + 3)


class Imports(_OnWords):
    """``needs_import`` needs an import, which is made once."""

    HPU908 = Code("imports", fix="safe")
    wants = Wants(words=("needs_import",))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        fix = Rewrite("import", "safe", (Replace(node, "lib.made"), Import("lib")))
        yield self.finding(node, "imports", fix=fix)


class Library(Rule):
    """``lib.old.thing`` is ``lib.new.thing``, ``lib.gone()`` goes, and ``lib.wait(x)`` takes nothing."""

    HPU909 = Code("library", fix="safe")
    wants = Wants(names=("lib.old.*", "lib.gone", "lib.wait"), keywords=("spare",))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = module.parent(node)
        if name == "lib.gone":
            statement = module.parent(call) if call is not None else None
            assert isinstance(statement, ast.Expr)
            change: Any = (Remove(statement),)
        elif name == "lib.wait":
            assert isinstance(call, ast.Call)
            change = tuple(Remove(argument) for argument in call.args)
        else:
            change = (Rename(node, name.replace(".old.", ".new.")),)
        yield self.finding(node, f"{name} is old", fix=Rewrite("renew", "safe", change))

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        fix = Rewrite("drop", "safe", (Remove(node),))
        yield self.finding(node, "spare", fix=fix, claims=(node,))


class Quiet(_OnWords):
    """Whatever stands in a call of ``quiet`` stays as it is."""

    HPU910 = Code("quiet", fix="safe")
    wants = Wants(words=("quiet",))

    def on_word(self, module: Module, node: ast.Name) -> Yield:
        call = module.parent(node)
        assert call is not None
        yield Claim(call)


EVERY: tuple[Any, ...] = (
    Swap, Unsafe, Raises, Restless, Breaks, Group, Words, Imports, Library, Quiet,
)  # fmt: skip


def use(patch: pytest.MonkeyPatch, *classes: Any) -> None:
    """Makes these the only rules there are."""
    python = tuple(Listed.of(item) for item in classes if issubclass(item, Rule))
    text = tuple(Listed.of(item) for item in classes if issubclass(item, TextRule))
    patch.setattr(assess, "rules", lambda: python)
    patch.setattr(assess, "text_rules", lambda: text)
    patch.setattr(assess, "_reading", assess._reading.__wrapped__)


def context(**options: Any) -> Context:
    """A context for the default target."""
    return Context(Target(), load(), **options)
