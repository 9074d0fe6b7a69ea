"""What of a project the runs went through: the rewrites and findings whose lines ran, those that did not, files never opened."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

from hpushim.model import FileResult, Finding, Report, Span

_CODE = (".py", ".ipynb")


class Place(msgspec.Struct, frozen=True):
    """A finding: a rewrite where it was ``applied``."""

    file: str
    line: int
    code: str
    name: str
    applied: bool
    message: str = ""


class Coverage(msgspec.Struct):
    """Rewrites and findings, divided by whether the runs came past."""

    rewrites_run: list[Place] = msgspec.field(default_factory=list)
    rewrites_not_run: list[Place] = msgspec.field(default_factory=list)
    findings_run: list[Place] = msgspec.field(default_factory=list)
    findings_not_run: list[Place] = msgspec.field(default_factory=list)
    files_not_loaded: list[str] = msgspec.field(default_factory=list)

    @property
    def share(self) -> float | None:
        """The share of rewrites that ran; None where there is no rewrite."""
        run, idle = len(self.rewrites_run), len(self.rewrites_not_run)
        return run / (run + idle) if run + idle else None


class Wanted(msgspec.Struct):
    """The lines to look at, and what each is about."""

    lines: dict[str, list[int]]
    places: list[tuple[Place, str, frozenset[int]]]  # with the file that runs, and its lines


def wanted(report: Report) -> Wanted:
    """The lines of every finding of a report, in the files as they were before it."""
    lines: dict[str, set[int]] = {}
    places: list[tuple[Place, str, frozenset[int]]] = []
    for file in report.files:
        text = _text(file)
        for finding in file.findings:
            if finding.severity == "note" and not finding.applied:
                continue
            if is_of_the_tool(finding):
                continue
            place = Place(
                file.path,
                finding.line,
                finding.code,
                finding.name,
                finding.applied,
                finding.message,
            )
            own = (
                frozenset[int]()
                if text is None
                else statement_lines(text.line(finding.line), text.spans)
            )
            where = file.path if text is None else text.path
            places.append((place, where, own))
            lines.setdefault(where, set()).update(own)
    return Wanted({name: sorted(found) for name, found in lines.items() if found}, places)


def is_of_the_tool(finding: Finding) -> bool:
    """Whether a finding is about hpushim's own work and not about the code."""
    return finding.code < "HPU010"


def cells_name(notebook: str) -> str:
    """The script that the cells of a notebook are run as."""
    return f"{notebook.removesuffix('.ipynb')}_cells.py"


class _Text(msgspec.Struct):
    """A file as Python runs it: a notebook is the script made of its cells."""

    path: str
    spans: list[tuple[int, int]]
    moved: dict[int, int]  # lines of a notebook to lines of that script

    def line(self, line: int) -> int:
        return self.moved.get(line, line) if self.path.endswith("_cells.py") else line


def _text(file: FileResult) -> _Text | None:
    """None for a file that Python does not run."""
    if file.path.endswith(".py"):
        return _Text(file.path, statements(file.before or b""), {})
    if not file.path.endswith(".ipynb"):
        return None
    from hpushim.engine.data.notebook import Notebook

    try:
        notebook = Notebook((file.before or b"").decode())
        notebook.check()
    except ValueError:
        return None
    moved: dict[int, int] = {}
    at = 0
    for number, line in enumerate(notebook.python.encode().splitlines(keepends=True), 1):
        start = notebook.span(Span(at, at + 1)).start
        moved.setdefault(notebook.data.count(b"\n", 0, start) + 1, number)
        at += len(line)
    return _Text(cells_name(file.path), statements(notebook.python.encode()), moved)


def statements(data: bytes) -> list[tuple[int, int]]:
    """First and last line of each statement, of a compound one only its header, of a decorated one its decorators too."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        first, last = node.lineno, node.end_lineno or node.lineno
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        if body:
            inner = body[0]
            begin = inner.lineno if isinstance(inner, ast.stmt) else inner.pattern.lineno
            last = max(first, begin - 1)
        found.append((first, last))
    return found


def statement_lines(line: int, spans: list[tuple[int, int]]) -> frozenset[int]:
    """The lines of which one runs when the statement of this one does."""
    inside = [(last - first, first, last) for first, last in spans if first <= line <= last]
    if not inside:
        return frozenset((line,))
    _, first, last = min(inside)
    return frozenset(range(first, last + 1))


def covered(found: Wanted, ran: set[tuple[str, int]], opened: set[str], root: Path) -> Coverage:
    """Divides the places by the lines that ran; a place in a file that is not Python by whether the file was opened."""
    result = Coverage()
    touched = {file for file, _ in ran}
    loaded = set(opened)
    for place, file, lines in found.places:
        if file in touched:
            loaded.add(place.file)
        if place.file.endswith(_CODE):
            run = any((file, line) in ran for line in lines)
        else:
            run = place.file in opened
        if place.applied:
            (result.rewrites_run if run else result.rewrites_not_run).append(place)
        else:
            (result.findings_run if run else result.findings_not_run).append(place)
    result.files_not_loaded = sorted({place.file for place, *_ in found.places} - loaded)
    return result
