"""What is known about a whole project before its files are read one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hpushim.engine.base.text import Project
from hpushim.engine.data.pins import pins, says_versions
from hpushim.engine.files.discover import File

#: ``def`` below module level; a nested function counts as a method, which errs on the careful side.
_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
#: Those that are read, not called.
_PROPERTY = re.compile(
    rb"^[ \t]+@[\w.]*(?:property|\.setter)\b[^\n]*\n[ \t]+def[ \t]+(\w+)", re.MULTILINE
)
#: Classes that scale losses, and may step the optimizer with it.
_SCALER = re.compile(rb"^[ \t]*class[ \t]+(\w*Scaler\w*)", re.MULTILINE)
#: Functions with a step in them, and what shows that a file knows of devices (which is then marked itself).
_FUNCTION = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_STEP = re.compile(rb"\b\w*opt\w*(?:\[[^\]\n]*\])?\.step\(|\.backward\(")
_DEVICE = re.compile(rb"(?i)cuda|gpu|hpu|device|rank|accelerat|deepspeed|apex|backward\([\w.]*loss")
#: What declares options of a command line, and the text of one.
_DECLARES = (b"add_argument", b"add_option", b"click.option")
_OPTION = re.compile(rb"[\"'](--[A-Za-z0-9][A-Za-z0-9_-]*)[\"']")


class Facts:
    """Collects what the files of a project say, each seen once."""

    def __init__(self) -> None:
        self._methods: Counter[bytes] = Counter()
        self._asked: dict[tuple[str, str], None] = {}
        self._options: set[bytes] = set()
        self._scalers: set[bytes] = set()
        self._steppers: set[bytes] = set()
        self._marked: set[bytes] = set()

    def see(self, file: File, data: bytes) -> None:
        if file.kind == "python":
            self._methods.update(_METHOD.findall(data))
            self._methods.subtract(_PROPERTY.findall(data))
            if b"Scaler" in data and b".step(" in data:
                self._scalers.update(_SCALER.findall(data))
            if _STEP.search(data):
                known = self._marked if _DEVICE.search(data) else self._steppers
                known.update(_stepping(data))
            if any(word in data for word in _DECLARES):
                self._options.update(_OPTION.findall(data))
        if says_versions(file.path, file.kind):
            self._asked.update(dict.fromkeys(pins(data, file.kind).items()))

    def project(self, root: Path, files: Sequence[File]) -> Project:
        return Project(
            frozenset(name.decode("utf-8", "replace") for name in +self._methods),
            modules(root, files),
            tuple(self._asked),
            frozenset(name.decode("ascii") for name in self._options),
            frozenset(name.decode("utf-8", "replace") for name in self._scalers),
            frozenset(name.decode("utf-8", "replace") for name in self._steppers - self._marked),
        )


def _stepping(data: bytes) -> set[bytes]:
    """The functions of a file that step, or that call one of its functions that do."""
    parts = _FUNCTION.split(data)[1:]  # name, what follows up to the next definition, name, …
    bodies = list(zip(parts[::2], parts[1::2], strict=True))
    found = {name for name, body in bodies if _STEP.search(body)}
    for name, body in bodies:
        if any(b"." + inner + b"(" in body for inner in found):
            found = found | {name}
    return found


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
