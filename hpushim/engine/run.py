"""The rules over one text: one dispatch table, one walk, findings in text order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from hpushim.engine.diagnostics import CODES, diagnostic
from hpushim.engine.document import Document, Kind
from hpushim.engine.markers import Markers
from hpushim.engine.rule import AnyRule, Rule, rules, text_rules
from hpushim.engine.suppress import suppress
from hpushim.engine.syntax import Module
from hpushim.engine.text import ALONE, Project, Text
from hpushim.model import Finding, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix


class Context(msgspec.Struct, frozen=True):
    """What is the same for every file of one run."""

    target: Target
    matrix: Matrix
    project: Project = ALONE
    #: Codes or prefixes; empty for all.
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool = False

    def selects(self, code: str) -> bool:
        """Is this code asked for? The engine's own findings always are, unless ignored."""
        if self.ignore and code.startswith(self.ignore):
            return False
        return not self.select or code in CODES or code.startswith(self.select)


class Examined(msgspec.Struct, frozen=True):
    """What was found in one text."""

    text: Text
    findings: tuple[Finding, ...]
    #: Groups that must not be applied: a member is suppressed or was not asked for.
    held: frozenset[str] = frozenset()


class Unparsable(Exception):
    """The text is not what its kind promises; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def wanted_kinds() -> frozenset[Kind]:
    """The kinds of file that some rule may read."""
    found: set[Kind] = set()
    for rule in text_rules():
        found |= rule.kinds
    if rules():
        found |= {"python", "notebook"}
    return frozenset(found)


def reading(kind: Kind, path: str) -> tuple[AnyRule, ...]:
    """The rules that read a file."""
    mine: list[AnyRule] = [r for r in text_rules() if r.files(PurePosixPath(path), kind)]
    if kind in ("python", "notebook"):
        mine += rules()
    return tuple(mine)


def interesting(data: bytes, kind: Kind, path: str, own: Sequence[bytes] = ()) -> bool:
    """Does the file hold a marker of a rule that reads it? If not, it is not even decoded.

    ``own`` are the markers of the project's own rows, see :func:`own_markers`.
    """
    held = Markers(data)
    if kind in ("python", "notebook") and any(marker in held for marker in (*_markers(), *own)):
        return True
    return _text_marker(held, kind, path)


def own_markers(matrix: Matrix) -> tuple[bytes, ...]:
    """The last words of the names that only the project's own rows know."""
    names = (name for row in matrix.rows if row.origin for name in row.names)
    return tuple(sorted({name.rpartition(".")[2].encode() for name in names}))


def _text_marker(held: Markers, kind: Kind, path: str) -> bool:
    return any(
        marker in held
        for rule in text_rules()
        if rule.files(PurePosixPath(path), kind)
        for marker in rule.markers
    )


@cache
def _markers() -> tuple[bytes, ...]:
    """The markers of the Python rules, without those that another one implies; short ones first."""
    every = sorted({m for rule in rules() for m in rule.markers}, key=lambda m: (len(m), m))
    kept: list[bytes] = []
    for marker in every:
        if not any(other in marker for other in kept):
            kept.append(marker)
    return tuple(kept)


def examine(
    text: str, kind: Kind, path: str, context: Context, module: Module | None = None
) -> Examined:
    """Every finding in one text, given its ``module`` where that is there already.

    Raises :class:`Unparsable`.
    """
    found: list[Finding] = []
    subject: Text
    if kind == "python":
        module = module or parse(text, path, context)
        found += of_python(module)
        subject = module
    else:
        subject = Document(text, path, kind, context.target, context.matrix, context.project)
        if kind == "notebook":
            from hpushim.engine import notebook

            found += notebook.findings(subject, context)
    if _text_marker(subject.markers, kind, path):
        document = (
            subject
            if isinstance(subject, Document)
            else Document(text, path, kind, context.target, context.matrix, context.project)
        )
        found += documents(document)
    return sifted(subject, found, kind, path, context)


def sifted(text: Text, found: list[Finding], kind: Kind, path: str, context: Context) -> Examined:
    """The findings in text order, without those suppressed or not asked for."""
    kept = [finding for finding in found if context.selects(finding.code)]
    held = {
        finding.fix.group
        for finding in found
        if finding.fix is not None and finding.fix.group and not context.selects(finding.code)
    }
    judged = {code for rule in reading(kind, path) for code in (rule.code, *rule.also)}
    kept, more = suppress(
        text,
        kept,
        {code for code in judged if context.selects(code)},
        python=kind == "python",
    )
    kept = [finding for finding in kept if context.selects(finding.code)]
    kept.sort(key=lambda finding: (finding.span.start, finding.code, finding.span.end))
    if context.matrix.own:
        kept = [_sourced(finding, context.matrix.own) for finding in kept]
    return Examined(text, tuple(kept), frozenset(held | more))


def _sourced(finding: Finding, own: dict[str, str]) -> Finding:
    """A finding on a row of the project says which file the row is in."""
    if finding.row not in own:
        return finding
    message = f"{finding.message} (row of {PurePosixPath(own[finding.row]).name})"
    return msgspec.structs.replace(finding, message=message)


def parse(text: str, path: str, context: Context) -> Module:
    """The module; raises :class:`Unparsable` with an HPU001 finding."""
    try:
        return Module(text, path, context.target, context.matrix, context.project)
    except SyntaxError as error:
        line = max(error.lineno or 1, 1)
        why = f"{error.msg} (line {line})"
        place = (line, max(error.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        why, place = f"{error.__class__.__name__}: {error}", (1, 1)
    message = f"not Python {_running()}: {why}; left as it is"
    raise Unparsable(diagnostic("HPU001", message, start=place)) from None


def _running() -> str:
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}"


def of_python(module: Module) -> list[Finding]:
    """The findings of all Python rules in one module."""
    return walk(module, rules())


def walk(module: Module, candidates: Iterable[type[Rule]]) -> list[Finding]:
    """The findings of the Python rules in one module.

    A rule that raises loses what it found in this file, and that is said; the others go on.
    """
    found: dict[Rule, list[Finding]] = {}
    table: dict[type[ast.AST], list[tuple[Rule, _Bound, list[Finding]]]] = {}
    failed: dict[Rule, Finding] = {}
    held = module.markers
    for kind in candidates:
        if kind.markers and not any(marker in held for marker in kind.markers):
            continue
        if not kind.applies(module):
            continue
        rule = kind()
        mine = found[rule] = []
        for node_type, name in _handlers(kind):
            table.setdefault(node_type, []).append((rule, getattr(rule, name), mine))

    def lose(rule: Rule, error: Exception, node: ast.AST | None) -> None:
        failed.setdefault(rule, _raised(module, rule, error, node))
        for node_type, handlers in table.items():
            table[node_type] = [item for item in handlers if item[0] is not rule]

    dispatch = table.get
    for node in module.nodes:
        handlers = dispatch(node.__class__)
        if handlers is not None:
            for rule, handler, mine in handlers:
                try:
                    mine += handler(module, node)
                except Exception as error:
                    lose(rule, error, node)
    for rule, mine in found.items():
        final: _Bound | None = getattr(rule, "on_module", None)
        if final is not None and rule not in failed:
            try:
                mine += final(module)
            except Exception as error:
                lose(rule, error, None)
    module.notes.clear()  # what rules kept there points back here: a circle
    return [
        *(finding for rule, mine in found.items() if rule not in failed for finding in mine),
        *failed.values(),
    ]


_Bound = Callable[..., Iterator[Finding]]


_HANDLERS: dict[type[Rule], tuple[tuple[type[ast.AST], str], ...]] = {}


def _handlers(rule: type[Rule]) -> tuple[tuple[type[ast.AST], str], ...]:
    if rule in _HANDLERS:
        return _HANDLERS[rule]
    found: list[tuple[type[ast.AST], str]] = []
    for name in dir(rule):
        node_type = getattr(ast, name[3:], None) if name.startswith("on_") else None
        if isinstance(node_type, type) and issubclass(node_type, ast.AST):
            found.append((node_type, name))
    return _HANDLERS.setdefault(rule, tuple(found))


def _raised(text: Text, rule: Any, error: Exception, node: ast.AST | None = None) -> Finding:
    line = getattr(node, "lineno", 1)
    message = (
        f"rule {rule.code} ({rule.name}) failed here with {error.__class__.__name__}: {error}; "
        "what it would have found in this file is missing; please report it"
    )
    return diagnostic("HPU004", message, start=(line, 1))


def documents(document: Document) -> list[Finding]:
    """The findings of the text rules in one document."""
    found: list[Finding] = []
    for kind in text_rules():
        if not kind.files(PurePosixPath(document.path), document.kind):
            continue
        if kind.markers and not any(marker in document.markers for marker in kind.markers):
            continue
        rule = kind()
        try:
            found += list(rule.check(document))
        except Exception as error:
            found.append(_raised(document, rule, error))
    return found
