"""What a rule is.

A rule lives in ``codemods/<room>/<stem>.py`` with its page ``codemods/<room>/<stem>.md``. It says by word what it wants to
see, is called with it and yields findings, which may carry a rewrite. It never touches text, and nothing imports it by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

import msgspec

from hpushim.engine.base.code import Code
from hpushim.engine.data.document import Document
from hpushim.engine.python.changes import Change, Import, Rename, Replace, Rewrite, written
from hpushim.engine.python.module import Module
from hpushim.engine.rules.wants import Wants
from hpushim.matrix import vendor
from hpushim.model import Effort, Finding, Fix, Safety, Severity, Span

if TYPE_CHECKING:
    from hpushim.engine.base.kind import Kind
    from hpushim.engine.base.text import Text
    from hpushim.engine.rules.claims import Said

#: What a message quotes of several lines goes on one.
_LINES = re.compile(r"\s*\n\s*")


class Strength(IntEnum):
    """How firmly a rule claims a place, or reports one. Another rule's claim drops the findings in it that are not stronger."""

    #: A claim that opens a place inside a usual one: findings are reported there, but their fixes are unsafe.
    OPEN = 0
    #: The rules that report what the others leave; they finish last.
    REST = 1
    USUAL = 2
    #: Findings that usual claims do not drop; in a file that is claimed as a whole they lose their fixes. As a claim: code that never runs.
    FIRM = 3


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A node that a rule decides about as a whole."""

    node: ast.AST
    strength: Strength = Strength.USUAL


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A finding in Python code with the changes that its fix makes."""

    finding: Finding
    node: ast.AST | None
    changes: tuple[Change, ...] = ()
    #: What the finding is about as a whole: other rules report nothing there.
    claims: tuple[ast.AST, ...] = ()
    strength: Strength = Strength.USUAL

    def with_fix(self, fix: Fix | None) -> Found:
        """The finding with another safety or group, or without a fix."""
        safety = fix.safety if fix is not None else "manual"
        finding = msgspec.structs.replace(self.finding, fix=fix, safety=safety)
        return replace(self, finding=finding, changes=self.changes if fix is not None else ())

    def unsafe(self) -> Found:
        """The finding with its fix left to a person."""
        fix = self.finding.fix
        if fix is None or fix.safety != "safe":
            return self
        return self.with_fix(msgspec.structs.replace(fix, safety="unsafe"))


Yield = Iterable[Found | Claim]


class Named:
    """What every rule says about itself."""

    #: What the findings of each code are, by number: the rule's own code first. Declared in the class body (``HPU125 = Code(…)``).
    codes: ClassVar[Mapping[str, Code]] = {}
    #: The number of the rule's own code.
    code: ClassVar[str]

    def __init_subclass__(cls) -> None:
        declared = {name: code for name, code in vars(cls).items() if isinstance(code, Code)}
        if declared:
            cls.codes = declared
        if "codes" in vars(cls):
            cls.code = next(iter(cls.codes))

    def _finding(
        self,
        text: Text,
        span: Span,
        message: str,
        fix: Fix | None,
        row: str | None,
        code: str | None,
        severity: Severity | None,
        safety: Safety | None,
        new: str,
    ) -> Finding:
        line, column = text.position(span.start)
        end_line, end_column = text.position(span.end)
        number = code or self.code
        found = self.codes[number]
        message = _LINES.sub(" ", message)
        if fix and row and (doubt := text.matrix.doubt(row, new)):
            message = f"{message}; {doubt}"
            safety = "unsafe" if safety == "safe" else safety
            if fix.safety == "safe":
                fix = msgspec.structs.replace(fix, safety="unsafe")
        return Finding(
            code=number,
            name=found.name,
            severity=severity or found.severity,
            safety=safety or (fix.safety if fix else "manual"),
            message=message,
            span=span,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            row=row,
            fix=fix,
            effort=found.effort,
            effect=found.effect,
        )


def _texts(changes: Iterable[Change]) -> str:
    """What changes write, as far as a text says it; of a function, that it gives arguments."""
    found = []
    for change in changes:
        if isinstance(change, Replace) and not isinstance(change.new, str):
            found.append("=")
        else:
            found += [
                text for name in ("new", "name", "code") if (text := getattr(change, name, ""))
            ]
    return " ".join(found)


class Rule(Named):
    """Base of every rule on Python source, notebook cells included.

    A subclass declares its codes, says what it ``wants`` and defines the handlers for it:
    ``on_name(module, node, name)``, ``on_attribute``, ``on_call``, ``on_keyword``, ``on_string``, ``on_number``,
    ``on_definition(module, node)``, ``on_import(module, alias, name)``, and ``on_module(module)``, which is called last, once, where
    any of its words is in the file. Each returns an iterable of :class:`Found` and :class:`Claim` and may be a generator. An instance
    serves one file, so state between handlers lives on ``self``.

    One place gets one code: a finding inside another rule's claim is dropped unless it is stronger (:class:`Strength`). When the
    claims are settled, ``finish(module, said, found)`` may replace findings, and report what nobody has reported.
    """

    wants: ClassVar[Wants] = Wants()
    #: What the rule looks for as well in files that are read for another word, of its own or of another rule.
    also: ClassVar[Wants] = Wants()
    #: How firmly the rule reports, unless a finding says otherwise.
    strength: ClassVar[Strength] = Strength.USUAL
    #: The file that the instance serves.
    module: Module

    def finding(
        self,
        where: ast.AST | Span,
        message: str,
        *,
        fix: Rewrite | None = None,
        row: str | None = None,
        code: str | None = None,
        severity: Severity | None = None,
        safety: Safety | None = None,
        claims: Iterable[ast.AST] = (),
        node: ast.AST | None = None,
        strength: Strength | None = None,
        effort: Effort | None = None,
    ) -> Found:
        """A finding at ``where``; its safety is the fix's, its effort the code's, unless given. ``node`` is the one that a span is a part of."""
        module = self.module
        span = where if isinstance(where, Span) else module.span(where)
        if fix is not None and not fix.fits(module.target.style, vendor.is_named):
            fix, safety = None, "manual"
            if module.target.style == "agnostic":
                message = vendor.kept_message(message, " ".join(module.source(span).split()))
        if fix is not None and any(map(_is_misplaced, fix.changes)):
            fix, safety = None, "manual"
            message = f"{message}; here it gets another value, so change this by hand"
        about = node if isinstance(where, Span) else where
        if fix is not None and (hidden := _hidden(module, about, fix.changes)):
            fix, safety = None, "manual"
            message = (
                f"{message}; `{hidden}` is the name of something else here, so change this by hand"
            )
        if fix is not None and module.target.style == "agnostic":
            message = _neutrally(module, span, message, fix.changes)
        plain = Fix(fix.title, fix.safety, (), fix.group) if fix is not None else None
        new = _texts(fix.changes) if fix is not None else ""
        finding = self._finding(module, span, message, plain, row, code, severity, safety, new)
        if effort is not None:
            finding = msgspec.structs.replace(finding, effort=effort)
        changes = fix.changes if fix is not None else ()
        firm = self.strength if strength is None else strength
        return Found(finding, about, changes, tuple(claims), firm)

    def on_module(self, module: Module) -> Yield:
        """What can be said when everything else has been looked at."""
        return ()

    def finish(
        self, module: Module, said: Said, found: Sequence[Found]
    ) -> Iterable[Found | tuple[Found, Found]]:
        """Called when the claims are settled: further findings, and pairs of a finding and the one that takes its place."""
        return ()


class TextRule(Named):
    """Base of every rule on files that are not Python: YAML, JSON, TOML, shell, Dockerfile …

    A subclass declares its codes as a :class:`Rule` does, says which files it reads with ``kinds`` (and
    :meth:`files`, where not all of them) and defines ``check``. Spans are bytes of the document's text.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset()
    #: The rule sees a file only if one of these texts is in it.
    markers: ClassVar[tuple[str, ...]] = ()
    #: The file that the instance serves.
    document: Document

    @classmethod
    def files(cls, path: PurePath, kind: Kind) -> bool:
        """Does the rule read this file, which is of its kinds?"""
        return kind in cls.kinds

    def finding(
        self,
        span: Span,
        message: str,
        *,
        fix: Fix | None = None,
        row: str | None = None,
        code: str | None = None,
        severity: Severity | None = None,
        safety: Safety | None = None,
    ) -> Finding:
        """A finding at ``span``; its safety is the fix's unless given."""
        if self.document.target.style != "native":
            fix, safety = None, "manual"  # other devices read the file as well
        new = " ".join(edit.new for edit in fix.edits) if fix is not None else ""
        return self._finding(self.document, span, message, fix, row, code, severity, safety, new)

    def check(self, document: Document) -> Iterator[Finding]:
        """The findings in one file; build them with :meth:`finding`."""
        raise NotImplementedError

    def finish(self, document: Document, said: Said) -> Iterable[Finding]:
        """What no rule has reported; called when all have."""
        return ()


def _is_misplaced(change: Change) -> bool:
    """Does it put something in place of a name that gets a value, or is deleted, which can do neither?"""
    if not isinstance(change, (Replace, Rename)):
        return False
    new = change.new if isinstance(change, Replace) else f"{change.name}{change.tail}"
    if isinstance(new, str) and isinstance(getattr(change.node, "ctx", None), (ast.Store, ast.Del)):
        try:
            ast.parse(f"del {new}")
        except SyntaxError:
            return True
    return False


def _hidden(module: Module, about: ast.AST | None, changes: Iterable[Change]) -> str:
    """The package through which something would be written where its name has another value: ``def f(torch): …``."""
    node: ast.AST
    for change in changes:
        if isinstance(change, Rename):
            node, package = change.node, change.name.partition(".")[0]
        elif isinstance(change, Import) and about is not None and not (change.there or change.alias):  # fmt: skip
            node, package = about, change.module
        else:
            continue
        scope = module.scope(node)
        if scope.lookup(package) and package not in module.names.of_name(scope, package):
            return package
    return ""


def _neutrally(module: Module, span: Span, message: str, changes: Iterable[Change]) -> str:
    """A finding's message where the fix is a form for every device."""
    shown = " ".join(module.source(span).split())
    texts = (t for change in changes if not isinstance(change, Import) for t in written(change))
    return vendor.neutral_message(message, shown, next(texts, ""))


AnyRule = type[Rule] | type[TextRule]

#: What a rule is written with, beside changes and facts.
__all__ = ["AnyRule", "Claim", "Code", "Document", "Found", "Module", "Rule", "Strength", "TextRule", "Wants", "Yield"]  # fmt: skip
