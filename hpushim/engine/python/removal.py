"""Which lines go when statements go: with them what was there for them alone, and no block is left empty.

An ``if`` without ``else`` whose body goes, and whose test only looks, goes too; so do a ``try`` whose body goes, and an ``else``
that is left empty. So does the branch of an ``if`` or ``elif`` where no branch behind it can be taken in its place. A comment that mentions a statement and of nothing that stays goes with it, and of two blank lines that come
together one goes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpushim.engine.python.units import is_compound, line_group
from hpushim.model import Edit, Span
from hpushim.patterns import lazily
from hpushim.pycode.places import TRIES
from hpushim.pycode.walk import starts_at, walk

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Calls that only look.
_QUESTIONS = frozenset(["is_available", "device_count", "is_initialized", "get_device_capability", "isinstance", "hasattr", "str", "len", "startswith", "range", "no_grad", "inference_mode", "device", "signature"])  # fmt: skip


@dataclass(slots=True)
class Removal:
    """What becomes of statements that go."""

    edits: list[Edit] = field(default_factory=list)
    #: They leave ``pass`` behind, or share a line with others: libcst takes them out.
    passed: list[ast.stmt] = field(default_factory=list)
    shared: list[ast.stmt] = field(default_factory=list)
    #: All that go, the ``if``s around them included.
    gone: set[ast.AST] = field(default_factory=set)
    #: Those whose test and body go, so that the ``elif`` behind is the ``if`` now.
    headless: set[ast.If] = field(default_factory=set)


def removal(module: Module, statements: Mapping[ast.stmt, bool]) -> Removal:
    """What to do to remove ``statements``; where their value is True, with the branches that they leave empty."""
    gone: set[ast.AST] = set(statements)
    _with_guards(module, gone)
    result = Removal(gone=gone)
    lines = _Lines(module, gone)
    for statement in sorted(gone, key=starts_at):
        if not isinstance(statement, ast.stmt) or _inside(module, statement, gone):
            continue
        block = module.block(statement)
        if is_elif(module, statement):
            result.edits.append(_taken(module, lines.reach(statement)))
            continue
        if all(other in gone for other in block) and not isinstance(
            module.parent(statement), ast.Module
        ):
            clause = lines.clause(statement, block, whole=any(map(statements.get, block)))
            parent = module.parent(statement)
            head = module.parent(parent) if parent is not None else None
            if clause is not None and head not in result.headless:
                if statement is block[0]:
                    result.edits.append(_taken(module, clause))
                if isinstance(parent, ast.If) and block is parent.body:
                    result.headless.add(parent)
                continue
            if statement is block[-1]:
                if is_compound(statement):
                    span = Span(module.start(statement), module.span(statement).end)
                    result.edits.append(Edit(span, module.source(span), "pass"))
                else:
                    result.passed.append(statement)
                continue
        if lines.alone(statement):
            result.edits.append(_taken(module, lines.reach(statement)))
        elif all(other in gone for other in line_group(module, statement)) and lines.alone_as_group(
            statement
        ):
            if statement is line_group(module, statement)[0]:
                result.edits.append(_taken(module, lines.group_reach(statement)))
        else:
            result.shared.append(statement)
    return result


def is_elif(module: Module, statement: ast.AST) -> bool:
    start = module.start(statement)
    return isinstance(statement, ast.If) and module.data[start : start + 4] == b"elif"


def _taken(module: Module, span: Span) -> Edit:
    return Edit(span, module.source(span), "")


def _inside(module: Module, statement: ast.AST, gone: set[ast.AST]) -> bool:
    return any(above in gone for above in module.ancestors(statement))


def _with_guards(module: Module, gone: set[ast.AST]) -> None:
    """Adds every ``if`` that would be left with nothing to do."""
    waiting = list(gone)
    while waiting:
        parent = module.parent(waiting.pop())
        if parent is None or parent in gone:
            continue
        branches = _branches(parent)
        if branches and all(other in gone or isinstance(other, ast.Pass) for other in branches):  # fmt: skip
            gone.add(parent)
            waiting.append(parent)


def _branches(statement: ast.AST) -> list[ast.stmt]:
    """The statements without which a statement has nothing to do; none where it does something by itself.

    Of an ``if`` or ``with`` that only looks, those of its ``else`` as well: an ``elif`` is one. Of a ``try``, all but those of its
    handlers, which catch nothing then.
    """
    if isinstance(statement, TRIES):
        return [*statement.body, *statement.orelse, *statement.finalbody]
    match statement:
        case ast.If() if only_looks(statement.test):
            return [*statement.body, *statement.orelse]
        case ast.For(iter=ast.Call(func=ast.Name(id="range"))) if only_looks(statement.iter):
            return [*statement.body, *statement.orelse]
        case ast.With() if all(isinstance(i.context_expr, ast.Call) and only_looks(i.context_expr) and i.optional_vars is None for i in statement.items):  # fmt: skip
            return statement.body
    return []


def only_looks(test: ast.expr) -> bool:
    """Does the test compute nothing that somebody could miss?"""
    for part in walk(test):
        if isinstance(part, ast.Call):
            called = getattr(part.func, "attr", getattr(part.func, "id", ""))
            if called not in _QUESTIONS:
                return False
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True


class _Lines:
    """The lines of a text in which some statements go."""

    def __init__(self, module: Module, gone: set[ast.AST]) -> None:
        self._module = module
        statements = [each for each in gone if isinstance(each, ast.stmt)]
        ends = {each: each.end_lineno or each.lineno for each in statements}
        self._numbers = {n for each in statements for n in range(_top(module, each), ends[each] + 1)}  # fmt: skip
        self._numbers |= {_first_line(module, each, self._last(ends[each])) for each in statements}

    # -- whole lines ------------------------------------------------------------------------

    def alone(self, statement: ast.stmt) -> bool:
        """Does nothing but white space and a comment share the lines of ``statement``?"""
        return self._alone(statement, statement)

    def alone_as_group(self, statement: ast.stmt) -> bool:
        group = line_group(self._module, statement)
        return self._alone(group[0], group[-1])

    def _alone(self, first: ast.stmt, last: ast.stmt) -> bool:
        module = self._module
        start = module.start(first)
        before = module.source(Span(module.line_span(module.position(start)[0]).start, start))
        end = module.span(last).end
        after = module.source(Span(end, module.line_span(last.end_lineno or last.lineno).end))
        rest = after.lstrip(" \t\f;")
        return not before.strip() and (not rest or rest[0] in "#\r\n")

    def reach(self, statement: ast.stmt) -> Span:
        """The lines of a statement with the comment above that goes with it and the blank lines below that would be double."""
        return self._reach(statement, statement)

    def group_reach(self, statement: ast.stmt) -> Span:
        group = line_group(self._module, statement)
        return self._reach(group[0], group[-1])

    def _reach(self, first: ast.stmt, last: ast.stmt) -> Span:
        module = self._module
        if is_elif(module, first):
            end = last.end_lineno or last.lineno
            return Span(module.line_span(first.lineno).start, module.line_span(end).end)
        end = last.end_lineno or last.lineno
        start = _first_line(module, first, self._last(end))
        end += self._doubled(first, end)
        start = min(start, _first_line(module, first, self._last(end)))
        return Span(module.line_span(start).start, module.line_span(end).end)

    def clause(self, statement: ast.stmt, block: Sequence[ast.stmt], *, whole: bool) -> Span | None:
        """The lines of an ``else``, an ``elif`` with others behind, or a ``finally`` behind handlers, that is left empty.

        None where the block has to stay.
        """
        module = self._module
        parent = module.parent(statement)
        if isinstance(parent, ast.If) and block is parent.body:
            if not (whole and parent.orelse) and not (only_looks(parent.test) and _is_apart(module, parent)):  # fmt: skip
                return None
            if not is_elif(module, parent) and not is_elif(module, parent.orelse[0]):
                return None
            if not is_elif(module, parent):
                return Span(module.start(parent), module.start(parent.orelse[0]) + len("el"))
            end = block[-1].end_lineno or block[-1].lineno
            return Span(module.line_span(parent.lineno).start, module.line_span(end).end)
        if getattr(parent, "orelse", None) is block:
            word = "else"
        elif isinstance(parent, TRIES) and block is parent.finalbody and parent.handlers:
            word = "finally"
        else:
            return None
        above = _end_above(parent, block)
        for line in range(above + 1, block[0].lineno + 1):
            span = module.line_span(line)
            if re.match(rf"[ \t]*{word}[ \t]*:", module.source(span)):
                end = block[-1].end_lineno or block[-1].lineno
                return Span(span.start, module.line_span(end).end)
        return None

    def _last(self, line: int) -> int:
        """The last of the lines that go together with ``line`` and directly below it."""
        while line + 1 in self._numbers:
            line += 1
        return line

    def _doubled(self, statement: ast.stmt, end: int) -> int:
        """How many of the blank lines behind ``statement`` there would be twice once it is gone."""
        start = _top(self._module, statement) - 1
        while start in self._numbers:
            start -= 1
        above = below = 0
        while self._blank(start - above):
            above += 1
        opens = not above and (start <= 0 or self._opens_block(statement, start))
        while (below < above or opens) and self._blank(end + below + 1):
            below += 1
        return below

    def _opens_block(self, statement: ast.stmt, line: int) -> bool:
        """Would a blank line behind ``statement`` come right under the ``def``, ``for`` or ``if`` around it?

        ``line`` is the last line above that stays.
        """
        module = self._module
        text = module.source(module.line_span(line)) if line > 0 else ""
        inside = not isinstance(module.parent(statement), ast.Module)
        return inside and text.split("#")[0].rstrip().endswith(":")

    def _blank(self, line: int) -> bool:
        module = self._module
        if not 0 < line <= len(module.line_starts):
            return False
        span = module.line_span(line)
        return span.start < span.end and not module.source(span).strip()


def _is_apart(module: Module, statement: ast.If) -> bool:
    """Is there an ``elif`` behind, and is no branch behind taken where this one is: do all compare the same with something else?"""
    compared, behind = _compared(statement.test), statement.orelse
    line, end = statement.body[-1].end_lineno or 0, getattr(behind[0], "lineno", 0) if behind else 0
    if (
        compared is None
        or not behind
        or any(_line(module, n).strip() for n in range(line + 1, end))
    ):
        return False  # a comment on the branch behind stays with it
    while behind:
        other = _compared(behind[0].test) if isinstance(behind[0], ast.If) and is_elif(module, behind[0]) else None  # fmt: skip
        if other is None or other[0] != compared[0] or other[1] == compared[1]:
            return False
        behind = behind[0].orelse  # type: ignore[attr-defined]
    return True


def _compared(test: ast.expr) -> tuple[str, object] | None:
    """What ``kind == "a"`` compares, and with what."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and isinstance(test.comparators[-1], ast.Constant):  # fmt: skip
        return (ast.dump(test.left), test.comparators[0].value) if len(test.ops) == 1 else None  # type: ignore[attr-defined]
    return None


def _end_above(parent: Any, block: Sequence[ast.stmt]) -> int:
    """The last line of what is before a clause of ``parent``."""
    end = parent.body[-1].end_lineno
    if isinstance(parent, TRIES):
        if parent.handlers:
            end = parent.handlers[-1].end_lineno
        if block is parent.finalbody and parent.orelse:
            end = parent.orelse[-1].end_lineno
    return int(end or parent.lineno)


# -- comments -------------------------------------------------------------------------------

_COMMENT = lazily(r"[ \t\f]*#(?P<text>.*)")
#: Read by tools, or left for somebody.
_KEPT = lazily(
    r"\s*(type:|noqa|fmt:|isort:|pylint|mypy|ruff|pragma|hpushim|region|endregion|%%|todo|fixme|xxx|note|hack|!|In\[\d*\]:|[-=#*]{3}|[\w-]+:[ \t]*(noqa|disable|enable|ignore|skip|on|off)\b)",
    re.IGNORECASE,
)
#: What an editor reads of the next line alone.
_FOR_ONE_LINE = lazily(r"\s*noinspection\b")
_WORD = lazily(r"[A-Za-z][a-z]+|[A-Z]{2,}|[a-z]{2}\d+")
_SHORTEST = 4
#: Said of any code: no sign that the comment mentions this statement.
_PLAIN = frozenset(["torch", "self", "args", "true", "false", "none", "with", "model", "loss", "optimizer", "step", "data", "train"])  # fmt: skip


def _first_line(module: Module, statement: ast.stmt, last: int) -> int:
    """The line at which to start taking ``statement`` out: its own, or that of the one comment line above it.

    ``last`` is the last line that goes. A comment stays unless it is alone over the statement, and either nothing is left under
    it or it uses the words of the statement and none of the one that would come next.
    """
    line = _top(module, statement)
    text = _comment(module, line - 1)
    if text is None or _comment(module, line - 2) is not None or _KEPT.match(text):
        return line
    if _FOR_ONE_LINE.match(text):
        return line - 1
    following = _line(module, last + 1)
    if _is_further_out(following, _line(module, line)):
        return line - 1  # nothing is left under it
    spoken = _words(text)
    if not following.strip() and statement is not module.tree.body[0]:
        # The first comment of a file is about the file; another one may be about what comes after the gap.
        below = next((text for n in range(last + 2, len(module.line_starts) + 1) if (text := _line(module, n)).strip()), "")  # fmt: skip
        return line if spoken & _words(below) else line - 1
    if not spoken & _words(module.source(statement)):
        return line
    if following.strip() and _comment(module, last + 1) is None and spoken & _words(following):
        return line
    return line - 1


def _is_further_out(line: str, other: str) -> bool:
    """Is a line less indented than another?"""
    return len(line) - len(line.lstrip(" \t")) < len(other) - len(other.lstrip(" \t"))


def _top(module: Module, statement: ast.stmt) -> int:
    """The line at which a statement starts, its decorators included."""
    return module.position(module.start(statement))[0]


def _comment(module: Module, line: int) -> str | None:
    found = _COMMENT.fullmatch(_line(module, line))
    return found["text"] if found else None


def _line(module: Module, line: int) -> str:
    if not 0 < line <= len(module.line_starts):
        return ""
    return module.source(module.line_span(line)).rstrip("\r\n")


def _words(text: str) -> set[str]:
    """The words of a text and the parts of its names, without their endings: ``Loader`` loads."""
    found = {word.lower() for word in _WORD.findall(text)}
    stems = {re.sub(r"(ings?|ers?|ed|es|e|s)$", "", word) for word in found - _PLAIN}
    return {stem for stem in stems if len(stem) >= _SHORTEST}
