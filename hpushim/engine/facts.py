"""What is known about a whole project before its files are read one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpushim.engine.base.text import Project
from hpushim.engine.data.pins import pins, says_versions
from hpushim.engine.files.discover import File
from hpushim.engine.links import Links
from hpushim.engine.rules.registry import rules
from hpushim.engine.rules.wants import FRAMEWORKS, ProjectFact

#: ``def`` below module level; a nested function counts as a method, which errs on the careful side.
#: Like all patterns here it begins with the newline before: other places are then passed over at the speed of memory.
_METHOD = re.compile(rb"\n[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)")
#: Those that are read, not called.
_PROPERTY = re.compile(rb"\n[ \t]+@[\w.]*(?:property|\.setter)\b[^\n]*\n[ \t]+def[ \t]+(\w+)")
#: The other statements at the top of a module that give torch's things a name of its own.
_NAMED = re.compile(
    rb"\n(?:import[ \t]+torch[\w.]*[ \t]+as[ \t]+(\w+)|(\w+)[ \t]*=[^\n]*\btorch\.)"
)
_WORD = re.compile(rb"\w+")
_CODE = frozenset({"python", "notebook", "yaml", "json", "toml", "ini", "shell", "makefile"})
#: What declares options of a command line, and the text of one.
_DECLARES = (b"add_argument", b"add_option", b"click.option")
_OPTION = re.compile(rb"[\"'](--[A-Za-z0-9][A-Za-z0-9_-]*)[\"']")


class Facts:
    """Collects what the files of a project say, each seen once."""

    def __init__(self) -> None:
        self._methods: Counter[bytes] = Counter()
        self._asked: dict[tuple[str, str], None] = {}
        self._options: set[bytes] = set()
        #: What the files that import all of a module say, and the names that anybody gives to what is torch's.
        self._stars: list[tuple[str, frozenset[str]]] = []
        self._named: set[bytes] = set()
        wanted = dict.fromkeys(fact for rule in rules() for fact in rule.facts)
        #: In how many files each name of a fact was found.
        self._collected: dict[ProjectFact, Counter[bytes]] = {fact: Counter() for fact in wanted}
        self._asked_for = {text for rule in rules() for text in rule.wants.project}
        self._mentioned: set[str] = set()
        self._links = Links()
        #: Of facts about files: those that have it.
        self._having: dict[ProjectFact, set[str]] = {fact: set() for fact in wanted if fact.spreads}

    def see(self, file: File, data: bytes) -> None:
        if file.kind in ("python", "notebook"):
            data = b"\n" + data
            for fact, found in self._collected.items():
                if fact.notebooks or file.kind == "python":
                    said = set(fact.find(data))
                    found.update(said)
                    if said and fact.spreads:
                        self._having[fact].add(file.shown)
        if file.kind == "python":
            self._methods.update(_METHOD.findall(data))
            self._methods.subtract(_PROPERTY.findall(data))
            for module in self._links.see(file.shown, data):
                self._stars.append((module, frozenset(map(_text, _WORD.findall(data)))))
            self._named.update(one or two for one, two in _NAMED.findall(data))
            if any(word in data for word in _DECLARES):
                self._options.update(_OPTION.findall(data))
        if file.kind in _CODE:
            waiting = self._asked_for - self._mentioned
            self._mentioned |= {text for text in waiting if _in_code(data, text.encode())}
        if says_versions(file.path, file.kind):
            self._asked.update(dict.fromkeys(pins(data, file.kind).items()))

    def project(self, root: Path, files: Sequence[File]) -> Project:
        own = modules(root, files)
        return Project(
            frozenset(name.decode("utf-8", "replace") for name in +self._methods),
            own,
            tuple(self._asked),
            frozenset(name.decode("ascii") for name in self._options),
            frozenset(self._imports(own | {file.path.stem for file in files})),
            tuple(
                (fact.name, frozenset(name.decode("utf-8", "replace") for name in found))
                for fact, found in self._collected.items()
            ),
            frozenset(file.shown for file in files if file.kind == "python"),
            frozenset(self._mentioned),
            shadowing(files),
            tuple(
                (fact.name, self._links.around(having))
                for fact, having in self._having.items()
                if having
            ),
        )

    @property
    def other_framework(self) -> str:
        """The framework that most files import, where none imports one that the rules are about; else ""."""
        count = next((n for fact, n in self._collected.items() if fact.name == FRAMEWORKS), None)
        if not count or b"" in count:
            return ""
        return min(count, key=lambda name: (-count[name], name)).decode()

    def _imports(self, own: frozenset[str]) -> Iterator[tuple[str, str]]:
        """What is imported from the project's own modules; a script's neighbours are found without their package."""
        named = set(map(_text, self._named))
        for module, name in self._links.taken():
            if name != "*" and (module.startswith(".") or module.partition(".")[0] in own):
                yield module.rpartition(".")[2], name
            named.add(name)
        for module, words in self._stars:
            for name in words & named:
                yield module.rpartition(".")[2], name


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _in_code(data: bytes, text: bytes) -> bool:
    """Does the text stand in a line before any ``#``?"""
    at = data.find(text)
    while at >= 0:
        if b"#" not in data[data.rfind(b"\n", 0, at) + 1 : at]:
            return True
        at = data.find(text, at + 1)
    return False


def modules(root: Path, files: Sequence[File]) -> frozenset[str]:
    """The names under which the project's own modules and packages can be imported."""
    found: set[str] = set()
    packages = {file.path.parent for file in files if file.path.name == "__init__.py"}
    for file in files:
        if file.kind != "python":
            continue
        folder = file.path.parent
        if folder not in packages and file.path.stem.isidentifier():
            found.add(file.path.stem)
        for inner in (folder, *folder.parents):
            if inner == root or root not in inner.parents:
                break
            if inner.parent not in packages and inner.name.isidentifier():
                found.add(inner.name)
    return frozenset(found)


def shadowing(files: Sequence[File]) -> frozenset[str]:
    """The top-level names that Python takes before an installed package: a folder without ``__init__.py`` comes after it."""
    python = [file.path for file in files if file.kind == "python"]
    packages = {path.parent for path in python if path.name == "__init__.py"}
    tops = {path.name for path in packages if path.parent not in packages}
    return frozenset(tops | {path.stem for path in python if path.parent not in packages})
