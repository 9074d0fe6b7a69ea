"""Bytes to canonical text and back. What is not edited is never encoded again.

The canonical text is what Python's own tokenizer sees: decoded, without byte order mark, newlines as
they are in the file. A file whose bytes do not come back from that text is refused.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpushim import safe_files
from hpushim.model import Edit

#: PEP 263, on one of the first two lines, the first being a comment or blank.
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_LINES = re.compile(rb"\r\n|\r|\n")
_UTF8 = ("utf-8", "utf8", "utf_8")


class Unreadable(Exception):
    """The file cannot be taken as text without loss; the message says why in half a sentence."""


class Source(msgspec.Struct, frozen=True):
    """A decoded file."""

    text: str
    encoding: str
    bom: bytes
    #: The file's bytes after the byte order mark.
    body: bytes

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.bom + self.body

    @property
    def canonical(self) -> bytes | None:
        """The text in UTF-8, where the file is; None where it has to be encoded."""
        return self.body if self.encoding in _UTF8 else None


def read(path: Path) -> bytes | str:
    """The bytes of a file that was found, or in half a sentence why there are none."""
    try:
        return safe_files.read(path, follow=False)
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def decode(data: bytes, *, python: bool) -> Source:
    """The text of a file's bytes; raises :class:`Unreadable`.

    Python files say their encoding themselves; other files are UTF-8, or UTF-16 with a byte order
    mark, or else single bytes, of which only ASCII is ever written.
    """
    bom = b""
    if data.startswith(codecs.BOM_UTF8):
        bom = codecs.BOM_UTF8
    body = data[len(bom) :]
    encoding = _python_encoding(body, bom) if python else _plain_encoding(body, bom)
    if not python and encoding == "utf-16":
        bom, body = data[:2], data[2:]
        encoding = "utf-16-le" if bom == codecs.BOM_UTF16_LE else "utf-16-be"
    try:
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError:
            if python or bom:
                raise
            encoding = "latin-1"
            text = body.decode(encoding)
        if encoding not in _UTF8:
            text.encode()  # what UTF-8 cannot hold has no offsets
    except (UnicodeError, LookupError, ValueError) as error:
        raise Unreadable(_why(encoding, error)) from None
    if b"\0" in body if encoding in _UTF8 else "\0" in text:
        raise Unreadable("contains a NUL character: not a text file")
    if encoding not in _UTF8 and _encoded(text, encoding) != body:
        raise Unreadable(f"decoding and encoding it as {encoding} changes its bytes")
    return Source(text=text, encoding=encoding, bom=bom, body=body)


def rewritten(source: Source, edits: Iterable[Edit]) -> bytes:
    """The file's bytes with ``edits`` (offsets in the canonical text, in order, not overlapping).

    Raises :class:`Unreadable` when the encoding cannot hold the new text or would change bytes
    outside the edits.
    """
    canonical = source.text.encode()
    old: list[bytes] = []
    new: list[bytes] = []
    at = 0
    for edit in edits:
        between = canonical[at : edit.span.start].decode()
        old += (_encoded(between, source.encoding), _encoded(edit.old, source.encoding))
        new += (old[-2], _encoded(edit.new, source.encoding))
        at = edit.span.end
    rest = _encoded(canonical[at:].decode(), source.encoding)
    if b"".join((*old, rest)) != source.body:
        raise Unreadable(f"text in {source.encoding} cannot be edited in place")
    return source.bom + b"".join((*new, rest))


def _python_encoding(body: bytes, bom: bytes) -> str:
    head = _LINES.split(body[:4096], maxsplit=2)[:2]
    for number, line in enumerate(head):
        found = _COOKIE.match(line)
        if found:
            name = found.group(1).decode("ascii", "replace")
            return _known(name, bom)
        if number == 0 and not _BLANK.match(line):
            break
    return "utf-8"


def _known(name: str, bom: bytes) -> str:
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        raise Unreadable(f"its coding line names {name!r}, an unknown encoding") from None
    if not getattr(info, "_is_text_encoding", True):
        raise Unreadable(f"its coding line names {name!r}, which is not a text encoding")
    if bom and info.name not in _UTF8:
        raise Unreadable(f"its byte order mark says UTF-8, its coding line {name!r}")
    return "utf-8" if info.name in _UTF8 else info.name


def _plain_encoding(body: bytes, bom: bytes) -> str:
    wide = not bom and body[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return "utf-16" if wide else "utf-8"


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except (UnicodeError, LookupError, ValueError) as error:
        raise Unreadable(_why(encoding, error)) from None


def _why(encoding: str, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        known = "" if encoding not in _UTF8 else " and no coding line says otherwise"
        return f"byte 0x{error.object[error.start]:02x} at {error.start} is not {encoding}{known}"
    if isinstance(error, UnicodeEncodeError):
        return f"{encoding} cannot encode a character of the text"
    return f"{encoding} cannot decode it"
