"""Which files of a project are looked at, and why the others are not.

Files that are named are always taken. In folders: ``.gitignore`` is obeyed, folders that hold no
project code (virtual environments, caches, other repositories, vendored code) are passed over, symbolic
links are taken once, by what they point to. A folder or file of which a user may have thought that it was
looked at is listed with the reason.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.base.kind import Kind
from hpushim.engine.files import kinds
from hpushim.errors import HpushimError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

#: Never the user's code, not worth a line in the report.
_SILENT = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".hpushim",
        "__pycache__",
        ".tox",
        ".nox",
        ".eggs",
        ".venv",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".ipynb_checkpoints",
        "node_modules",
        "site-packages",
    ]
)
_VENDORED = frozenset(
    ["third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "_vendor"]
)
_MAX_BYTES = 1 << 20  # of a file that is neither Python nor a notebook: above it, it is data
_MAX_CODE_BYTES = 64 << 20
_MAX_LINE = 50_000
_HEAD = 2048
_GENERATED = re.compile(
    rb"^[^\n]*@generated\b"
    rb"|(?s:\bgenerated\b.{0,400}?\bdo(?:\s+not|n'?t)\s+(?:edit|modify|change)\b)"
    rb"|(?s:\bdo(?:\s+not|n'?t)\s+(?:edit|modify|change)\b.{0,400}?\bgenerated\b)",
    re.IGNORECASE | re.MULTILINE,
)
_GENERATED_NAME = re.compile(r"_pb2(?:_grpc)?\.py$|\.min\.[a-z]+$")


class File(msgspec.Struct, frozen=True):
    """One file to look at."""

    path: Path
    #: As the report shows it: relative to the root where it lies below it, with ``/``.
    shown: str
    kind: Kind
    #: Named on the command line, so that nothing keeps it out.
    explicit: bool = False


class Passed(msgspec.Struct, frozen=True):
    """A file or folder (``shown`` ends in ``/``) that is left out, or cannot be looked at."""

    shown: str
    reason: str
    failed: bool = False


class Found(msgspec.Struct, frozen=True):
    """What lies under the paths that were given."""

    files: tuple[File, ...]
    passed: tuple[Passed, ...]


def project_root(paths: Sequence[Path]) -> Path:
    """The folder that findings are shown relative to and that ``.hpushim`` lives in.

    The folder given; for files the nearest one upwards that looks like a project, else their own.
    """
    if not paths:
        return Path.cwd()
    folders = [p.resolve() if p.is_dir() else p.resolve().parent for p in paths]
    root = Path(os.path.commonpath(folders))
    if any(p.is_dir() for p in paths):
        return root
    for folder in (root, *root.parents):
        if any((folder / mark).exists() for mark in (".git", "pyproject.toml", "setup.py")):
            return folder
    return root


def discover(
    paths: Sequence[Path], root: Path, wanted: frozenset[Kind], exclude: Sequence[str] = ()
) -> Found:
    """The files of ``wanted`` kinds under ``paths``, in path order, each real file once.

    Raises :class:`HpushimError` for a path that does not exist.
    """
    walk = _Walk(root, wanted, exclude)
    for path in paths:
        if path.is_dir():
            walk.folder(path.resolve())
        elif path.exists() or path.is_symlink():
            walk.explicit(path)
        else:
            raise HpushimError(f"{path}: no such file or folder; check the path")
    files = sorted(walk.files.values(), key=lambda file: file.shown)
    return Found(tuple(files), tuple(sorted(walk.passed, key=lambda item: item.shown)))


def left_out(file: File, data: bytes) -> str | None:
    """Why a file that was found is left out after all, by its content; None to look at it."""
    if file.explicit:
        return None
    if _GENERATED_NAME.search(file.path.name) or _GENERATED.search(_comments(data[:_HEAD])):
        return "generated file: change what generates it"
    if file.kind in ("python", "shell") and len(data) > _MAX_LINE:
        longest = max(map(len, data.split(b"\n")))
        if longest > _MAX_LINE:
            return f"a line of {longest} characters: generated or minified"
    return None


def _comments(head: bytes) -> bytes:
    """The comment lines, docstring text and blank lines that a file begins with."""
    kept: list[bytes] = []
    for line in head.split(b"\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith(
            (b"#", b"//", b"/*", b"*", b'"""', b"'''", b"r'''")
        ):
            break
        kept.append(line)
    return b"\n".join(kept)


class _Walk:
    def __init__(self, root: Path, wanted: frozenset[Kind], exclude: Sequence[str]) -> None:
        self.root = root
        self.wanted = wanted
        self.files: dict[Path, File] = {}
        self.passed: list[Passed] = []
        self.excluded = _spec(exclude) if exclude else None

    def show(self, path: Path) -> str:
        try:
            relative = path.relative_to(self.root)
        except ValueError:
            relative = path
        # A name that is not UTF-8 must not break the report.
        return os.fsencode(relative.as_posix()).decode("utf-8", "backslashreplace")

    def explicit(self, path: Path) -> None:
        try:
            real = path.resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, RuntimeError):
            self.passed.append(Passed(self.show(path), "a symbolic link to nothing", failed=True))
            return
        if not stat.S_ISREG(mode):
            self.passed.append(Passed(self.show(real), "not a regular file", failed=True))
            return
        kind = kinds.by_name(path) or kinds.by_first_line(_head(real)) or "python"
        if kind in self.wanted:
            self.files[real] = File(real, self.show(real), kind, explicit=True)
        else:
            self.passed.append(Passed(self.show(real), f"no rule reads a {kind} file"))

    def folder(self, top: Path) -> None:
        stack: list[tuple[Path, tuple[tuple[Path, GitIgnoreSpec], ...]]] = [(top, _above(top))]
        while stack:
            folder, specs = stack.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                reason = f"cannot be listed: {error.strerror}"
                self.passed.append(Passed(f"{self.show(folder)}/", reason, failed=True))
                continue
            names = {entry.name for entry in entries}
            if ".gitignore" in names:
                specs = (*specs, *_read_ignore(folder, folder / ".gitignore"))
            for entry in entries:
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._out(path, is_folder, specs):
                    continue
                if is_folder:
                    if self._enters(path):
                        stack.append((path, specs))
                else:
                    self._file(entry, path)

    def _out(
        self, path: Path, is_folder: bool, specs: tuple[tuple[Path, GitIgnoreSpec], ...]
    ) -> bool:
        if self.excluded is not None and path.is_relative_to(self.root):
            mine = path.relative_to(self.root).as_posix() + ("/" if is_folder else "")
            if self.excluded.match_file(mine):
                return True
        return _ignored(path, is_folder, specs)

    def _enters(self, path: Path) -> bool:
        name = path.name
        if name in _SILENT or name.endswith(".egg-info"):
            return False
        if (path / "pyvenv.cfg").exists() or (path / "conda-meta").is_dir():
            return False
        reason = None
        if name.lower() in _VENDORED:
            reason = "vendored code: name the folder to include it"
        elif (path / ".git").exists():
            reason = "another repository (submodule): name the folder to include it"
        if reason:
            self.passed.append(Passed(f"{self.show(path)}/", reason))
        return reason is None

    def _file(self, entry: os.DirEntry[str], path: Path) -> None:
        kind = kinds.by_name(path)
        if kind is None and not path.suffix and entry.is_file():
            kind = kinds.by_first_line(_head(path))
        if kind is None or kind not in self.wanted:
            return
        if entry.is_symlink():
            self._link(path, kind)
            return
        if not entry.is_file():
            return  # a pipe or socket with such a name
        size = entry.stat().st_size
        limit = _MAX_CODE_BYTES if kind in ("python", "notebook") else _MAX_BYTES
        if size > limit:
            reason = f"{size / (1 << 20):.1f} MiB of {kind}: data, not code; name it to include it"
            self.passed.append(Passed(self.show(path), reason))
            return
        self.files.setdefault(path, File(path, self.show(path), kind))

    def _link(self, path: Path, kind: Kind) -> None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            self.passed.append(Passed(self.show(path), "a symbolic link to nothing"))
            return
        if real.is_dir() or real.is_relative_to(self.root):
            return  # found by itself, or a folder, which links could make endless
        reason = f"a symbolic link out of the project, to {real}; name it to include it"
        self.passed.append(Passed(self.show(path), reason))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(128)
    except OSError:
        return b""


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except Exception as error:
        raise HpushimError(f"exclude pattern not understood: {error}") from None


def _read_ignore(base: Path, file: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    """The patterns of one ignore file; a broken line is skipped, as git does."""
    from pathspec import GitIgnoreSpec

    try:
        lines = file.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return
    try:
        yield base, GitIgnoreSpec.from_lines(lines)
    except Exception:
        good: list[str] = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except Exception:
                continue
            good.append(line)
        yield base, GitIgnoreSpec.from_lines(good)


def _above(top: Path) -> tuple[tuple[Path, GitIgnoreSpec], ...]:
    """The ignore files of the repository around ``top``, unless they ignore ``top`` itself."""
    repository = next((p for p in (top, *top.parents) if (p / ".git").exists()), None)
    if repository is None:
        return ()
    specs = list(_read_ignore(repository, repository / ".git" / "info" / "exclude"))
    between = [p for p in top.parents if p == repository or repository in p.parents]
    for folder in reversed(between):
        specs += _read_ignore(folder, folder / ".gitignore")
    inner = [p for p in (top, *top.parents) if repository in p.parents]
    if any(_ignored(p, True, tuple(specs)) for p in inner):
        return ()
    return tuple(specs)


def _ignored(path: Path, is_folder: bool, specs: tuple[tuple[Path, GitIgnoreSpec], ...]) -> bool:
    """The deepest ignore file that says something about ``path`` decides."""
    for base, spec in reversed(specs):
        if base not in path.parents:
            continue
        verdict = spec.check_file(path.relative_to(base).as_posix() + ("/" if is_folder else ""))
        if verdict.include is not None:
            return verdict.include
    return False
