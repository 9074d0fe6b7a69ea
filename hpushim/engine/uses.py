"""What the files of a project use of the functions and classes that it defines, as far as their bytes show."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import PurePath

from hpushim.patterns import lazily

#: What says of names that they are there, and what only mentions them: imports, ``__all__``, comments, texts of several words.
_SPOKEN = lazily(
    rb"\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|\n[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]*(?:\((?:[^()#]|#[^\n]*\n)*\)|[^\n]*)"
    rb"|\n__all__[ \t]*\+?=[ \t]*[\[(][^\])]*[\])]|#[^\n]*"
    rb"|\"[^\"\n]*\"|'[^'\n]*'"
)
_DEFINITION = lazily(rb"\n(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_REGISTERS = lazily(rb"@[\w.]*register\w*", re.IGNORECASE)
_METHOD = lazily(rb"\n[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)")
#: A class that nothing but the project's own code can call: it has no base.
_ALONE = rb"\nclass[ \t]+%s[ \t]*(?:\([ \t]*(?:object)?[ \t]*\))?[ \t]*:"
_IMPORT = lazily(rb"\n[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]*(?:\([^()]*\)|[^\n]*)")
_WORD = lazily(rb"\w+|\*")
#: An entry of a table by name, and what is before and behind the value of one.
_ENTRY = lazily(rb"[\"'][\w./ +-]+[\"'][ \t]*:[ \t]*[A-Za-z_][\w.]*[ \t]*(?=[,}\r\n])")
_KEY = lazily(rb"[\"']([\w./ +-]+)[\"'][ \t]*:[ \t]*\Z")
#: A name that is the default of an option or of a parameter, or that a variable is given; what one call is given is no default.
_GIVEN = rb"(?:\bdefault[ \t]*=|\]?[\w)][ \t]+=[ \t]|\bdef[ \t]+\w+\([^()]*=)[ \t]*[\"']%s[\"']"
_END = lazily(rb"[ \t]*[,}\r\n]")
#: A table of so many names is there for who picks one of them.
_MANY = 3
#: A condition that is an option.
_TESTED = lazily(rb"[ \t]*if[ \t]+(?:\w+\.)+(\w+)[ \t]*(?:and\b[^\n]*)?:")
#: One that a run on one device does not meet.
_SEVERAL = lazily(
    rb"[ \t]*if[ \t]+(?:len\()?(?:\w+\.)*(?:\w*(?:gpus|devices|world_size|device_count)|(?:num|n|count)_?gpu|device_ids|gpu_ids)(?:\(\)|\))?[ \t]*>[ \t]*1[ \t]*:"
)
#: A line at the left margin that ends a definition.
_OUTSIDE = lazily(rb"\n[^\s)\]}#@]")


class _File:
    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    @cached_property
    def imports(self) -> frozenset[bytes] | None:
        """The words of its imports; None of a file that is no Python code, which may have any name."""
        if not self.path.endswith((".py", ".ipynb")):
            return None
        return frozenset(word for each in _IMPORT.findall(self._data) for word in _WORD.findall(each))  # fmt: skip

    @cached_property
    def text(self) -> bytes:
        """The code, without comments, imports and texts, in which a name is not used."""
        return _SPOKEN.sub(_kept, self._data)

    def naming(self, name: bytes) -> bytes:
        """The same where a name may be in it, else nothing: most files are read for few names."""
        return self.text if name in self._data else b""


class Uses:
    """The uses of names in the files of a project."""

    def __init__(self, files: Iterable[tuple[str, bytes]], off: Collection[str] = ()) -> None:
        """``off``: the options and settings that are off, but for those which a file of settings turns on, ``+name``: what is under one is no use."""
        self._off = {name.encode() for name in off if f"+{name}" not in off}
        self._files = [_File(path, b"\n" + data) for path, data in files]
        self._known: dict[tuple[str, str], bool] = {}
        self._settings: dict[str, list[_File]] = {}
        for file in self._files:
            if file.imports is None:
                self._settings.setdefault(_folder(file.path), []).append(file)

    def offered(self, path: str, name: str) -> bool:
        """Is nothing made of a function, a class or a method (``Writer.add_graph``) of a file but by others of which this is so?

        What is under a decorator is not offered, unless that registers it under its name; what a table has beside others is.
        """
        key = path, name
        if key not in self._known:
            self._known[key] = True  # they may use each other
            owner, _, method = name.partition(".")
            self._known[key] = (
                self._never_called(path, owner, method)
                if method
                else not any(
                    self._is_used(file, use, name) for file, use in self._found(path, name)
                )
            )
        return self._known[key]

    def idle(self, path: str) -> bool:
        """Does no other file import a file, or name it: as a text, in settings?"""
        place = PurePath(path)
        name = (place.parent if place.stem == "__init__" else place).stem
        written, word = name.encode(), _word(name)
        return not any(
            file.path != path and (word.search(file.naming(written)) or written in (file.imports or ()))
            for file in self._files
        )  # fmt: skip

    def _never_called(self, path: str, owner: str, method: str) -> bool:
        """Is a method of a class without bases named nowhere but where it is defined?"""
        alone = re.compile(_ALONE % owner.encode())
        if method.startswith("__") or not any(
            f.path == path and alone.search(f.text) for f in self._files
        ):
            return False
        return all(
            use.string[: use.start()].rstrip().endswith(b"def") or _within(use) == method
            or (file.imports is not None and (inside := _around(use)) is not None and self._is_within(file, use, inside))
            for file in self._files
            for use in _word(method).finditer(file.naming(method.encode()))
        )  # fmt: skip

    def _found(self, path: str, name: str) -> Iterator[tuple[_File, re.Match[bytes]]]:
        """Where a name of a file may be used: there, in files that import it or its module, by its package (``ours.scale``), and as a text."""
        written, place = name.encode(), PurePath(path)
        packages = {part.encode() for part in place.parts}
        taken = {written, b"*", place.stem.encode()}
        for file in self._files:
            text = file.naming(written)
            if not text:
                continue
            near = file.path == path or file.imports is None or not taken.isdisjoint(file.imports)
            fronts = (b"'", b'"', b"." if packages & (file.imports or set()) else b"'")
            for use in _word(name).finditer(text):
                if near or text[use.start() - 1 : use.start()] in fronts:
                    yield file, use

    def _is_used(self, file: _File, use: re.Match[bytes], name: str) -> bool:
        if file.imports is None:
            return not self._is_setting(file, name)
        if self._is_requested(use):
            return False
        owner = _around(use)
        if owner is None:
            return not self._is_listed(use)
        inside = owner[1].decode()
        if owner.start(1) == use.start():
            above = next(filter(None, map(bytes.strip, use.string[: owner.start()].split(b"\n")[::-1])), b"")  # fmt: skip
            return above.startswith((b"@", b")")) and not _REGISTERS.match(above)
        return inside != name and not self._is_listed(use) and not self._is_within(file, use, owner)

    def _is_requested(self, use: re.Match[bytes]) -> bool:
        """Is a use under ``if args.profile:``, of an option that is off, or ``if len(gpus) > 1:``?"""
        lines = use.string[: use.start()].split(b"\n")
        depth = len(lines[-1]) - len(lines[-1].lstrip())
        for line in reversed(lines[:-1]):
            inner = len(line) - len(line.lstrip())
            if line.strip() and inner < depth:
                tested = _TESTED.match(line)
                if (tested and tested[1] in self._off) or _SEVERAL.match(line):
                    return True
                depth = inner
            if not depth:
                break
        return False

    def _is_within(self, file: _File, use: re.Match[bytes], owner: re.Match[bytes]) -> bool:
        """Is a use in a definition, or in a method of it, that is only offered itself?"""
        inside, method = owner[1].decode(), _within(use, owner.end())
        if self.offered(file.path, inside):
            return True
        return bool(method) and self.offered(file.path, f"{inside}.{method}")

    def _is_setting(self, file: _File, name: str) -> bool:
        """Is a file of settings, one of many in its folder that no other names, the only one there with a name?"""
        others = (each for each in self._settings[_folder(file.path)] if each is not file)
        return not any(_word(name).search(each.text) for each in others) and not self._is_picked(file)  # fmt: skip

    def _is_picked(self, file: _File) -> bool:
        """Is it the only one of its kind in its folder, or one that a picked one names: ``env: tsp``, ``env/tsp.yaml``?"""
        key = file.path, ""
        if key not in self._known:
            self._known[key] = False  # they may name each other
            place = PurePath(file.path)
            folders = b"|".join(re.escape(part.name.encode()) for part in [*place.parents][:2] if part.name)  # fmt: skip
            named = re.compile(rb"(?:\b(?:%s)(?:@[\w.]+)?[ \t]*:[ \t]*[\"']?|\b(?:%s)/)(?:[\w.-]+/)*%s(?![\w-])" % (folders, folders, re.escape(place.stem.encode())))  # fmt: skip
            self._known[key] = len(self._settings[_folder(file.path)]) < _MANY or any(
                each is not file and named.search(each.text) and (each.imports is not None or self._is_picked(each))
                for each in self._files
            )  # fmt: skip
        return self._known[key]

    def _is_listed(self, use: re.Match[bytes]) -> bool:
        """Is it the value of one of many names in a table, and is that name the default of nothing: ``def train(env="tsp")``?"""
        text = use.string
        key = _KEY.search(text[text.rfind(b"\n", 0, use.start()) + 1 : use.start()])
        if key is None or not _END.match(text, use.end()):
            return False
        start, end = text.rfind(b"{", 0, use.start()), text.find(b"}", use.end())
        given = re.compile(_GIVEN % re.escape(key[1]))
        return len(_ENTRY.findall(text, start, end + 1)) >= _MANY and not any(
            _owner(found) != use[0] for file in self._files for found in given.finditer(file.text)
        )


def _kept(found: re.Match[bytes]) -> bytes:
    """A text of one word, which may name something."""
    return found[0] if found[0][:1] in (b"'", b'"') and b" " not in found[0] and found[0][:3] not in (b"'''", b'"""') else b" "  # fmt: skip


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<!\w)%s(?!\w)" % name.encode())


def _around(use: re.Match[bytes]) -> re.Match[bytes] | None:
    """The definition at the left margin in which a use is."""
    owner = max(_DEFINITION.finditer(use.string, 0, use.end()), key=re.Match.start, default=None)
    return owner if owner and not _OUTSIDE.search(use.string, owner.end(), use.end()) else None


def _within(use: re.Match[bytes], start: int = 0) -> str:
    """The method in which a use is."""
    last = max(_METHOD.finditer(use.string, start, use.start()), key=re.Match.start, default=None)
    inside = last is not None and not _OUTSIDE.search(use.string, last.end(), use.start())
    return last[1].decode() if last is not None and inside else ""


def _owner(found: re.Match[bytes]) -> bytes:
    """The function or class at the left margin in which something is, or the last one before it."""
    owners = [*_DEFINITION.finditer(found.string, 0, found.start())]
    return owners[-1][1] if owners else b""
