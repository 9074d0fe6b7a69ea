"""What a rule requests, by word; which files it reads and what it is called with follow from that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from hpushim.engine.base.kind import Kind

_WORD = re.compile(r"[A-Za-z0-9_]+")


class ProjectFact(msgspec.Struct, frozen=True):
    """Names that are collected from every file of some kinds in a project before the files are looked at one by one."""

    name: str
    #: The names in the bytes of one file, with a newline before them. It is called for each file, so it should look for one word first.
    find: Callable[[bytes], Iterable[bytes]]
    #: The kinds of file that it is collected from, as they are written.
    kinds: tuple[Kind, ...] = ("python",)
    #: Whether a file that has any of the names says something of the files that it imports and of those that import it (``"around"``), or of
    #: all that the programs import which import it (``"program"``): ``module.project.reaches(fact.name, module.path)``.
    spreads: Literal["", "around", "program"] = ""
    #: Of these kinds the files that it is collected from, by their path as it is shown; None for all.
    of: Callable[[str], bool] | None = None
    #: Whether each name is a version that an install requires: ``module.project.requests(fact.name, version, module.path)``.
    installs: bool = False


#: The fact of this name holds the frameworks that a file imports, ``b""`` for those that the rules are about. Where no file
#: imports one of these, the report names the one that most files import.
FRAMEWORKS = "frameworks"
#: Given beside ``b""`` of a file that has code for the devices of another maker.
ELSEWHERE = b"elsewhere"

#: The fact of this name says that a file trains (``b"trains"``), that it is a program (``b"program"``), that it imports by names which it
#: makes (``b"loads"``), that workers read its samples (``b"samples"``), that it holds networks or moves tensors (``b"computes"``).
TRAINS = "trains"

#: The fact of this name holds the programs that a file's commands start, each behind its place: ``b"0003 lib/train.py"``.
LAUNCHES = "programs that commands start"

#: The fact of this name says that a file defines a function that files of a project share, and no code but that of rules needs.
SHARED = "functions that files share"

#: The fact of this name holds the options that no run on a device needs, by the names that they are read by.
OFF = "options that are off and choose no device"

#: The fact of this name holds the options of the command line whose values are devices: ``b"--device"``.
TAKE_DEVICES = "options that are named for devices"


class Wants(msgspec.Struct, frozen=True):
    """The words of a rule, each kind with the handler that is called for it: a rule sees a file only where one of its words is in it."""

    #: ``on_name``: dotted names (``torch.device``); with ``.*`` whatever lies below (``torch.cuda.*``).
    names: tuple[str, ...] = ()
    #: ``on_attribute``: ``x.is_cuda`` for ``is_cuda``.
    attributes: tuple[str, ...] = ()
    #: ``on_call``: calls of ``word`` and of ``x.word``.
    calls: tuple[str, ...] = ()
    #: ``on_keyword``: ``word=…`` in a call.
    keywords: tuple[str, ...] = ()
    #: ``on_string``: string constants that hold the text.
    strings: tuple[str, ...] = ()
    #: ``on_import``: packages, or dotted names in them.
    imports: tuple[str, ...] = ()
    #: ``on_definition``: functions and classes of this name.
    definitions: tuple[str, ...] = ()
    #: ``on_number``: numbers in this spelling.
    numbers: tuple[str, ...] = ()
    #: Further words for which ``on_module`` is called.
    words: tuple[str, ...] = ()
    #: The same for other pieces of text, which may be parts of words; the empty one is in every file.
    texts: tuple[str, ...] = ()
    #: Of the texts those for which a file is read only where a regular expression matches as well, which follows behind a space.
    shapes: tuple[str, ...] = ()
    #: Words or other pieces of text of which one must be in the file as well.
    required: tuple[str, ...] = ()
    #: Texts of which the rule tests whether they are in the code of any file of the project: ``module.project.mentions``.
    project: tuple[str, ...] = ()
    #: What the rule wants to know of all files: ``module.project.names(fact.name)``.
    facts: tuple[ProjectFact, ...] = ()

    def __or__(self, other: Wants) -> Wants:
        """The words of both, each once."""
        fields = self.__struct_fields__
        both = (getattr(self, field) + getattr(other, field) for field in fields)
        return Wants(*(tuple(dict.fromkeys(words)) for words in both))

    def alternatives(self) -> tuple[tuple[frozenset[str], str], ...]:
        """Sets of words; the rule may find something where a file has all words of one of them.

        With each the word as code has it (``.word``, ``word(``, ``word=``: :meth:`~hpushim.pycode.words.Words.uses`); "" where it may
        be anywhere.
        """
        found = [(frozenset({word}), "") for word in (*self.definitions, *self.words)]
        found += [(frozenset({word}), f".{word}") for word in self.attributes]
        found += [(frozenset({word}), f"{word}(") for word in self.calls]
        found += [(frozenset({word}), f"{word}=") for word in self.keywords]
        found += [(_of_name(name), _behind_a_dot(name)) for name in self.names]
        found += [(frozenset(_WORD.findall(name)), f".{last(name)}") for name in self.imports]
        found += [(frozenset(_WORD.findall(number)), "") for number in self.numbers]
        return tuple(dict.fromkeys(found))


def last(name: str) -> str:
    """The last word that a wanted name gives: ``cuda`` for ``torch.cuda.*``."""
    return name.removesuffix(".*").rpartition(".")[2]


def _behind_a_dot(name: str) -> str:
    """The last word of a name, behind a dot; "" for what is named alone: packages, and builtins."""
    return f".{last(name)}" if "." in name.removeprefix("builtins.") else ""


def _of_name(name: str) -> frozenset[str]:
    """The words of a dotted name, which all are in a file that uses it: in an import, if not together."""
    words = name.removesuffix(".*").removeprefix("builtins.").split(".")
    return frozenset(words)
