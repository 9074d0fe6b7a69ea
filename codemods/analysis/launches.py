"""Commands of scripts: which of them start a program of the project, and where variables are mentioned."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

from hpushim.engine.base.started import by_last, resolved
from hpushim.engine.data.document import Document
from hpushim.engine.rules.wants import LAUNCHES, ProjectFact
from hpushim.engine.shell.words import Command, Word
from hpushim.model import Span
from hpushim.patterns import lazily

from .project_facts import FRAMEWORKS_USED

#: What starts a program of the project.
_NAMES = r"python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun|ray"
_LAUNCHERS = re.compile(rf"^({_NAMES})$")
_JOINED = lazily(rb"\\\r?\n")
#: The words of a command behind what starts a program: ``torchrun``, ``$PYTHON``, ``CUDA_VISIBLE_DEVICES=0 python``.
_STARTS = lazily(
    rb"(?:^|[\s`(;&|\"'>]|=[ \t]*)(?:(?:%s|bash|sh|\$\{?\w+\}?)[ \t]+|(?=\./))([^\n`;|&#]*)"
    % _NAMES.encode()
)
_STARTED = lazily(rb"(?:^|[\s\"'/])((?:\.{0,2}/)?[\w./-]+\.(?:py|sh))(?![\w/])")
_AS_MODULE = lazily(rb"(?:^|\s)-m[ \t]+([A-Za-z_][\w.]*)")
#: ``fairseq-train``, also behind ``which``.
_PACKAGED = lazily(rb"(?:^|[\s(`])(\w+-train)(?=[\s)`\\])")
#: What lists the commands that a package installs.
_INSTALLS = (b"console_scripts", b"[project.scripts]", b"[tool.poetry.scripts]")
#: What runs a command from Python.
_CALLS = (b"os.system(", b"os.popen(", b"subprocess.")
#: An entry point: ``name = "package.module:function"``.
_ENTRY = lazily(rb"[\w-]+[ \t]*=[ \t]*[\"']?([A-Za-z_][\w.]*):[A-Za-z_]\w*")
_COMMENT = re.compile(rb"[ \t]*#")
#: So many bytes before a word show what it is in.
_NEAR = 4096
#: What is before a variable's name where it is read or taken away.
_READS = re.compile(rb"\$\{?[#!]?$|^\s*unset\s")


def commands(document: Document) -> Iterator[Command]:
    """The commands of the document, ``CMD ["python", …]`` of a Dockerfile among them."""
    yield from document.script.commands
    for instruction in document.instructions:
        if instruction.keyword in ("CMD", "ENTRYPOINT") and instruction.script is None:
            yield Command(instruction.span, instruction.words)


def launches(command: Command) -> bool:
    """Does the command run a program of the project, with options that it understands?"""
    if _LAUNCHERS.match(command.program):
        return True
    if command.program.endswith((".py", ".sh")):
        return True
    return any(_LAUNCHERS.match(word.text.rpartition("/")[2]) for word in command.words)


def trains(command: Command) -> bool:
    """Does the command start a Python program, not a one-liner and not a package tool?"""
    words = [word.text for word in command.words]
    if not any(_LAUNCHERS.match(word.rpartition("/")[2]) for word in words[:1]):
        return command.program.endswith(".py")
    if "-c" in words[:2] or "-" in words[1:2]:
        return False
    return words[1:3] not in (["-m", "pip"], ["-m", "venv"], ["-m", "build"]) and len(words) > 1


# -- of a whole project ---------------------------------------------------------------------------


def _launched(data: bytes) -> Iterable[bytes]:
    found: list[bytes] = []
    text = _JOINED.sub(b" ", data)
    if any(word in data for word in _INSTALLS):
        found += (name.replace(b".", b"/") for name in _ENTRY.findall(text))
    for words in _STARTS.findall(text):
        if named := _STARTED.search(words):
            found.append(named[1])
        elif modules := _AS_MODULE.findall(words):
            found.append(modules[-1].replace(b".", b"/"))
    if b"-train" in data:
        found += _PACKAGED.findall(text)
    yield from (b"%04d %s" % (place, name) for place, name in enumerate(dict.fromkeys(found)))


def _started(data: bytes) -> Iterable[bytes]:
    return _launched(data) if any(word in data for word in (*_INSTALLS, *_CALLS)) else ()


LAUNCHED = ProjectFact(LAUNCHES, _launched, kinds=("markdown", "shell", "makefile", "toml", "ini"))
LAUNCHED_HERE = ProjectFact(LAUNCHES, _started)


class Elsewhere:
    """The commands of a document that start programs of another framework alone: those run no part of torch."""

    def __init__(self, document: Document) -> None:
        self._document = document
        used = document.project.names(FRAMEWORKS_USED.name)
        #: Whether the document starts nothing else, or the project has no other programs.
        self.all = bool(used) and "" not in used
        #: Where they are.
        self.spans: list[Span] = []
        if self.all or not document.project.foreign:
            return
        self._ends = by_last(document.project.files)
        started = [(self._is_foreign(command), command.span) for command in commands(document) if launches(command)]  # fmt: skip
        self.spans = [span for foreign, span in started if foreign]
        self.all = bool(self.spans) and all(foreign is not False for foreign, _ in started)

    def holds(self, span: Span) -> bool:
        return any(each.start <= span.start and span.end <= each.end for each in self.spans)

    def _is_foreign(self, command: Command) -> bool | None:
        """Is it a program of another framework that the command names? None where it names none."""
        document = self._document
        said = b"\n" + document.data[command.span.start : command.span.end]
        names = [name.partition(b" ")[2].decode() for name in LAUNCHED.find(said)]
        found = [resolved(document.path, name, self._ends) for name in names]
        foreign = document.project.foreign
        return all(each and all(path in foreign for path in each) for each in found) if found else None  # fmt: skip


def in_comments(document: Document, name: str, lines: range | None = None) -> list[Span]:
    """Where ``name`` is a word in lines that are comments: in all of them, or in some."""
    found: list[Span] = []
    start, end = 0, len(document.data)
    if lines is not None:
        within = [document.line_span(line) for line in lines if line > 0]
        start, end = (within[0].start, within[-1].end) if within else (0, 0)
    for match in _word(name).finditer(document.data, start, end):
        line, _ = document.position(match.start())
        if _COMMENT.match(document.data, document.line_starts[line - 1]):
            found.append(Span(match.start(), match.end()))
    return found


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![A-Za-z0-9_])" + name.encode() + rb"(?![A-Za-z0-9_])")


def mentions(document: Document, name: str) -> list[Span]:
    """Where ``name`` is a word inside commands and assignments, not in comments."""
    script = document.script
    reach = _joined([c.span for c in script.commands] + [a.span for a in script.assignments])
    starts = [span.start for span in reach]
    found: list[Span] = []
    for match in _word(name).finditer(document.data):
        before = bisect.bisect_right(starts, match.start()) - 1
        inside = before >= 0 and match.end() <= reach[before].end
        line, _ = document.position(match.start())
        start = document.line_starts[line - 1]
        near = max(start, match.start() - _NEAR)  # a line may be as long as its file
        before_it = document.data[near : match.start()]
        inside = inside or _READS.search(before_it) is not None  # a test, a loop, `unset`
        if inside and not _COMMENT.match(document.data, start):
            found.append(Span(match.start(), match.end()))
    return found


def _joined(spans: list[Span]) -> list[Span]:
    """The same places in order, those that overlap as one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def lists_devices(word: Word) -> bool:
    """``0,1,2``, ``$1``, ``${X:-0,1}``, ``$((i % 8))``: devices are listed, none is not."""
    return re.fullmatch(r"\d+(,\d+)*", word.text) is not None or not word.constant


# -- the rank as an option ------------------------------------------------------------------------

_GOES_ON = lazily(rb"\\\r?\n")
_LAUNCHER = lazily(rb"-m[ \t]+torch\.distributed\.launch[ \t]([^\n`]*)")
#: With this the launcher gives the rank in the environment alone.
_IN_ENVIRONMENT = lazily(rb"--use[_-]env\b")


def _passes_rank(data: bytes) -> Iterable[bytes]:
    if b"torch.distributed.launch" in data:
        for found in _LAUNCHER.finditer(_GOES_ON.sub(b" ", data)):
            if not _IN_ENVIRONMENT.search(found[1]):
                yield b"launched"


PASSES_RANK = ProjectFact(
    "launches that pass the rank as an option",
    _passes_rank,
    ("markdown", "shell", "makefile", "yaml", "dockerfile"),
)
