"""The shell commands inside files of several kinds: what is not shell is blanked, so that places stay right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hpushim.engine.base.kind import Kind
from hpushim.engine.base.text import blank
from hpushim.engine.shell import shell
from hpushim.engine.shell.words import Instruction, Script

_FENCED = re.compile(
    rb"^(?P<lead>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?:bash|sh|shell|console|shell-session|zsh|text)?[ \t]*\r?\n"
    rb"(?P<body>.*?)^[ \t]*(?P=ticks)[ \t]*\r?$",
    re.DOTALL | re.MULTILINE,
)
_PROMPT = re.compile(rb"^([ \t]*)([$>%]|\([^)\n]*\)[ \t]*\$)(?=[ \t])", re.MULTILINE)
_RECIPE = re.compile(rb"^\t([@+-]*)((?:[^\r\n\\]|\\(?:\r\n|[\r\n]|.))*)", re.MULTILINE)
#: What make runs in a shell to read its output; the recipes' own lines are read whole.
_SHELL = re.compile(rb"\$\(shell[ \t]+(?=[^ \t])((?:[^()\r\n]|\([^()\r\n]*\))*)\)")
_NOT_READ = re.compile(rb"^\t.*|#.*", re.MULTILINE)
_VARIABLE = re.compile(rb"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def script(
    kind: Kind, texts: Iterable[tuple[int, bytes]], instructions: Iterable[Instruction]
) -> Script:
    """The commands of a file of some kind; empty for kinds that hold none.

    ``texts`` are the parts of it that are looked at, each with where it starts.
    """
    match kind:
        case "shell" | "notebook":
            return _joined(shell.script(text, at) for at, text in texts)
        case "dockerfile":
            return _joined(item.script for item in instructions if item.script is not None)
        case "makefile":
            return _joined(shell.script(_recipes(text), at) for at, text in texts)
        case "markdown":
            blocks = (block for at, text in texts for block in _fenced(text, at))
            return _joined(shell.script(text, at) for at, text in blocks)
    return Script()


def _joined(scripts: Iterable[Script]) -> Script:
    parts = list(scripts)
    if len(parts) == 1:
        return parts[0]
    return Script(
        tuple(command for part in parts for command in part.commands),
        tuple(assignment for part in parts for assignment in part.assignments),
        any(part.partial for part in parts),
    )


def _recipes(data: bytes) -> bytes:
    kept = bytearray(blank(data))
    for line in _RECIPE.finditer(data):
        # `$(NAME)` is make's variable, not a command; `${NAME}` is as long and means it to the shell.
        body = _VARIABLE.sub(rb"${\1}", line.group(2))
        kept[line.start(2) : line.end(2)] = body
    # Recipes run in a shell already, and nothing runs in comments.
    for line in _SHELL.finditer(_NOT_READ.sub(lambda found: b" " * len(found[0]), data)):
        kept[line.start(1) : line.end(1)] = _VARIABLE.sub(rb"${\1}", line.group(1))
    return bytes(kept)


def _fenced(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The blocks of code, each a script of its own: a quote that one leaves open ends with it."""
    for block in _FENCED.finditer(data):
        body = _PROMPT.sub(lambda m: m.group(1) + b" " * len(m.group(2)), block.group("body"))
        yield at + block.start("body"), body
