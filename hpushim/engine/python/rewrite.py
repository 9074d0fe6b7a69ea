"""Changes of nodes into edits of text: the one place where Python code is written.

The changes of one line, or of one header, are collected; libcst parses the line once, they are made from the inside
out, and the result is narrowed to the tokens that differ. What cannot be made raises :class:`NotRewritable`.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from hpushim.engine.python.build import Builder
from hpushim.engine.python.changes import Guard, Insert, Remove, Replace
from hpushim.engine.python.narrow import narrowed
from hpushim.engine.python.removal import Removal, is_elif, removal
from hpushim.engine.python.slots import Unplaced
from hpushim.engine.python.units import Unit, is_alone, is_compound, line_group, owner, unit
from hpushim.model import Edit, Span
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    import libcst as cst

    from hpushim.engine.python.module import Module


_LINE_END = re.compile(r"\r\n|\r|\n")
#: A name in place of lines between two statements of one line, and how it is found again with what parts it from them.
_LINES_OF = "__lines_between_%d__"
_SPACE = r"(?:[ \t\f]|\\\n)*"
_BETWEEN = re.compile(rf"{_SPACE};?{_SPACE}__lines_between_(\d+)__{_SPACE};?{_SPACE}")
#: Where libcst holds a unit that is alone in no statement.
_FIELDS: dict[type[ast.AST], str] = {ast.ExceptHandler: "handlers", ast.match_case: "cases"}


class NotRewritable(Exception):
    """The code is left as it is; the message says why in half a sentence."""


#: So many ``and`` in a row are one node of ast and as many levels in libcst, whose parser dies of some thousands.
_LONG_CHAIN = 500


class Count:
    """How many statements libcst has rewritten in this process, and the seconds that it took."""

    statements = 0
    removed = 0
    inserted = 0
    seconds = 0.0


def rewrite(
    module: Module, changes: Iterable[Replace | Remove | Insert | Guard]
) -> tuple[list[Edit], set[ast.AST]]:
    """The edits that make the changes, in text order, and the statements whose text they touch."""
    work = _Work(module)
    for change in changes:
        work.add(change)
    return work.edits(), work.touched


class _Work:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._builders: dict[ast.AST, Builder] = {}
        self._inserts: list[Insert] = []
        self._guards: list[Guard] = []
        self._removed: dict[ast.stmt, bool] = {}
        #: Lines that part the statements of one.
        self._between: list[str] = []
        self.touched: set[ast.AST] = set()

    def add(self, change: Replace | Remove | Insert | Guard) -> None:
        if isinstance(change, Insert):
            self._inserts.append(change)
            self._touch(change.anchor)
        elif isinstance(change, Guard):
            self._guards.append(change)
            self._touch(change.statement)
        elif isinstance(change, Remove) and isinstance(change.node, ast.stmt):
            self._removed[change.node] = change.branch
            self._touch(change.node)
        else:
            try:
                self._of_node(change)
            except Unplaced as error:
                raise NotRewritable(str(error)) from None

    def _of_node(self, change: Replace | Remove) -> None:
        statement = owner(self._module, change.node)
        self._touch(statement)
        builder = self._builders.get(statement)
        if builder is None:
            builder = self._builders[statement] = Builder(self._module, statement)
        if isinstance(change, Replace):
            builder.replace(change.node, change.new)
        else:
            builder.remove(change.node)

    def _touch(self, node: ast.AST) -> None:
        self.touched.add(node)
        self.touched.update(self._module.ancestors(node))

    # -- the edits --------------------------------------------------------------------------

    def edits(self) -> list[Edit]:
        module = self._module
        plan = removal(module, self._removed)
        for node in plan.gone:
            self._touch(node)
            self.touched.update(walk(node))
        self.touched.update(
            each.orelse[0] for each in plan.headless
        )  # the `elif`, which is an `if` now
        edits = list(plan.edits)
        Count.removed += len(plan.edits)
        gone = plan.gone
        shared = set(plan.shared)
        for statement in plan.passed:
            self._builders.pop(statement, None)
            self._builders[statement] = Builder(module, statement)
            self._builders[statement].replace(statement, _as_pass)
        beside: dict[ast.stmt, list[Insert]] = {}
        for insert in self._inserts:
            if self._lines_of_its_own(insert):
                edits.append(self._line(insert, plan))
            else:
                beside.setdefault(insert.anchor, []).append(insert)
        edits += map(self._guard, self._guards)
        done: set[ast.AST] = set()
        passed = set(plan.passed)
        for node in (*self._builders, *shared, *beside):
            if (
                node in done
                or node in plan.headless
                or (node in gone and node not in shared | passed)
            ):
                continue
            place = unit(module, node)
            done.update(place.nodes)
            edits += self._rewritten(place, shared, beside)
        edits.sort(key=lambda edit: edit.span)
        return edits

    def _rewritten(
        self, place: Unit, gone: set[ast.stmt], beside: dict[ast.stmt, list[Insert]]
    ) -> list[Edit]:
        start = time.perf_counter()
        module = self._module
        source = module.source(place.span)
        # Bare carriage returns, which libcst does not give back, are as long as what it does.
        bare = "\r" in source and "\n" not in source
        old = source.replace("\r", "\n") if bare else source
        frame, node = self._parsed(place, old)
        try:
            new = (
                self._header(place, node)
                if place.compound
                else self._line_of(place, node, gone, beside)
            )
            code = frame(new).code
        except NotRewritable:
            raise
        except Exception as error:  # a rule's function, or libcst, which validates what it is given
            raise NotRewritable(_why(error)) from None
        Count.statements += 1
        Count.seconds += time.perf_counter() - start
        if not code.startswith(place.lead) or not code.endswith(place.tail):
            raise NotRewritable("the change reaches beyond the statement")
        text = code[len(place.lead) : len(code) - len(place.tail)]
        text = _BETWEEN.sub(lambda found: self._between[int(found[1])], text)
        return [self._as_written(edit) for edit in narrowed(place.span.start, old, text)]

    def _as_written(self, edit: Edit) -> Edit:
        """The edit in the newlines of the file."""
        module = self._module
        return Edit(edit.span, module.source(edit.span), _LINE_END.sub(module.newline, edit.new))

    def _parsed(self, place: Unit, source: str) -> tuple[Any, Any]:
        """libcst's node for the unit, and what makes the whole text again from another one."""
        import libcst as cst

        text = f"{place.lead}{source}{place.tail}"
        if len(source) > _LONG_CHAIN and any(map(_long_chain, place.nodes)):
            raise NotRewritable("it is nested too deeply for libcst")
        try:
            tree = cst.parse_module(text, config=_config())
        except cst.ParserSyntaxError as error:
            raise NotRewritable(f"libcst does not parse it: {error.message}") from None
        except RecursionError:
            raise NotRewritable("it is nested too deeply for libcst") from None
        framed = place.lead.startswith("if 1:")
        holder: Any = tree.body[0]
        if framed:
            holder = holder.body.body[0]
        node: Any = holder
        field = _FIELDS.get(type(place.nodes[0]))
        if field is not None:
            node = getattr(holder, field)[0]
        if isinstance(place.nodes[0], ast.ExceptHandler):
            node = _with_gap_before_colon(node, tree.code, text)

        def whole(new: Any) -> Any:
            held = new if field is None else holder.with_changes(**{field: [new]})
            return _with_first(tree, framed, held)

        if whole(node).code != text:
            raise NotRewritable("libcst does not give it back as it is written")
        return whole, node

    def _header(self, place: Unit, node: Any) -> Any:
        return self._builders[place.nodes[0]].build(node)

    def _line_of(
        self, place: Unit, line: Any, gone: set[ast.stmt], beside: dict[ast.stmt, list[Insert]]
    ) -> Any:
        from hpushim.engine.python import sequences

        statements: list[Any] = list(line.body)
        for number, statement in enumerate(place.nodes):
            builder = self._builders.get(statement)
            if builder is not None:
                statements[number] = _kept_semicolon(
                    builder.build(statements[number]), statements[number]
                )
        line = line.with_changes(body=statements)
        #: Where each statement is once others are beside it.
        now = list(range(len(place.nodes)))
        for number in range(len(place.nodes) - 1, -1, -1):
            anchor = place.nodes[number]
            for insert in reversed(beside.get(anchor, []) if isinstance(anchor, ast.stmt) else []):
                line = _inserted(line, now[number], insert, self._in_a_line(insert))
                moved = number + 1 if insert.after else number
                now[moved:] = [at + 1 for at in now[moved:]]
        indices = [now[n] for n, statement in enumerate(place.nodes) if statement in gone]
        return sequences.without(line, "body", indices) if indices else line

    # -- lines of their own -----------------------------------------------------------------

    def _lines_of_its_own(self, insert: Insert) -> bool:
        anchor = insert.anchor
        if is_compound(anchor) or is_alone(self._module, anchor):
            return True
        group = line_group(self._module, anchor)
        outside = anchor is group[-1 if insert.after else 0] and self._module.begins_line(group[0])
        return outside and (insert.own_line or _several(insert.code))

    def _in_a_line(self, insert: Insert) -> str:
        """What is put between two statements of a line: the statement itself; for several lines a name that they replace."""
        if not _several(insert.code):
            return insert.code
        module = self._module
        if not module.begins_line(line_group(module, insert.anchor)[0]):
            raise NotRewritable("a compound statement cannot share a line")
        lines = ("", *self._indented(insert.code, insert.anchor), "")
        self._between.append(f"\n{module.indent(insert.anchor)}".join(lines))
        return _LINES_OF % (len(self._between) - 1)

    def _guard(self, guard: Guard) -> Edit:
        """The edit that puts a condition above a simple statement; lines that continue it need no indentation."""
        module = self._module
        if is_compound(guard.statement) or not is_alone(module, guard.statement):
            raise NotRewritable("a condition cannot be put before a part of a line")
        (head,) = _checked(f"if {guard.test}: ...")
        start = module.start(guard.statement)
        at = module.line_span(module.position(start)[0]).start
        indent = module.indent(guard.statement)
        deeper = module.deeper(guard.statement)
        line = f"{indent}{head.removesuffix(' ...')}{module.newline}{deeper}"
        return Edit(Span(at, at), "", line)

    def _line(self, insert: Insert, plan: Removal) -> Edit:
        """The edit that puts a line, or several, of its own before or behind a statement."""
        module = self._module
        Count.inserted += 1
        anchor = _outermost(module, insert.anchor, plan.gone)
        if is_elif(module, anchor):
            raise NotRewritable("no line can be put beside an `elif`")
        indent = module.indent(anchor)
        lines = f"{module.newline}{indent}".join(self._indented(insert.code, anchor))
        if not insert.after:
            number = module.position(module.start(anchor))[0]
            while insert.above_comments and _is_comment(module, number - 1, indent):
                number -= 1
            at = module.line_span(number).start
            for edit in plan.edits:
                if edit.span.start < at < edit.span.end:  # the anchor goes, with what is above it
                    at = edit.span.start
            return Edit(Span(at, at), "", f"{indent}{lines}{module.newline}")
        end = module.line_span(anchor.end_lineno or anchor.lineno)
        at = end.start + len(module.source(end).rstrip("\r\n").encode())
        for edit in plan.edits:
            if edit.span.start <= at < edit.span.end:  # the anchor goes: in its place
                at = edit.span.end
                return Edit(Span(at, at), "", f"{indent}{lines}{module.newline}")
        return Edit(Span(at, at), "", f"{module.newline}{indent}{lines}")

    def _indented(self, code: str, anchor: ast.stmt) -> list[str]:
        """The lines of new code, which is indented by four, as the file indents."""
        deeper = self._module.deeper(anchor)
        return [
            re.sub(r"^(?:    )+", lambda by: len(by[0]) // 4 * deeper, each)
            for each in _checked(code)
        ]


def _several(code: str) -> bool:
    return "\n" in code.strip("\n")


def _is_comment(module: Module, number: int, indent: str) -> bool:
    """Is it a line with nothing but a comment, as far to the right as the statement below?"""
    return number > 0 and module.source(module.line_span(number)).startswith(f"{indent}#")


def _why(error: Exception) -> str:
    """An error in one line; libcst's own cannot always be shown."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return f"{error.__class__.__name__}: {text}"[:200].rstrip(": ")


def _outermost(module: Module, statement: ast.stmt, gone: Collection[ast.AST]) -> ast.stmt:
    """The statement itself, or the outermost one around it that goes."""
    around = [above for above in module.ancestors(statement) if above in gone]
    outermost = around[-1] if around else statement
    assert isinstance(outermost, ast.stmt)
    return outermost


def _as_pass(node: Any) -> Any:
    import libcst as cst

    return cst.Pass(semicolon=node.semicolon)


def _kept_semicolon(new: Any, old: Any) -> Any:
    return new.with_changes(semicolon=old.semicolon)


def _inserted(line: Any, number: int, insert: Insert, code: str) -> Any:
    """A simple statement line with another statement beside its ``number``-th."""
    import libcst as cst

    parsed, *others = cst.parse_module(code, config=_config()).body
    if others or not isinstance(parsed, cst.SimpleStatementLine):
        raise NotRewritable("a compound statement cannot share a line")
    new = parsed.body[0]
    body = list(line.body)
    between = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    if insert.after:
        old = body[number]
        body[number : number + 1] = [
            old.with_changes(semicolon=between),
            new.with_changes(semicolon=old.semicolon),
        ]
    else:
        body.insert(number, new.with_changes(semicolon=between))
    return line.with_changes(body=body)


def _with_first(tree: cst.Module, framed: bool, new: Any) -> cst.Module:
    if not framed:
        return tree.with_changes(body=[new])
    frame: Any = tree.body[0]
    return tree.with_changes(body=[frame.with_changes(body=frame.body.with_changes(body=[new]))])


def _with_gap_before_colon(handler: Any, code: str, text: str) -> Any:
    """A handler as it is written: libcst 1.9 loses the blank in ``except Error :``."""
    import libcst as cst

    at = next(
        (at for at, (one, other) in enumerate(zip(code, text, strict=False)) if one != other),
        len(text),
    )
    gap = text[at : len(text) - len(text[at:].lstrip(" \t"))]
    return (
        handler.with_changes(whitespace_before_colon=cst.SimpleWhitespace(gap)) if gap else handler
    )


def _checked(code: str) -> list[str]:
    """The lines of new code, which libcst parses."""
    import libcst as cst

    text = cst.parse_module(code, config=_config()).code
    return text.removesuffix("\n").split("\n") if code.strip() else text.rstrip("\n").split("\n")


def _config() -> cst.PartialParserConfig:
    import libcst as cst

    return cst.PartialParserConfig(encoding="utf-8", default_newline="\n")


def _long_chain(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.BoolOp) and len(inner.values) > _LONG_CHAIN for inner in walk(node)
    )
