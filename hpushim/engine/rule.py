"""What a rule is, and how rules are found.

A rule lives in ``codemods/<stem>.py`` with its page ``codemods/<stem>.md``. It never touches text:
it yields findings, and findings may carry a fix. Nothing imports a rule by name.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, cast

from hpushim.model import Finding, Fix, Safety, Severity, Span

if TYPE_CHECKING:
    from hpushim.engine.document import Document, Kind
    from hpushim.engine.syntax import Module
    from hpushim.engine.text import Text

Handler = Callable[["Module", ast.AST], Iterator[Finding]]


class _Named:
    """What every rule says about itself."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = "warning"
    safety: ClassVar[Safety] = "safe"
    #: The rule sees a file only if one of its markers is in the file's bytes. A rule without
    #: markers sees every file that another rule's marker lets through.
    markers: ClassVar[tuple[bytes, ...]] = (b"cuda",)
    #: Further codes that the rule may give, with their names (``{"HPU103": "cuda-call-unproven"}``).
    also: ClassVar[dict[str, str]] = {}

    def finding(
        self,
        text: Text,
        where: ast.AST | Span,
        message: str,
        *,
        fix: Fix | None = None,
        row: str | None = None,
        code: str | None = None,
        severity: Severity | None = None,
        safety: Safety | None = None,
    ) -> Finding:
        """A finding at ``where`` (a node only in Python); its safety is the fix's unless given."""
        span = where if isinstance(where, Span) else cast("Module", text).span(where)
        line, column = text.position(span.start)
        end_line, end_column = text.position(span.end)
        code = code or self.code
        return Finding(
            code=code,
            name=self.name if code == self.code else self.also[code],
            severity=severity or self.severity,
            safety=safety or (fix.safety if fix else "manual"),
            message=message,
            span=span,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            row=row,
            fix=fix,
        )


class Rule(_Named):
    """Base of every rule on Python source, notebook cells included.

    A subclass names itself with the class attributes and defines any of

    * ``on_<NodeType>(self, module, node)`` for node types of :mod:`ast` (``on_Call``, ``on_Constant`` …):
      called once for each such node, in source order, in the one walk that serves all rules;
    * ``on_module(self, module)``: called once when the walk is over.

    Both return an iterable of :class:`~hpushim.model.Finding` and may be generators; build them with :meth:`finding`. An instance
    serves one file, so state between handlers lives on ``self``.
    """

    @classmethod
    def applies(cls, module: Module) -> bool:
        """May the rule find anything in this file? Asked once, before the walk, when a marker is there."""
        return True


class TextRule(_Named):
    """Base of every rule on files that are not Python: YAML, JSON, TOML, shell, Dockerfile …

    A subclass names itself as a :class:`Rule` does, says which files it reads with ``kinds`` (or
    :meth:`files`, for more than that) and defines ``check``. Spans are bytes of the document's text.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset()

    @classmethod
    def files(cls, path: PurePath, kind: Kind) -> bool:
        """Does the rule read this file?"""
        return kind in cls.kinds

    def check(self, document: Document) -> Iterator[Finding]:
        """The findings in one file; build them with :meth:`finding`."""
        raise NotImplementedError


AnyRule = type[Rule] | type[TextRule]


@cache
def every_rule() -> tuple[AnyRule, ...]:
    """Every rule of the ``codemods`` room, by code."""
    package = importlib.import_module("hpushim.codemods")
    found: list[AnyRule] = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"hpushim.codemods.{info.name}")
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
