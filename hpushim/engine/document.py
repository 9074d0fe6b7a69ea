"""A file that is not Python, as text rules see it. Each view is parsed when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from hpushim.engine.text import ALONE, Project, Text
from hpushim.model import Edit, Span, Target

if TYPE_CHECKING:
    from hpushim.engine.entries import Entry
    from hpushim.engine.words import Instruction, Requirement, Script, Word
    from hpushim.matrix import Matrix

Kind = Literal[
    "python",
    "notebook",
    "yaml",
    "json",
    "toml",
    "ini",
    "shell",
    "dockerfile",
    "requirements",
    "makefile",
    "markdown",
]


class Document(Text):
    """One text of a known kind. A view that does not fit the kind, or does not parse, is empty."""

    def __init__(
        self,
        text: str,
        path: str,
        kind: Kind,
        target: Target,
        matrix: Matrix,
        project: Project = ALONE,
    ) -> None:
        super().__init__(text, path, target, matrix, project)
        self.kind = kind

    def source(self, span: Span) -> str:
        """The text at a span, as written."""
        return self.text_at(span)

    def replace(self, span: Span, new: str) -> Edit:
        """The edit that puts ``new`` in place of a span."""
        return Edit(span, self.text_at(span), new)

    def rewrite(self, entry: Entry, new: str) -> Edit:
        """The edit that gives a scalar the string value ``new`` and keeps its quotes."""
        if entry.kind != "scalar" or entry.quote in ("|", ">"):
            raise ValueError(f"{entry.dotted}: only a scalar on one line can be rewritten")
        return self.replace(entry.span, f"{entry.quote}{new}{entry.quote}")

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every value of a YAML, JSON or TOML file, in source order."""
        from hpushim.engine import jsonc, toml, yaml

        readers = {"yaml": yaml.entries, "json": jsonc.entries, "toml": toml.entries}
        reader = readers.get(self.kind)
        return reader(self.text) if reader else ()

    @cached_property
    def script(self) -> Script:
        """The commands of a shell file, of a Dockerfile's RUN lines, of a notebook's ``!`` lines."""
        from hpushim.engine import scripts

        return scripts.script(self)

    def words(self, span: Span) -> tuple[Word, ...]:
        """The words of a piece of a command line, such as the inside of ``OPTS="--backend nccl"``."""
        from hpushim.engine import shell

        return shell.words(self.data, span)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions of a Dockerfile."""
        from hpushim.engine import dockerfile

        return dockerfile.instructions(self.text) if self.kind == "dockerfile" else ()

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The lines of a requirements file that ask for something."""
        from hpushim.engine import requirements

        return requirements.requirements(self.text) if self.kind == "requirements" else ()

    def unproven(self, after: bytes) -> str | None:
        """Why ``after`` cannot stand in for this text; None when it is as well-formed as before."""
        from hpushim.engine import wellformed

        return wellformed.unproven(self.kind, self.data, after)
