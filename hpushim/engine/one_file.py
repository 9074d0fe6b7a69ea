"""The way of one file: read, parsed, looked at, rewritten and proved, each kind in its manner."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.assess import (
    examine_document,
    examine_module,
    interesting,
    own_words,
    parse,
)
from hpushim.engine.base.diagnostics import diagnostic
from hpushim.engine.base.edits import composed, overlap, splice
from hpushim.engine.base.kind import Kind
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.data.document import Document
from hpushim.model import Edit, Finding, Span

if TYPE_CHECKING:
    from hpushim.engine.data.notebook import Notebook
    from hpushim.engine.python.module import Module
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
    return _Cells(document, context).examined()


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
        self._own = own_words(context.matrix)
        #: The notebook's own code, and each Python file that one of its cells writes: modules by themselves.
        self._parts = [(part, self._parsed(part)) for part in (self.notebook, *self.notebook.written())]  # fmt: skip

    def _parsed(self, part: Notebook) -> Module:
        path, context = self._document.path, self._context
        wanted = interesting(part.python.encode(), "python", path, self._own)
        try:
            return parse(part.python if wanted else "", path, context)
        except Unparsable:
            part.check()
            return parse(part.python, path, context)

    def examined(self) -> tuple[Finding, ...]:
        document, context = self._document, self._context
        found = [(part, examine_module(module, context).findings) for part, module in self._parts]
        return self._joined(found, examine_document(document, context).findings)

    def settled(self) -> Settled:
        from hpushim.engine.data import notebook as notebooks
        from hpushim.engine.settle import Settled, settle_document, settle_module

        notebook, document, context = self.notebook, self._document, self._context
        moved: list[Edit | None] = []
        said: list[tuple[Notebook, tuple[Finding, ...]]] = []
        for part, module in self._parts:
            python = settle_module(module, context, partial(_holds, part))
            moved += map(part.edit, composed(part.python.encode(), python.steps))
            said.append((part, python.findings))
        commands = settle_document(document, context)
        cells = [edit for edit in moved if edit is not None]
        lines = composed(document.data, commands.steps)
        findings = self._joined(said, commands.findings)
        why = "a notebook cannot hold this edit" if len(cells) != len(moved) else None
        if any(overlap(edit, other) for edit in cells for other in lines):
            why = "two edits change the same place"
        edits = tuple(sorted((*cells, *lines), key=lambda edit: edit.span))
        if not edits:
            return Settled(document.text, findings)
        after = splice(document.data, edits).decode()
        why = why or notebooks.unproven(notebook, after)
        if why is not None:
            taken = tuple(msgspec.structs.replace(f, applied=False) for f in findings)
            refusal = diagnostic("HPU004", f"this notebook is not rewritten: {why}")
            return Settled(document.text, (*taken, refusal))
        steps: list[tuple[Edit, ...]] = [edits]
        if tidying := notebooks.tidy(notebook, after):
            steps.append(tuple(tidying))
            after = splice(after.encode(), tidying).decode()
        return Settled(after, findings, tuple(steps))

    def _joined(
        self, python: list[tuple[Notebook, tuple[Finding, ...]]], others: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """The findings of both kinds at their places in the notebook, with what is said of cells that do not parse."""
        found = [self._moved(part, each) for part, findings in python for each in findings]
        found += [*self._broken(), *others]
        return tuple(sorted(found, key=lambda finding: (finding.span.start, finding.code)))

    def _broken(self) -> list[Finding]:
        document = self._document
        found: list[Finding] = []
        for cell in (cell for part, _ in self._parts for cell in part.cells):
            if cell.error is not None and cell.pieces:
                place = cell.pieces[0].span
                message = f"cell {cell.number} is not Python ({cell.error}); not changed"
                start, end = document.position(place.start), document.position(place.end)
                found.append(diagnostic("HPU001", message, place, start, end))
        return found

    def _moved(self, notebook: Notebook, finding: Finding) -> Finding:
        """A finding in the joined text as one in the notebook."""
        document = self._document
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
            message=f"{_LINE.sub(partial(self._line, notebook), finding.message)} (cell {notebook.cell(finding.span.start).number})",
        )

    def _line(self, notebook: Notebook, number: re.Match[str]) -> str:
        """The number of a line of the joined text as one of the notebook's own."""
        before = notebook.python.encode().split(b"\n")[: int(number[0]) - 1]
        start = sum(map(len, before)) + len(before)
        return str(self._document.position(notebook.span(Span(start, start)).start)[0])


def _holds(part: Notebook, edit: Edit) -> bool:
    return part.edit(edit) is not None
