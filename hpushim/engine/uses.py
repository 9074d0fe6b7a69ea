"""What the files of a project use of the functions and classes that it defines, as far as their bytes show."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpushim.patterns import lazily

#: What says of names that they are there, and what only speaks of them: imports, ``__all__``, comments, texts of several words.
_SPOKEN = lazily(
    rb"\n[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]*(?:\((?:[^()#]|#[^\n]*\n)*\)|[^\n]*)"
    rb"|\n__all__[ \t]*\+?=[ \t]*[\[(][^\])]*[\])]|#[^\n]*"
    rb"|\"[^\"\n]*[ ][^\"\n]*\"|'[^'\n]*[ ][^'\n]*'"
)
_DEFINITION = lazily(rb"\n(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_REGISTERS = lazily(rb"@[\w.]*register\w*", re.IGNORECASE)
#: A line at the left margin that ends a definition.
_OUTSIDE = lazily(rb"\n[^\s)\]}#@]")


class Uses:
    """The uses of names in the texts of a project."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = [_SPOKEN.sub(b" ", b"\n" + data) for data in texts]
        self._known: dict[str, bool] = {}

    def offered(self, name: str) -> bool:
        """Is nothing made of a function or a class but by others of which this is so?

        What is under a decorator is not offered, unless that registers it under its name.
        """
        if name not in self._known:
            self._known[name] = True  # they may use each other
            self._known[name] = not any(map(self._is_used, self._found(name)))
        return self._known[name]

    def _found(self, name: str) -> Iterable[tuple[str, re.Match[bytes]]]:
        written = name.encode()
        word = re.compile(rb"(?<!\w)%s(?!\w)" % written)
        return ((name, use) for text in self._texts if written in text for use in word.finditer(text))  # fmt: skip

    def _is_used(self, found: tuple[str, re.Match[bytes]]) -> bool:
        name, use = found
        owner = max(_DEFINITION.finditer(use.string, 0, use.end()), key=re.Match.start, default=None)  # fmt: skip
        if owner is None or _OUTSIDE.search(use.string, owner.end(), use.end()):
            return True
        inside = owner[1].decode()
        if owner.start(1) == use.start():
            above = next(filter(None, map(bytes.strip, use.string[: owner.start()].split(b"\n")[::-1])), b"")  # fmt: skip
            return above.startswith((b"@", b")")) and not _REGISTERS.match(above)
        return inside != name and not self.offered(inside)
