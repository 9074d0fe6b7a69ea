"""The shell commands inside files of several kinds: what is not shell is blanked, so that places stay right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpushim.engine import shell
from hpushim.engine.words import Script

if TYPE_CHECKING:
    from hpushim.engine.document import Document

_FENCED = re.compile(
    rb"^(?P<lead>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?:bash|sh|shell|console|shell-session|zsh|text)?[ \t]*\r?\n"
    rb"(?P<body>.*?)^[ \t]*(?P=ticks)[ \t]*\r?$",
    re.DOTALL | re.MULTILINE,
)
_PROMPT = re.compile(rb"^([ \t]*)([$>%]|\([^)\n]*\)[ \t]*\$)(?=[ \t])", re.MULTILINE)
_RECIPE = re.compile(rb"^\t([@+-]*)((?:[^\r\n\\]|\\(?:\r\n|[\r\n]|.))*)", re.MULTILINE)
_VARIABLE = re.compile(rb"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def script(document: Document) -> Script:
    """The commands of a document; empty for kinds that hold none."""
    data = document.data
    if document.kind == "shell":
        return shell.script(data)
    if document.kind == "dockerfile":
        parts = [item.script for item in document.instructions if item.script is not None]
        return Script(
            tuple(command for part in parts for command in part.commands),
            tuple(assignment for part in parts for assignment in part.assignments),
            any(part.partial for part in parts),
        )
    if document.kind == "makefile":
        return shell.script(_recipes(data))
    if document.kind == "markdown":
        return shell.script(_fenced(data))
    if document.kind == "notebook":
        from hpushim.engine import notebook

        return notebook.script(document)
    return Script()


def _blank(data: bytes) -> bytearray:
    return bytearray(re.sub(rb"[^\r\n]", b" ", data))


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
