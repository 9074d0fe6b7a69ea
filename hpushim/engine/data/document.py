"""A file that is not Python, as text rules see it. Each view is parsed when it is first requested."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hpushim.engine.base.kind import Kind
from hpushim.engine.base.text import ALONE, Project, Text
from hpushim.model import Edit, Span, Target

if TYPE_CHECKING:
    from hpushim.engine.data.entries import Entry
    from hpushim.engine.data.notebook import Notebook
    from hpushim.engine.shell.words import Instruction, Requirement, Script, Word
    from hpushim.matrix import Matrix


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
        data: bytes | None = None,
    ) -> None:
        super().__init__(text, path, target, matrix, project, data)
        self.kind = kind
        #: The notebook that the text is, read already.
        self.notebook: Notebook | None = None

    def again(self, text: str) -> Document:
        """The same file with another text."""
        return Document(text, self.path, self.kind, self.target, self.matrix, self.project)

    def source(self, span: Span) -> str:
        """The text at a span, as written."""
        return self.text_at(span)

    def replace(self, span: Span, new: str) -> Edit:
        """The edit that puts ``new`` in place of a span."""
        return Edit(span, self.text_at(span), new)

    def insert(self, at: int, new: str) -> Edit:
        """The edit that puts ``new`` at a byte offset."""
        return Edit(Span(at, at), "", new)

    def rewrite(self, entry: Entry, new: str) -> Edit:
        """The edit that gives a scalar the string value ``new`` and keeps its quotes."""
        if entry.kind != "scalar" or entry.quote in ("|", ">"):
            raise ValueError(f"{entry.dotted}: only a scalar on one line can be rewritten")
        return self.replace(entry.span, f"{entry.quote}{new}{entry.quote}")

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every value of a YAML, JSON or TOML file, in source order; ValueError says why the text is none."""
        from hpushim.engine.data import json, toml, yaml

        readers = {"yaml": yaml.entries, "json": json.entries, "toml": toml.entries}
        reader = readers.get(self.kind)
        try:
            return reader(self.text) if reader else ()
        except RecursionError:
            raise ValueError("nested too deeply") from None

    @cached_property
    def script(self) -> Script:
        """The commands of a shell file, of a Dockerfile's RUN lines, of a notebook's ``!`` lines."""
        from hpushim.engine.shell import embedded

        texts = self.cells if self.kind == "notebook" else ((0, self.data),)
        return embedded.script(self.kind, texts, self.instructions)

    @property
    def read(self) -> bytes:
        """What rules on text read of the file: all of it, but of a notebook only the commands in its cells."""
        if self.kind != "notebook":
            return self.data
        return b"\n".join(text for _, text in self.cells)

    @cached_property
    def cells(self) -> tuple[tuple[int, bytes], ...]:
        """The cells of a notebook that hold commands: where each starts, and its text with all else blanked."""
        if self.notebook is None:
            from hpushim.engine.data.notebook import Notebook

            try:
                self.notebook = Notebook(self.text, self.data)
            except (ValueError, RecursionError):
                return ()
        return tuple(self.notebook.commands())

    def words(self, span: Span) -> tuple[Word, ...]:
        """The words of a piece of a command line, such as the inside of ``OPTS="--backend nccl"``."""
        from hpushim.engine.shell import shell

        return shell.words(self.data, span)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions of a Dockerfile."""
        from hpushim.engine.shell import dockerfile

        return dockerfile.instructions(self.text) if self.kind == "dockerfile" else ()

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The lines of a requirements file that request something."""
        from hpushim.engine.data import requirements

        return requirements.requirements(self.text) if self.kind == "requirements" else ()

    def unproven(self, after: bytes) -> str | None:
        """Why ``after`` cannot are in for this text; None when it is as well-formed as before."""
        from hpushim.engine.data import wellformed

        return wellformed.unproven(self.kind, self.data, after)
