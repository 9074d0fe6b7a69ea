"""The shell commands inside files of several kinds: what is not shell is blanked, so that places stay right."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
_VARIABLE = re.compile(rb"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def script(kind: Kind, data: bytes, instructions: Sequence[Instruction]) -> Script:
    """The commands of a text of some kind; empty for kinds that hold none."""
    match kind:
        case "shell" | "notebook":
            return shell.script(data)
        case "dockerfile":
            parts = [item.script for item in instructions if item.script is not None]
            return Script(
                tuple(command for part in parts for command in part.commands),
                tuple(assignment for part in parts for assignment in part.assignments),
                any(part.partial for part in parts),
            )
        case "makefile":
            return shell.script(_recipes(data))
        case "markdown":
            return shell.script(_fenced(data))
    return Script()


def _blank(data: bytes) -> bytearray:
    return bytearray(blank(data))


def _recipes(data: bytes) -> bytes:
    kept = _blank(data)
    for line in _RECIPE.finditer(data):
        # `$(NAME)` is make's variable, not a command; `${NAME}` is as long and means it to the shell.
        body = _VARIABLE.sub(rb"${\1}", line.group(2))
        kept[line.start(2) : line.end(2)] = body
    return bytes(kept)


def _fenced(data: bytes) -> bytes:
    kept = _blank(data)
    for block in _FENCED.finditer(data):
        body = _PROMPT.sub(lambda m: m.group(1) + b" " * len(m.group(2)), block.group("body"))
        kept[block.start("body") : block.end("body")] = body
    return bytes(kept)
