"""The way of one file: read, parsed, looked at, rewritten and proved, each kind in its manner."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.edits import composed, overlap, splice
from hpushim.engine.base.kind import Kind
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.data.document import Document
from hpushim.engine.judge import (
    examine_document,
    examine_module,
    interesting,
    own_words,
    parse,
)
from hpushim.model import Edit, Finding, Span

if TYPE_CHECKING:
    from hpushim.engine.settle import Settled

#: The number of a line in a message.
_LINE = re.compile(r"(?<=\bline )\d+")


def examine(
    text: str, kind: Kind, path: str, context: Context, data: bytes | None = None
) -> tuple[Finding, ...]:
    """Every finding in one text, which is ``data`` in UTF-8. Raises :class:`~hpushim.engine.context.Unparsable`."""
    if kind == "python":
        return examine_module(parse(text, path, context), context).findings
    document = _document(text, kind, path, context, data)
    if kind != "notebook":
        return examine_document(document, context).findings
    cells = _Cells(document, context)
    found = examine_module(cells.module, context)
    return cells.joined(found.findings, examine_document(document, context).findings)


def settle(text: str, kind: Kind, path: str, context: Context) -> Settled:
    """One text with the allowed fixes made. Raises :class:`~hpushim.engine.context.Unparsable`."""
    from hpushim.engine.settle import settle_document, settle_module

    if kind == "python":
        return settle_module(parse(text, path, context), context)
    document = _document(text, kind, path, context)
    if kind != "notebook":
        return settle_document(document, context)
    return _Cells(document, context).settled()


def _document(
    text: str, kind: Kind, path: str, context: Context, data: bytes | None = None
) -> Document:
    """The document; raises :class:`~hpushim.engine.context.Unparsable` when it is not of its kind."""
    document = Document(text, path, kind, context.target, context.matrix, context.project, data)
    try:
        document.entries  # noqa: B018  (read now, for all rules)
    except ValueError as error:
        names = {"yaml": "YAML", "json": "JSON", "toml": "TOML"}
        message = f"not {names.get(kind, kind)}: {error}; not changed"
        raise Unparsable(diagnostic("HPU001", message)) from None
    return document


class _Cells:
    """A notebook: its cells are one Python text, its ``!`` lines are commands, and both are edited in one JSON."""

    def __init__(self, document: Document, context: Context) -> None:
        from hpushim.engine.data.notebook import Notebook

        self._document = document
        self._context = context
        try:
            self.notebook = Notebook(document.text, document.data)
        except (ValueError, RecursionError) as error:
            message = f"not a notebook: {error}; not changed"
            raise Unparsable(diagnostic("HPU001", message)) from None
        document.notebook = self.notebook
        # The outputs are no reason to read the code.
        python, own = self.notebook.python, own_words(context.matrix)
        python = python if interesting(python.encode(), "python", document.path, own) else ""
        try:
            self.module = parse(python, document.path, context)
        except Unparsable:
            self.notebook.check()
            self.module = parse(self.notebook.python, document.path, context)

    def settled(self) -> Settled:
        from hpushim.engine.data import notebook as notebooks
        from hpushim.engine.settle import Settled, settle_document, settle_module

        notebook, document, context = self.notebook, self._document, self._context
        python = settle_module(self.module, context, lambda edit: notebook.edit(edit) is not None)
        commands = settle_document(document, context)
        inside = composed(notebook.python.encode(), python.steps)
        moved = [notebook.edit(edit) for edit in inside]
        cells = [edit for edit in moved if edit is not None]
        lines = composed(document.data, commands.steps)
        findings = self.joined(python.findings, commands.findings)
        why = "a notebook cannot hold this edit" if len(cells) != len(inside) else None
        if any(overlap(edit, other) for edit in cells for other in lines):
            why = "two edits change the same place"
        edits = tuple(sorted((*cells, *lines), key=lambda edit: edit.span))
        if not edits:
            return Settled(document.text, findings)
        after = splice(document.data, edits).decode()
        why = why or notebooks.unproven(notebook, after)
        if why is not None:
            taken = tuple(msgspec.structs.replace(f, applied=False) for f in findings)
            told = diagnostic("HPU004", f"this notebook is not rewritten: {why}")
            return Settled(document.text, (*taken, told))
        steps: list[tuple[Edit, ...]] = [edits]
        if tidying := notebooks.tidy(notebook, after):
            steps.append(tuple(tidying))
            after = splice(after.encode(), tidying).decode()
        return Settled(after, findings, tuple(steps))

    def joined(
        self, python: tuple[Finding, ...], others: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """The findings of both kinds at their places in the notebook, with what is said of cells that do not parse."""
        found = [*self._broken(), *map(self._moved, python), *others]
        return tuple(sorted(found, key=lambda finding: (finding.span.start, finding.code)))

    def _broken(self) -> list[Finding]:
        document = self._document
        found: list[Finding] = []
        for cell in self.notebook.cells:
            if cell.error is not None and cell.pieces:
                place = cell.pieces[0].span
                message = f"cell {cell.number} is not Python ({cell.error}); not changed"
                start, end = document.position(place.start), document.position(place.end)
                found.append(diagnostic("HPU001", message, place, start, end))
        return found

    def _moved(self, finding: Finding) -> Finding:
        """A finding in the joined text as one in the notebook."""
        notebook, document = self.notebook, self._document
        if not notebook.cells:
            return finding
        span = notebook.span(finding.span)
        line, column = document.position(span.start)
        end_line, end_column = document.position(span.end)
        return msgspec.structs.replace(
            finding,
            span=span,
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
            message=f"{_LINE.sub(self._line, finding.message)} (cell {notebook.cell(finding.span.start).number})",
        )

    def _line(self, number: re.Match[str]) -> str:
        """The number of a line of the joined text as one of the notebook's own."""
        before = self.notebook.python.encode().split(b"\n")[: int(number[0]) - 1]
        start = sum(map(len, before)) + len(before)
        return str(self._document.position(self.notebook.span(Span(start, start)).start)[0])
