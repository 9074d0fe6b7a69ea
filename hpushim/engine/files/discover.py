"""Which files of a project are looked at, and why the others are not.

Files that are named are always taken. In folders: ``.gitignore`` is obeyed for what git does not track, folders that hold no
project code (virtual environments, caches, other repositories, vendored code that no file imports) are passed over, symbolic
links are taken once, by what they point to. A folder or file of which a user may have thought that it was
looked at is listed with the reason; thousands of data files alike are one line. Only the first bytes of regular files are read, all of
Python's where it is to be known what they import, and nothing is waited for.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import msgspec

from hpushim import safe_files, showing
from hpushim.engine.base.kind import Kind
from hpushim.engine.files import git, kinds, mounts
from hpushim.engine.files.ignore import Patterns
from hpushim.errors import HpushimError
from hpushim.patterns import lazily

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
_SUBMODULE = lazily(r"^\s*path\s*=\s*(.+)$", re.MULTILINE)
_VENDORED = frozenset(
    ["third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "_vendor"]
)
_MAX_BYTES = 1 << 20  # of a file that is neither Python nor a notebook: above it, it is data
_MAX_CODE_BYTES = 64 << 20
#: Kinds of file that hold settings or results. So many in one folder, or of one name, nobody writes by hand; numbers make no difference.
_RESULTS: frozenset[Kind] = frozenset({"json", "yaml", "toml", "ini"})
_MANY = 1000
_NUMBER = lazily(r"\d+")
_MAX_IGNORE = 16 << 20
_MAX_LINE = 50_000
_HEAD = 2048
_GENERATED = lazily(
    rb"^[^\n]*@generated\b"
    rb"|(?s:\bgenerated\b.{0,400}?\bdo(?:\s+not|n'?t)\s+(?:edit|modify|change)\b)"
    rb"|(?s:\bdo(?:\s+not|n'?t)\s+(?:edit|modify|change)\b.{0,400}?\bgenerated\b)",
    re.IGNORECASE | re.MULTILINE,
)
#: How the reports and baselines begin that hpushim itself writes, by kind of file.
_OURS = {
    "json": re.compile(rb'\s*(?:\{\s*"schema_version":\s*\d+,\s*"tool":\s*"hpushim |\[\s*\{\s*"description":[^\n]*\s*"check_name":\s*"HPU\d)'),
    "markdown": re.compile(rb"## hpushim: "),
}  # fmt: skip
_GENERATED_NAME = lazily(r"_pb2(?:_grpc)?\.py$|\.min\.[a-z]+$")


#: Content that represents that of a file, by the file's real path.
Given = Mapping[Path, bytes]
NONE: Given = MappingProxyType({})


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
    #: CUDA sources, which no rule reads: where they lie, and as the report shows them.
    kernels: tuple[tuple[Path, str], ...] = ()


def project_root(paths: Sequence[Path]) -> Path:
    """The folder that findings are shown relative to and that ``.hpushim`` lives in.

    The folder given; for files the nearest one upwards that looks like a project, else their own. The user's home and the folder for
    temporary files hold many projects: a ``setup.py`` that lies there makes neither of them one.
    """
    if not paths:
        return Path.cwd()
    reals = [_real(path) for path in paths]
    folders = [real if os.path.isdir(real) else real.parent for real in reals]  # noqa: PTH112
    root = Path(os.path.commonpath(folders))
    if any(map(os.path.isdir, reals)):
        return root
    homes = (os.environ.get("HOME"), os.environ.get("TMPDIR"), "/tmp")
    shared = {os.path.realpath(home) for home in homes if home}
    for folder in (root, *root.parents):
        if str(folder) in shared and folder != root:
            break
        marks = (".git", "pyproject.toml", "hpushim.toml", "setup.py")
        if any(os.path.exists(folder / mark) for mark in marks):  # noqa: PTH110
            return folder
    return root


def _real(path: Path) -> Path:
    """``path`` without links, as far as they resolve: a link to itself stays what it is."""
    return Path(os.path.realpath(path))


def discover(
    paths: Sequence[Path], root: Path, wanted: frozenset[Kind], exclude: Sequence[str] = ()
) -> Found:
    """The files of ``wanted`` kinds under ``paths``, in path order, each real file once.

    Raises :class:`HpushimError` for a path that does not exist.
    """
    walk = _Walk(root, wanted, exclude)
    for path in paths:
        # Not `Path.is_dir` and the like: they raise where a folder on the way is closed to us.
        if os.path.isdir(path):  # noqa: PTH112
            walk.folder(_real(path))
        elif os.path.lexists(path):
            walk.explicit(path)
        else:
            raise HpushimError(f"{path}: no such file or folder; check the path")
    walk.leave_results()
    files = sorted(walk.files.values(), key=lambda file: file.shown)
    kernels = sorted(walk.kernels.items(), key=lambda item: item[1])
    passed = sorted(walk.passed, key=lambda item: item.shown)
    return Found(tuple(files), tuple(passed), tuple(kernels))


def named(given: Given, root: Path) -> Found:
    """Files whose content is given and which need not exist: their kind is known by name or first line, else it is Python."""
    show = _Walk(root, frozenset(), ()).show
    files = [
        File(
            path,
            show(path),
            kinds.by_name(path) or kinds.by_first_line(data[:128]) or "python",
            explicit=True,
        )
        for path, data in given.items()
    ]
    return Found(tuple(files), ())


def left_out(file: File, data: bytes) -> str | None:
    """Why a file that was found is left out after all, by its content; None to look at it."""
    if file.explicit:
        return None
    if _GENERATED_NAME.search(file.path.name) or _GENERATED.search(_comments(data[:_HEAD])):
        return "generated file: change its generator"
    if file.kind in ("python", "shell") and len(data) > _MAX_LINE:
        longest = max(map(len, data.split(b"\n")))
        if longest > _MAX_LINE:
            return f"a line of {longest} characters: generated or minified"
    return None


def written_here(file: File, data: bytes) -> bool:
    """Is it a report or a baseline that hpushim wrote into the project? It quotes CUDA names, and is no code."""
    ours = _OURS.get(file.kind)
    return ours is not None and not file.explicit and ours.match(data) is not None


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


#: The patterns that hold in a folder: of each ignore file how much of a path to leave away, and its patterns.
_Ignores = tuple[tuple[int, Patterns], ...]


#: A folder to list, the patterns that hold there, and whether an ignored folder is around.
_Folder = tuple[str, _Ignores, bool]


class _Walk:
    def __init__(self, root: Path, wanted: frozenset[Kind], exclude: Sequence[str]) -> None:
        self.root = root
        self.wanted = wanted
        self.files: dict[Path, File] = {}
        self.passed: list[Passed] = []
        self.kernels: dict[Path, str] = {}
        self.excluded: _Ignores = ((_length(root), Patterns(exclude)),) if exclude else ()

    def show(self, path: Path | str) -> str:
        name = os.fspath(path)
        start = _length(self.root)
        below = name.startswith(os.fspath(self.root)) and name[start - 1 : start] in ("", os.sep)
        return showing.path((name[start:] or ".") if below else name).replace(os.sep, "/")

    def fail(self, path: Path | str, why: str) -> None:
        self.passed.append(Passed(self.show(path), why, failed=True))

    def explicit(self, path: Path) -> None:
        try:
            real = path.resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, RuntimeError):
            self.fail(path.absolute(), "a broken symbolic link")
            return
        if not stat.S_ISREG(mode):
            self.fail(path.absolute(), "not a regular file")
            return
        if path.suffix.lower() in kinds.KERNELS:
            self.kernels[real] = self.show(real)
            return
        kind = kinds.by_name(path) or kinds.by_first_line(_head(real)) or "python"
        if kind in self.wanted:
            self.files[real] = File(real, self.show(real), kind, explicit=True)
        else:
            self.passed.append(Passed(self.show(real), f"no rule checks {kind} files"))

    def folder(self, top: Path) -> None:
        if mounts.of_the_kernel(os.fspath(top)):
            self.fail(f"{top}/", mounts.REASON)
            return
        if self.excluded and any(
            _ignored(os.fspath(folder), True, self.excluded)
            for folder in (top, *top.parents)
            if folder != self.root and folder.is_relative_to(self.root)
        ):
            return
        kernel = mounts.of_the_kernel_below(os.fspath(top))
        tracked = git.Tracked(top)
        # Below an ignored folder only what git tracks counts.
        stack: list[_Folder] = [(os.fspath(top), _above(top), False)]
        copies: list[_Folder] = []
        while stack or (stack := self._imported(copies)):
            folder, ignores, hidden = stack.pop()
            try:
                with os.scandir(folder) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                self.fail(f"{folder}/", f"cannot be listed: {error.strerror}")
                continue
            if any(entry.name == ".gitignore" for entry in entries):
                try:
                    ignores = (*ignores, _read_ignore(folder, f"{folder}/.gitignore"))
                except OSError as error:
                    why = f"cannot be read: {error.strerror}; its patterns are not used"
                    self.fail(f"{folder}/.gitignore", why)
            if any(entry.name == ".gitmodules" for entry in entries):
                self._unfetched(folder)
            for entry in entries:
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if self.excluded and _ignored(entry.path, is_folder, self.excluded):
                        continue
                    ignored = hidden or bool(ignores and _ignored(entry.path, is_folder, ignores))
                    if ignored and (entry.name in _SILENT or entry.path not in tracked):
                        continue
                    if not is_folder:
                        self._file(entry)
                    elif entry.path in kernel:
                        self.passed.append(Passed(f"{self.show(entry.path)}/", mounts.REASON))
                    elif self._enters(entry):
                        (copies if _is_copy(entry) else stack).append(
                            (entry.path, ignores, ignored)
                        )
                except OSError as error:
                    self.fail(entry.path, f"cannot be inspected: {error.strerror}")
        reason = (
            "code copied from another project; to check it, name the folder on the command line"
        )
        self.passed += [Passed(f"{self.show(path)}/", reason) for path, _, _ in copies]

    def _imported(self, copies: list[_Folder]) -> list[_Folder]:
        """Takes out of the folders with code of other projects those that a file found so far imports: they are a part of the program."""
        named = {os.path.basename(path): path for path, _, _ in copies}  # noqa: PTH119
        names = [re.escape(name).encode() for name in named if name.isidentifier()]
        pattern = re.compile(
            rb"^[ \t]*(?:from|import)[ \t]+(%s)\b" % b"|".join(names), re.MULTILINE
        )
        used: set[str] = set()
        for file in self.files.values() if names else ():
            if file.kind == "python":
                with suppress(OSError):
                    used |= {name.decode() for name in pattern.findall(safe_files.read(file.path, _MAX_CODE_BYTES))}  # fmt: skip
        found = [each for each in copies if os.path.basename(each[0]) in used]  # noqa: PTH119
        copies[:] = [each for each in copies if each not in found]
        return found

    def leave_results(self) -> None:
        """Takes out what a program wrote, by number alone: none of these files is opened, and one line names all of a kind."""
        data = [each for each in self.files.values() if each.kind in _RESULTS and not each.explicit]
        alike: Counter[tuple[Kind, str]] = Counter()
        forms: list[tuple[tuple[Kind, str], ...]] = []
        for file in data if len(data) >= _MANY else ():
            folder, _, name = _NUMBER.sub("0", file.shown).rpartition("/")
            forms.append(((file.kind, f"{folder}/"), (file.kind, name)))
            alike.update(forms[-1])
        by_kind: defaultdict[Kind, list[File]] = defaultdict(list)
        for file, form in zip(data, forms, strict=False):
            if max(map(alike.__getitem__, form)) >= _MANY:
                by_kind[file.kind].append(file)
        for kind, files in by_kind.items():
            for file in files:
                del self.files[file.path]
            top = os.path.commonpath([file.shown.rpartition("/")[0] for file in files]) or "."
            reason = f"{len(files):,} {kind} files in one folder or of one name: these look like results, not settings; to check one, name it on the command line"
            self.passed.append(Passed(f"{top}/", reason))

    def _unfetched(self, folder: str) -> None:
        """Says which submodules are not there: what they hold belongs to the project, and nobody can judge it."""
        try:
            listed = safe_files.read(f"{folder}/.gitmodules", _MAX_IGNORE).decode(errors="replace")
        except OSError:
            return  # the file itself is reported where it is read
        for named in _SUBMODULE.findall(listed):
            path = Path(folder, named.strip())
            if self.excluded and _ignored(os.fspath(path), True, self.excluded):
                continue
            if not path.exists() or (path.is_dir() and not any(path.iterdir())):
                reason = "a submodule that is not fetched; run `git submodule update --init`"
                self.passed.append(Passed(f"{self.show(os.fspath(path))}/", reason))

    def _enters(self, entry: os.DirEntry[str]) -> bool:
        name, path = entry.name, entry.path
        if name in _SILENT or name.endswith(".egg-info"):
            return False
        if os.path.exists(f"{path}/pyvenv.cfg") or os.path.isdir(f"{path}/conda-meta"):  # noqa: PTH110, PTH112
            return False
        if os.path.exists(f"{path}/.git"):  # noqa: PTH110
            reason = "another repository (submodule); to check it, name the folder on the command line"  # fmt: skip
            self.passed.append(Passed(f"{self.show(path)}/", reason))
            return False
        return True

    def _file(self, entry: os.DirEntry[str]) -> None:
        path = Path(entry.path)
        if path.suffix.lower() in kinds.KERNELS:
            if entry.is_file(follow_symlinks=False):
                self.kernels[path] = self.show(path)
            return
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
            reason = f"{size / (1 << 20):.1f} MiB of {kind}, which looks like data; to check it, name the file on the command line"
            self.passed.append(Passed(self.show(path), reason))
            return
        self.files.setdefault(path, File(path, self.show(path), kind))

    def _link(self, path: Path, kind: Kind) -> None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            self.passed.append(Passed(self.show(path), "a broken symbolic link"))
            return
        if real.is_dir() or real.is_relative_to(self.root):
            return  # found by itself, or a folder, which links could make endless
        target = showing.quoted(showing.path(real))
        reason = f"a symbolic link to {target}, outside of the project; to check it, name it on the command line"
        self.passed.append(Passed(self.show(path), reason))


def _is_copy(entry: os.DirEntry[str]) -> bool:
    """Is a folder named as one for other projects' code? A package imports it as a part of itself."""
    in_package = os.path.exists(f"{os.path.dirname(entry.path)}/__init__.py")  # noqa: PTH110, PTH120
    return entry.name.lower() in _VENDORED and not in_package


def _length(folder: Path | str) -> int:
    """How much of a path below ``folder`` is the folder and the slash after it."""
    name = os.fspath(folder)
    return len(name) + (not name.endswith(os.sep))


def _head(path: Path) -> bytes:
    """The first bytes of a file; none of what is no regular file or, as files of the kernel do, says that it is empty."""
    try:
        return safe_files.head(path, 128)
    except OSError:
        return b""


def _read_ignore(base: str, file: str) -> tuple[int, Patterns]:
    """The patterns of one ignore file, which hold below ``base``; raises OSError."""
    text = safe_files.read(file, _MAX_IGNORE).decode("utf-8-sig", "surrogateescape")
    return _length(base), Patterns(text.split("\n"))


def _above(top: Path) -> _Ignores:
    """The ignore files of the repository around ``top``, unless they ignore ``top`` itself."""
    around = (top, *top.parents)
    repository = next((p for p in around if os.path.exists(p / ".git")), None)  # noqa: PTH110
    if repository is None:
        return ()
    files = [(repository, ".git/info/exclude")]
    files += [(p, ".gitignore") for p in reversed(top.parents) if p.is_relative_to(repository)]
    ignores: list[tuple[int, Patterns]] = []
    for folder, name in files:
        with suppress(OSError):
            ignores.append(_read_ignore(os.fspath(folder), f"{folder}/{name}"))
    found = tuple(ignores)
    if any(_ignored(os.fspath(p), True, found) for p in around if repository in p.parents):
        return ()
    return found


def _ignored(path: str, is_folder: bool, ignores: _Ignores) -> bool:
    """The deepest ignore file that says something about ``path``, which lies below all of them, decides."""
    for start, patterns in reversed(ignores):
        verdict = patterns.verdict(path[start:], is_folder)
        if verdict is not None:
            return verdict
    return False
