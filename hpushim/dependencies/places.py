"""Where the files of packages are: in virtual environments, in folders of wheels, beside hpushim."""

from __future__ import annotations

import csv
import re
import site
import stat
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import msgspec

from hpushim import safe_files
from hpushim.dependencies.audit import File
from hpushim.errors import HpushimError

_ENVIRONMENTS = (".venv", "venv", "env")
_NAME = re.compile(r"[-_.]+")
_REQUIRED = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*([^;]*)(;.*)?$")


class Package(msgspec.Struct, frozen=True):
    """An installed distribution or a wheel, with the names that it is imported by."""

    name: str
    version: str
    imports: frozenset[str]
    requires: tuple[str, ...]
    #: The folder of packages that it lies in, or its wheel.
    at: Path
    members: tuple[str, ...]

    def files(self) -> Iterator[File]:
        """Its files; what is no regular file, or lies outside, is left out."""
        if self.at.is_file():
            with zipfile.ZipFile(self.at) as wheel:
                for info in wheel.infolist():
                    yield info.filename, info.file_size, partial(_member, wheel, info)
            return
        for member in self.members:
            path = self.at / member
            try:
                found = path.lstat()
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(found.st_mode) and ".." not in Path(member).parts:
                yield member, found.st_size, partial(_read, path)


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return _NAME.sub("-", name).lower()


class Places:
    """The packages that can be looked into, the first place that has one first.

    Raises :class:`HpushimError` for an environment or a folder of wheels that was named and is not there.
    """

    def __init__(self, root: Path, python: Path | None = None, wheels: Path | None = None) -> None:
        folders = _folders(root, python)
        self._imports: dict[str, Package] = {}
        self._names: dict[str, Package] = {}
        packages = [*_wheels(wheels)] if wheels is not None else []
        packages += [package for folder in folders for package in _installed(folder)]
        for package in packages:
            self._names.setdefault(normal(package.name), package)
            for name in package.imports:
                self._imports.setdefault(name, package)

    def imported(self, name: str) -> Package | None:
        """The package that ``import name`` would take."""
        return self._imports.get(name)

    def named(self, name: str) -> Package | None:
        """The package of a distribution's name."""
        return self._names.get(normal(name))


def state(root: Path, python: Path | None = None) -> list[tuple[str, int]]:
    """Changes when a package is installed or removed where :class:`Places` looks."""
    return [(str(folder), folder.stat().st_mtime_ns) for folder in _folders(root, python)]


def _folders(root: Path, python: Path | None) -> list[Path]:
    folders: list[Path] = []
    if python is not None:
        folders += _site_packages(python)
        if not folders:
            raise HpushimError(f"--env {python}: no packages of an environment there; give its folder or its Python")  # fmt: skip
    for name in _ENVIRONMENTS:
        folders += _site_packages(root / name)
    return [*folders, *(Path(each) for each in site.getsitepackages() if Path(each).is_dir())]


def _site_packages(environment: Path) -> Iterator[Path]:
    """The folders of packages of an environment, which is named by its folder or by its Python; it is not run."""
    folder = environment.parent.parent if environment.is_file() else environment
    for pattern in ("lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages"):  # fmt: skip
        yield from sorted(path for path in folder.glob(pattern) if path.is_dir())


def _installed(folder: Path) -> Iterator[Package]:
    for found in metadata.distributions(path=[str(folder)]):
        try:
            about = found.metadata  # parsed at each access
            name, version = about["Name"], about["Version"]
            record = found.read_text("RECORD")
            if record is None:
                listed = [str(file) for file in found.files or ()]
                requires = tuple(found.requires or ())
            else:  # ``files`` makes a path of each of tens of thousands
                listed = [row[0] for row in csv.reader(record.splitlines()) if row]
                requires = tuple(about.get_all("Requires-Dist") or ())
        except (OSError, KeyError, ValueError, UnicodeError, TypeError, csv.Error):
            continue
        if name:
            yield _package(name, version, listed, requires, folder)


def _wheels(folder: Path) -> Iterator[Package]:
    if not folder.is_dir():
        raise HpushimError(f"--wheels {folder}: no such folder")
    for path in sorted(folder.glob("*.whl")):
        name, version = [*path.name.split("-"), ""][:2]
        try:
            with zipfile.ZipFile(path) as wheel:
                listed = wheel.namelist()
                about = next((n for n in listed if n.endswith(".dist-info/METADATA")), None)
                text = _member(wheel, wheel.getinfo(about), 1 << 20) if about else b""
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
            continue
        requires = re.findall(r"^Requires-Dist:(.*)$", text.decode("utf-8", "replace"), re.MULTILINE)  # fmt: skip
        yield _package(name, version, listed, tuple(requires), path)


def _package(
    name: str, version: str, listed: Sequence[str], requires: tuple[str, ...], at: Path
) -> Package:
    tops = set()
    for member in listed:
        first, _, rest = member.partition("/")
        if not first.endswith((".dist-info", ".egg-info", ".data")) and first not in ("..", "__pycache__"):  # fmt: skip
            tops.add(first if rest else first.partition(".")[0])
    needed = [
        match[1]
        for match in map(_REQUIRED.match, requires)
        if match and "extra" not in (match[3] or "")
    ]
    return Package(name, version, frozenset(filter(str.isidentifier, tops)), tuple(needed), at, tuple(listed))  # fmt: skip


def _member(wheel: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """The first bytes of a member; none of one that is damaged."""
    try:
        with wheel.open(info) as stream:
            return stream.read(most)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError):
        return b""


def _read(path: Path, most: int) -> bytes:
    try:
        return safe_files.head(path, most)
    except OSError:
        return b""
