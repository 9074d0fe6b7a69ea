"""The plain data that flows from the engine to the report: no behaviour, no I/O.

Offsets are bytes of the file's *canonical text* (decoded, without byte order mark, encoded as UTF-8,
newlines as they are in the file). Lines and columns are 1-based; columns count characters.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = 2

#: ``unknown``: nobody has established what becomes of it on Gaudi.
Severity = Literal["error", "warning", "note", "unknown"]
Safety = Literal["safe", "unsafe", "manual"]
Status = Literal["changed", "unchanged", "skipped", "failed"]
#: What a person spends where no rewrite does it: a line to change, code to think about, or something that Gaudi does not have.
Effort = Literal["minutes", "hours", "none"]
#: What a place does to a run on Gaudi, beyond stopping it: other numbers, less speed, work left on the CPU, a CUDA kernel.
Effect = Literal["numbers", "speed", "cpu", "kernel"]
#: What a report is about: the project as it is, what `migrate` would write (`--diff`), or what it wrote.
Stage = Literal["before", "preview", "migrated"]
Generation = Literal["gaudi1", "gaudi2", "gaudi3"]
Mode = Literal["portable", "eager", "compile", "lazy"]
Style = Literal["native", "dual", "agnostic"]

#: What codes are about, by their first digit: a room of the rules for each, then what is reported at run time.
AREAS = (
    "tool",
    "devices",
    "precision",
    "distributed",
    "memory",
    "execution",
    "training",
    "libraries",
    "files",
    "run-time",
)


class Target(msgspec.Struct, frozen=True):
    """What the code is written for."""

    gaudi: Generation = "gaudi2"
    stack: str = "1.24"
    mode: Mode = "portable"
    style: Style = "native"


class Span(msgspec.Struct, frozen=True, order=True):
    """A half-open range of bytes in the canonical text."""

    start: int
    end: int


class Edit(msgspec.Struct, frozen=True):
    """Replace ``old``, which must are at ``span``, by ``new``. An empty span inserts."""

    span: Span
    old: str
    new: str


class Fix(msgspec.Struct, frozen=True):
    """Edits that are applied together or not at all.

    Fixes of one file with the same non-empty ``group`` change together as well, whichever
    rule they come from (a check and its literal, an import and its uses).
    """

    title: str
    safety: Safety
    edits: tuple[Edit, ...]
    group: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One place where the code meets a fact about Gaudi."""

    code: str
    name: str
    severity: Severity
    safety: Safety
    message: str
    span: Span
    line: int
    column: int
    end_line: int
    end_column: int
    row: str | None = None
    fix: Fix | None = None
    applied: bool = False
    effort: Effort = "minutes"
    effect: Effect | None = None
    #: The innermost function or class around it, ``Model.forward``; empty at the top level, and where the text is not Python.
    function: str = ""
    #: Whether it is under ``if``, other than that of a program, or tried.
    conditional: bool = False
    #: Whether that choice is one that the program's own defaults do not make.
    unchosen: bool = False
    #: Whether its rewrite is held back, since other code in the file stays as it is.
    held: bool = False


class Origin(msgspec.Struct, frozen=True):
    """Where a fix starts in a file as it was. One of a whole file has no ``code``."""

    path: str
    code: str = ""
    start: int = 0


class FileResult(msgspec.Struct, frozen=True):
    """What happened to one file. ``reason`` is set when it was skipped or failed.

    ``after`` is what was written, or would be; ``proposed`` what all rewrites together, unsafe ones too, would make of it.
    """

    path: str
    status: Status
    reason: str | None = None
    findings: tuple[Finding, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    proposed: bytes | None = None


class Basis(msgspec.Struct, frozen=True):
    """What the matrix says of a row that findings name, and how sure that is."""

    status: str
    confidence: str
    note: str = ""
    effort: Effort | None = None  #: where it is another one than the rule's
    effect: Effect | None = None  #: likewise


class Kernels(msgspec.Struct, frozen=True):
    """A CUDA source file, which no rule reads: its path and its lines."""

    path: str
    lines: int


#: What the files of a package say about the device that it needs; ``by row``: the matrix says it.
DependencyKind = Literal[
    "by row",
    "compiled for CUDA",
    "builds CUDA",
    "Triton kernels",
    "demands CUDA tensors",
    "chooses its device",
    "knows hpu",
    "plain Python",
    "not assessed",
]


#: The evidence on a package of the project's own of which there is no file.
ABSENT = "not in this checkout"


class Dependency(msgspec.Struct, frozen=True):
    """A third-party package: in how many files it is imported, whether one does so unconditionally, who assessed it, and on what that rests.

    ``status`` is that of its row in the matrix, if it has one. ``aside``: only files that no training run needs import it.
    """

    name: str
    files: int
    required: bool
    assessed_by: Literal["matrix", "files", "none"]
    version: str = ""
    kind: DependencyKind = "not assessed"
    evidence: str = ""
    status: str = ""
    aside: bool = False


class Program(msgspec.Struct, frozen=True):
    """A program that trains, and what shows it."""

    path: str
    why: str


class Page(msgspec.Struct, frozen=True):
    """The page of a code: what it finds, and the whole of it, as Markdown; with the highest severity of its findings."""

    what: str = ""
    text: str = ""
    severity: Severity | None = None


class Report(msgspec.Struct, frozen=True):
    """One run over a project.

    ``unknown`` are the rows named in it for which nobody knows what Gaudi does, ``rows`` what is known of each row named, ``matrix``
    which table answered. ``pages``
    are there where they were requested. ``python_lines`` counts all Python that was found, also where nothing was found in it; ``other_framework`` names what the
    project trains with where it imports no torch.
    """

    tool: str
    target: Target
    files: tuple[FileResult, ...]
    root: str = "."
    schema_version: int = SCHEMA_VERSION
    unknown: frozenset[str] = frozenset()
    stage: Stage = "before"
    matrix: str = ""
    rows: dict[str, Basis] = {}
    pages: dict[str, Page] = {}
    kernels: tuple[Kernels, ...] = ()
    python_lines: int = 0
    other_framework: str = ""
    #: The files that no training run needs: tests, exporters, images, what nothing imports that trains.
    around: frozenset[str] = frozenset()
    #: The program that a person would start: one that trains, if any does.
    program: str = ""
    #: All programs that train, the likeliest first.
    programs: tuple[Program, ...] = ()
    #: The package whose program trains, where none of the project does.
    trained_by: str = ""
    #: The files that it imports, however far; others may be loaded by their names.
    reached: frozenset[str] = frozenset()
    #: The files that it may do without: each import of them is under a condition, or may fail.
    chosen: frozenset[str] = frozenset()
    #: The functions and classes with stops that the project offers at most, for nothing in it uses them, each as ``path:name``.
    unused: frozenset[str] = frozenset()
    #: The options that the project declares for a device (``--device``): command lines may still give them ``cuda``.
    device_options: tuple[str, ...] = ()
    #: How many findings a baseline or a revision leaves out; None where all are shown.
    hidden: int | None = None
    dependencies: tuple[Dependency, ...] = ()
