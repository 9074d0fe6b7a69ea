"""What a rule is.

A rule lives in ``codemods/<room>/<stem>.py`` with its page ``codemods/<room>/<stem>.md``. It says by word what it wants to
see, is called with it and yields findings, which may carry a rewrite. It never touches text, and nothing imports it by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.python.changes import Change, Rewrite
from hpushim.engine.rules.told import Told
from hpushim.engine.rules.wants import Wants
from hpushim.model import Effect, Effort, Finding, Fix, Safety, Severity, Span

if TYPE_CHECKING:
    from hpushim.engine.base.kind import Kind
    from hpushim.engine.base.text import Text
    from hpushim.engine.data.document import Document
    from hpushim.engine.python.module import Module


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A finding in Python code with the changes that its fix makes.

    ``covers`` are nodes that the finding is about as a whole: other rules' findings inside them are not told.
    """

    finding: Finding
    node: ast.AST | None
    changes: tuple[Change, ...] = ()
    covers: tuple[ast.AST, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A node that stays as it is on purpose: other rules' findings inside it are not told.

    Those inside ``but`` are, and their fixes are unsafe: whether they are wanted there is for a person to say. Of code that ``never`` runs
    nothing is told at all.
    """

    node: ast.AST
    but: frozenset[ast.AST] = frozenset()
    never: bool = False


Yield = Iterable[Found | Kept]


@dataclass(frozen=True, slots=True)
class Costs:
    """What the codes of a rule mean for a person and for a run; a code that is not here takes minutes.

    ``hours``: code has to be thought about; ``none``: Gaudi has nothing of the kind. ``numbers``, ``speed``, ``cpu`` and ``kernels``
    say what the place does to a run: other numbers, less speed, work that stays on the CPU, a kernel written for CUDA.
    """

    hours: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()

    def effort(self, code: str) -> Effort:
        """What a person spends on one place where no rewrite does it."""
        return "none" if code in self.none else "hours" if code in self.hours else "minutes"

    def effect(self, code: str) -> Effect | None:
        """What the place does to a run, beyond stopping it."""
        if code in self.kernels:
            return "kernel"
        if code in self.cpu:
            return "cpu"
        if code in self.numbers:
            return "numbers"
        return "speed" if code in self.speed else None


class Named:
    """What every rule says about itself."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = "warning"
    safety: ClassVar[Safety] = "safe"
    #: Further codes that the rule may give, with their names (``{"HPU103": "cuda-call-unproven"}``).
    also: ClassVar[dict[str, str]] = {}
    #: What its codes ask of a person, and what they do to a run.
    costs: ClassVar[Costs] = Costs()

    @classmethod
    def codes(cls) -> tuple[str, ...]:
        return (cls.code, *cls.also)

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
    ) -> Finding:
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
            effort=self.costs.effort(code),
            effect=self.costs.effect(code),
        )


class Rule(Named):
    """Base of every rule on Python source, notebook cells included.

    A subclass names itself with the class attributes, says what it ``wants`` and defines the handlers for it:
    ``on_name(module, node, name)``, ``on_attribute``, ``on_call``, ``on_keyword``, ``on_string``, ``on_number``,
    ``on_definition(module, node)``, ``on_import(module, alias, name)``, and ``on_module(module)``, which is called last, once, where
    any of its words is in the file. Each returns an iterable of :class:`Found` and :class:`Kept` and may be a generator. An instance
    serves one file, so state between handlers lives on ``self``.
    """

    wants: ClassVar[Wants] = Wants()
    #: The findings are told also where another rule covers the node; they change nothing in a file that is covered as a whole.
    uncovered: ClassVar[bool] = False

    def finding(
        self,
        module: Module,
        where: ast.AST | Span,
        message: str,
        *,
        fix: Rewrite | None = None,
        row: str | None = None,
        code: str | None = None,
        severity: Severity | None = None,
        safety: Safety | None = None,
        covers: Iterable[ast.AST] = (),
        node: ast.AST | None = None,
    ) -> Found:
        """A finding at ``where``; its safety is the fix's unless given. ``node`` is the one that a span is a part of.

        A span without one is told wherever it stands, as if no other rule covered it.
        """
        span = where if isinstance(where, Span) else module.span(where)
        plain = Fix(fix.title, fix.safety, (), fix.group) if fix is not None else None
        finding = self._finding(module, span, message, plain, row, code, severity, safety)
        about = node if isinstance(where, Span) else where
        return Found(finding, about, fix.changes if fix is not None else (), tuple(covers))

    def on_module(self, module: Module) -> Yield:
        """What can be said when everything else has been looked at."""
        return ()

    def review(self, module: Module, found: Sequence[Found]) -> Mapping[Found, Found]:
        """What becomes of the findings of all rules, where one of them depends on others: the old one and the new."""
        return {}

    def on_rest(self, module: Module, told: Told) -> Iterable[Found]:
        """What is said of places of which no rule has said anything; called when all findings are known."""
        return ()


class TextRule(Named):
    """Base of every rule on files that are not Python: YAML, JSON, TOML, shell, Dockerfile …

    A subclass names itself as a :class:`Rule` does, says which files it reads with ``kinds`` (or
    :meth:`files`, for more than that) and defines ``check``. Spans are bytes of the document's text.
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset()
    #: The rule sees a file only if one of these texts is in it.
    markers: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def files(cls, path: PurePath, kind: Kind) -> bool:
        """Does the rule read this file?"""
        return kind in cls.kinds

    def finding(
        self,
        document: Document,
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
        return self._finding(document, span, message, fix, row, code, severity, safety)

    def check(self, document: Document) -> Iterator[Finding]:
        """The findings in one file; build them with :meth:`finding`."""
        raise NotImplementedError

    def rest(self, document: Document, told: Told) -> Iterable[Finding]:
        """What is said of places of which no rule has said anything; called when all findings are known."""
        return ()


AnyRule = type[Rule] | type[TextRule]
