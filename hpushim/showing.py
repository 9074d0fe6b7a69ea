"""Text that somebody else wrote, made fit to be shown: names of files, lines of source, values of settings.

A control character in a name can move the cursor or colour the terminal, a bidirectional one can turn a line around, a
newline can make one line two. Every exit calls one of these: :func:`one_line` for a piece of text, :func:`lines` for text
that is made of lines, :func:`quoted` for a path. Only the standard library is imported.
"""

from __future__ import annotations

import os
import re

from hpushim.patterns import lazily

#: Control characters except the tab, line and paragraph separators, bidirectional and other invisible orders to a
#: renderer, and halves of characters, which no encoding takes.
_UNFIT = (
    "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_IN_A_LINE = lazily(f"[{_UNFIT}]")
_IN_LINES = lazily(f"(?!\n)[{_UNFIT}]")
_IN_A_PATH = lazily(f'[{_UNFIT}\t"\\\\]')
_IN_QUOTES = lazily(f"[{_UNFIT}\t]")
_SHORT = {"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}  # fmt: skip


def one_line(text: str) -> str:
    """``text`` on one line, with what is not fit for a terminal as an escape such as ``\\x1b`` or ``\\u202e``."""
    return _IN_A_LINE.sub(_escape, text)


def lines(text: str) -> str:
    """The same for text of several lines: newlines stay."""
    return _IN_LINES.sub(_escape, text)


def path(name: str | bytes | os.PathLike[str]) -> str:
    """A path as reports carry it: text without halves of characters, different for different bytes.

    That is the path itself; in quotation marks, with git's escapes, where it is not UTF-8 or begins with such a mark.
    """
    raw = os.fsencode(name)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        inner = raw.decode("utf-8", "surrogateescape")
        return f'"{_IN_A_PATH.sub(_octal, inner)}"'
    return f'"{_IN_A_PATH.sub(_octal, text)}"' if text.startswith('"') else text


def quoted(shown: str) -> str:
    """A path of a report (see :func:`path`) on one line, quoted as git quotes it where it holds something odd."""
    if shown.startswith('"'):
        return _IN_QUOTES.sub(_octal, shown)
    if _IN_A_PATH.search(shown):
        return f'"{_IN_A_PATH.sub(_octal, shown)}"'
    return shown


def json(text: str) -> str:
    """A JSON document in which what is not fit for a terminal is escaped; it means what it meant."""
    return _IN_LINES.sub(_json_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # a byte that was not UTF-8
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _octal(found: re.Match[str]) -> str:
    character = found.group()
    if character in '"\\':
        return f"\\{character}"
    if character in _SHORT:
        return _SHORT[character]
    held = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", held))


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
