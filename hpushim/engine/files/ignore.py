"""Patterns of ignore files, matched in time that grows with pattern and path and no faster.

They mean what git says (``git help ignore``): the last pattern that matches decides, ``!`` takes back, a slash before the
end ties a pattern to the folder of its file, ``**`` represents any folders. A pattern is cut at its stars into pieces of
fixed length; taking each piece at the first place where it fits is always right, so nothing is ever tried twice.
A pattern that git cannot match either (``[a``, ``a\\``) matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

#: Longer ones are nobody's, and no path is as long.
_LONGEST = 4096
_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}

#: Pieces of a pattern: text, or the regular expression of so many characters.
_Piece = str | tuple[str, int]


class Patterns:
    """The patterns of one ignore file."""

    def __init__(self, lines: Iterable[str]) -> None:
        #: For names and paths without wildcards, and for ``*.ext``: the last verdict on anything and on folders.
        self._names: dict[str, _Verdicts] = {}
        self._paths: dict[str, _Verdicts] = {}
        self._endings: dict[str, _Verdicts] = {}
        #: All others, the last one first: with what the path begins with, and the name with and ends in.
        self._others: list[tuple[int, bool, bool, str, str, str, _Glob | _Path]] = []
        for order, line in enumerate(lines):
            self._add(order, line)
        self._others.reverse()

    def _add(self, order: int, line: str) -> None:
        line = _trimmed(line)
        if not line or line.startswith("#") or len(line) > _LONGEST:
            return
        out = not line.startswith("!")
        line = line.removeprefix("!")
        folders = line.endswith("/")
        line = line.removesuffix("/")
        tied = "/" in line
        tokens = _tokens(line.removeprefix("/"))
        if tokens is None or not tokens:
            return
        if all(isinstance(token, str) and token != "*" for token in tokens):
            table = self._paths if tied else self._names
            table.setdefault("".join(map(_plain, tokens)), _Verdicts()).add(order, out, folders)
            return
        if not tied:
            glob = _Glob(tokens)
            if glob.ending:
                self._endings.setdefault(glob.ending, _Verdicts()).add(order, out, folders)
            else:
                self._others.append((order, out, folders, "", *glob.ends, glob))
        else:
            path = _Path(tokens)
            self._others.append((order, out, folders, *path.ends, path))

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Is ``path``, relative to the ignore file's folder, ignored (True) or taken back (False)? None: not said."""
        name = path.rpartition("/")[2]
        best, out = -1, False
        tables = [self._names.get(name), self._paths.get(path)]
        if self._endings:
            dot = name.find(".")
            while dot >= 0:
                tables.append(self._endings.get(name[dot:]))
                dot = name.find(".", dot + 1)
        for found in tables:
            if found is not None:
                order, verdict = found.folder if is_folder else found.anything
                if order > best:
                    best, out = order, verdict
        parts: list[str] | None = None
        for order, verdict, folders, top, first, last, pattern in self._others:
            if order < best:
                break
            if folders and not is_folder:
                continue
            if not (name.startswith(first) and name.endswith(last) and path.startswith(top)):
                continue
            if isinstance(pattern, _Glob):
                fits = pattern.fits(name)
            else:
                parts = path.split("/") if parts is None else parts
                fits = pattern.fits(parts)
            if fits:
                return verdict
        return out if best >= 0 else None


class _Verdicts:
    """Of patterns for one text: order and verdict of the last that holds for anything, and for folders."""

    __slots__ = ("anything", "folder")

    def __init__(self) -> None:
        self.anything = self.folder = (-1, False)

    def add(self, order: int, out: bool, folders: bool) -> None:
        self.folder = (order, out)
        if not folders:
            self.anything = (order, out)


class _Glob:
    """A pattern for one name."""

    def __init__(self, tokens: list[_Piece]) -> None:
        runs: list[list[_Piece]] = [[]]
        for token in tokens:
            if token == "*":
                runs.append([])
            else:
                runs[-1].append(token)
        self._first, *rest = (_joined(run) for run in runs)
        self._last = rest.pop() if rest else None
        self._middle = [piece for piece in rest if piece != ""]
        simple = self._first == "" and not rest and isinstance(self._last, str)
        #: ``.py`` for ``*.py``; empty for anything else.
        self.ending = (
            self._last if simple and isinstance(self._last, str) and self._last[:1] == "." else ""
        )

    @property
    def ends(self) -> tuple[str, str]:
        """What a name begins with and ends in, as far as that is text."""
        first, last = self._first, self._first if self._last is None else self._last
        return first if isinstance(first, str) else "", last if isinstance(last, str) else ""

    def fits(self, name: str) -> bool:
        at = _at(self._first, name, 0)
        if self._last is None:
            return at == len(name)
        if at < 0:
            return False
        for piece in self._middle:
            at = _after(piece, name, at)
            if at < 0:
                return False
        start = len(name) - _length(self._last)
        return start >= at and _at(self._last, name, start) >= 0


class _Path:
    """A pattern for a path: globs for its parts, None for ``**``."""

    def __init__(self, tokens: list[_Piece]) -> None:
        parts: list[list[_Piece]] = [[]]
        for token in tokens:
            if token == "/":
                parts.append([])
            else:
                parts[-1].append(token)
        self._globs = [None if part == ["*", "*"] else _Glob(part) for part in parts]

    @property
    def ends(self) -> tuple[str, str, str]:
        """What a path begins with, and its last part begins with and ends in, as far as that is text."""
        top, last = self._globs[0], self._globs[-1]
        return top.ends[0] if top else "", *(last.ends if last else ("", ""))

    def fits(self, parts: list[str]) -> bool:
        globs = self._globs
        at = index = 0
        star, resume = -1, 0
        while at < len(parts):
            if index < len(globs) and globs[index] is None:
                if index == len(globs) - 1:
                    return True  # all the rest, which is at least one part
                star, resume = index, at
                index += 1
                continue
            if index < len(globs) and (glob := globs[index]) is not None and glob.fits(parts[at]):
                at, index = at + 1, index + 1
            elif star >= 0:
                resume += 1
                at, index = resume, star + 1
            else:
                return False
        return index == len(globs)


def _trimmed(line: str) -> str:
    line = line.removesuffix("\r")
    bare = line.rstrip(" ")
    # A backslash keeps the space after it, unless it is one that is kept itself.
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and len(bare) < len(line) else bare


def _tokens(text: str) -> list[_Piece] | None:
    """Characters, ``/``, ``*``, and the expressions of ``?`` and brackets; None for what cannot match.

    A literal star is an expression, too. Two stars are left where they represent folders.
    """
    found: list[_Piece] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
            if at == len(text):
                return None
            found.append(_literal(text[at]))
        elif sign == "?":
            found.append(("[^/]", 1))
        elif sign == "*":
            end = at
            while end < len(text) and text[end] == "*":
                end += 1
            whole = end - at > 1 and text[at - 1 : at] in ("", "/") and text[end : end + 1] in ("", "/")  # fmt: skip
            found += ["*", "*"] if whole else ["*"]
            at = end - 1
        elif sign == "[":
            inner, at = _bracket(text, at + 1)
            if inner is None:
                return None
            found.append((inner, 1))
        else:
            found.append(sign)
        at += 1
    return found


def _literal(sign: str) -> _Piece:
    return ("[*]", 1) if sign == "*" else sign


def _plain(token: _Piece) -> str:
    return token if isinstance(token, str) else token[0]


def _bracket(text: str, at: int) -> tuple[str | None, int]:
    """The expression of a bracket that was opened before ``at``, and where it closes; None if it does not."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    start = at
    items: list[str] = []
    while at < len(text) and (text[at] != "]" or at == start):
        if text.startswith("[:", at) and (end := text.find(":]", at + 2)) >= 0:
            known = _CLASSES.get(text[at + 2 : end])
            if known is None:
                return None, at
            items.append(known)
            at = end + 2
            continue
        low, at = _member(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(text, at + 1)
            # Of a range that runs backwards, git takes the first character.
            items.append(f"{re.escape(low)}-{re.escape(high if low <= high else low)}")
        else:
            items.append(re.escape(low))
    if at >= len(text):
        return None, at
    if not items:
        return ("[^/]" if negated else "(?!)"), at
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]", at


def _member(text: str, at: int) -> tuple[str, int]:
    if text[at] == "\\" and at + 1 < len(text):
        at += 1
    return text[at], at + 1


def _joined(run: list[_Piece]) -> _Piece:
    if all(isinstance(token, str) for token in run):
        return "".join(map(_plain, run))
    parts: Iterator[str] = (re.escape(t) if isinstance(t, str) else t[0] for t in run)
    return "(?s:" + "".join(parts) + ")", len(run)


def _length(piece: _Piece) -> int:
    return len(piece) if isinstance(piece, str) else piece[1]


def _at(piece: _Piece, text: str, start: int) -> int:
    """Where a piece that is at ``start`` ends; -1 if it is not there."""
    if isinstance(piece, str):
        return start + len(piece) if text.startswith(piece, start) else -1
    found = _compiled(piece[0]).match(text, start)
    return found.end() if found else -1


def _after(piece: _Piece, text: str, start: int) -> int:
    """Where the first such piece from ``start`` on ends."""
    if isinstance(piece, str):
        found = text.find(piece, start)
        return -1 if found < 0 else found + len(piece)
    match = _compiled(piece[0]).search(text, start)
    return match.end() if match else -1


_expressions: dict[str, re.Pattern[str]] = {}


def _compiled(expression: str) -> re.Pattern[str]:
    if expression not in _expressions:
        _expressions[expression] = re.compile(expression)
    return _expressions[expression]
