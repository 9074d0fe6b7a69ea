"""Text in Markdown that cannot break out of its place: no markup, no HTML, no cell of its own."""

from __future__ import annotations

import re

from hpushim import showing

#: What would open code, HTML or a link in running text, end a cell, or represent another character.
_MEANING = re.compile(r"[\\`|]|<(?=[A-Za-z/!?])|&(?=[#\w]+;)|\](?=[\[(:])")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
#: Code in which none of these is can go between single backticks, even in a table.
_HARD = re.compile(r"[`|]|^\s|\s$|^$")


def code(text: str) -> str:
    """``text`` as code, on one line, fit for a cell of a table; nothing for an empty one."""
    text = showing.one_line(text)
    if not text:
        return ""
    if not _HARD.search(text):
        return f"`{text}`"
    inner = re.sub(r"[^A-Za-z0-9 _.,/()=:-]", lambda found: f"&#{ord(found.group())};", text)
    return f"<code>{inner}</code>"


def prose(text: str) -> str:
    """A sentence, on one line, in which what is between backticks is code, and links and HTML are text."""
    pieces = showing.one_line(text.replace("\r\n", " ").replace("\n", " ")).split("`")
    if len(pieces) % 2 == 0:  # the last backtick opens nothing
        pieces[-2:] = ["`".join(pieces[-2:])]
    parts = [code(p) if number % 2 else _plain(p) for number, p in enumerate(pieces)]
    return "".join(parts)


def _plain(text: str) -> str:
    return _MEANING.sub(lambda found: _ENTITIES.get(found.group(), f"\\{found.group()}"), text)
