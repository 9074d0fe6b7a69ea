"""Words, assignments and commands: what shell scripts, Dockerfiles and Makefiles are made of."""

from __future__ import annotations

import msgspec

from hpushim.model import Span


class Word(msgspec.Struct, frozen=True):
    """One word of a command line, ``--backend="nccl"`` as much as ``train.py``."""

    #: As written, quotes included.
    span: Span
    #: Without its quotes; what would be expanded (``$X``, ``$(…)``) is in it as written.
    text: str
    #: Nothing in it is expanded, so ``text`` is what the program gets.
    constant: bool = True
    #: Where ``text`` is when it is one piece of source, without the quotes around it.
    inner: Span | None = None
    #: For ``--backend="nccl"``, ``device=cuda``: what is before the first ``=`` …
    key: str = ""
    #: … and behind it.
    value: Word | None = None


class Assignment(msgspec.Struct, frozen=True):
    """``NAME=value``, alone, before a command, under ``export``, or in ``ENV`` and ``ARG``."""

    span: Span
    name: str
    name_span: Span
    value: Word | None
    exported: bool = False
    #: The words of ``NAME=(a b c)``.
    items: tuple[Word, ...] = ()


class Command(msgspec.Struct, frozen=True):
    """One simple command. ``words[0]`` is the program."""

    span: Span
    words: tuple[Word, ...]
    #: The ones that are before it on its line.
    assignments: tuple[Assignment, ...] = ()
    #: The whole statement at the top level that it is in: the loop, the branch, the function.
    outer: Span | None = None

    @property
    def program(self) -> str:
        """The program's name without its folder; empty when it is an expansion."""
        if not self.words or not self.words[0].constant:
            return ""
        return self.words[0].text.rpartition("/")[2]


class Script(msgspec.Struct, frozen=True):
    """A shell text: every simple command and every assignment in it, in source order."""

    commands: tuple[Command, ...] = ()
    #: All of them, the ones before commands included.
    assignments: tuple[Assignment, ...] = ()
    #: Some part was not understood; what is listed is right all the same.
    partial: bool = False


class Instruction(msgspec.Struct, frozen=True):
    """One instruction of a Dockerfile, continuation lines and heredocs included."""

    keyword: str
    span: Span
    #: The words after the keyword; flags such as ``--platform=…`` included.
    words: tuple[Word, ...] = ()
    #: For ENV, ARG and LABEL.
    assignments: tuple[Assignment, ...] = ()
    #: For RUN, CMD and ENTRYPOINT.
    script: Script | None = None
    #: Which FROM it belongs to, from 0; -1 before the first.
    stage: int = -1


class Requirement(msgspec.Struct, frozen=True):
    """One line of a requirements file: a requirement, or an option such as ``--extra-index-url``."""

    #: The line without its newline and its comment.
    span: Span
    #: The line with its newline and continuation lines, for taking it out or commenting it.
    line: Span
    #: Normalised (``flash-attn``); empty for an option.
    name: str = ""
    #: The name as written.
    name_span: Span | None = None
    #: The version specifier as written (``==2.3.0+cu121``), without extras and marker.
    specifier: str = ""
    specifier_span: Span | None = None
    #: For ``name @ url`` and bare URLs.
    url: str = ""
    #: For an option: its name and its value.
    option: str = ""
    value: str = ""
    value_span: Span | None = None
