"""The cited places beside the repositories themselves: what is as it was read, moved, changed or gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpushim import quiet_git
from hpushim.errors import MatrixError
from hpushim.matrix.readings import Reading, fingerprint, span
from hpushim.matrix.schema import Row, Source

#: Searches look at code and text, not at logs, notebooks, or the programs of a toolkit that takes CUDA's names.
_CODE = (":!*.log", ":!*.ipynb", ":!*gpu_migration*", ":!CHANGELOG*", ":!.pin/*")
State = Literal["same", "moved", "changed", "gone", "unprinted", "absent", "document"]
_GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+)/blob/([^/]+)/(.+)\Z")


@dataclass(frozen=True)
class Found:
    """What one cited place is now."""

    row: str
    reading: Reading
    state: State
    repository: str = ""  #: ``owner/name``; "" for a document
    now: str = ""  #: the lines that it moved to, or the fingerprint of an unprinted one


@dataclass(frozen=True)
class _Place:
    key: str  #: the key of [sources], "" for an address
    owner: str
    name: str
    revision: str
    path: str

    @property
    def repository(self) -> str:
        return f"{self.owner}/{self.name}"


def compare(
    readings: Mapping[tuple[str, str], Sequence[Reading]],
    sources: Mapping[str, Source],
    folder: Path,
    as_cited: bool = False,
) -> Iterator[Found]:
    """Each reading beside the repository that it names, where ``folder`` has that repository.

    A repository is a folder named by its key in [sources], ``name``, ``owner+name`` or ``owner/name``, perhaps with
    ``repo`` below it: a work tree, or a git directory, which is read at its HEAD or, ``as_cited`` and for an address
    that names one, at the revision of the citation.
    """
    shelf = _Shelf(folder, as_cited)
    for (_, row), items in readings.items():
        for reading in items:
            place = _place(reading.at, sources)
            if place is None:
                yield Found(row, reading, "document")
                continue
            lines = shelf.lines(place)
            if lines is None:
                yield Found(row, reading, "absent", place.repository)
                continue
            state, now = _state(reading, lines)
            yield Found(row, reading, state, place.repository, now)


@dataclass(frozen=True)
class Hit:
    """A search that had no result when the row was written, and has one in the repository of today."""

    row: str
    words: str
    place: str
    first: str  #: where the first of the lines is


def repeat(
    rows: Iterable[Row], sources: Mapping[str, Source], folder: Path, as_cited: bool = False
) -> tuple[list[Hit], int]:
    """The searches of the rows done again where ``folder`` has the repositories: what is found now, and how many were done."""
    shelf = _Shelf(folder, as_cited)
    hits, done = [], 0
    for row in rows:
        for search in row.searched:
            for name in search.places:
                place = _place(f"{name}:x" if name in sources else f"https://github.com/{name}/blob/HEAD/x", sources)  # fmt: skip
                first = shelf.search(place, search.words) if place else None
                done += first is not None
                if first:
                    hits.append(Hit(row.name, search.words, name, first))
    return hits, done


def _state(reading: Reading, lines: Sequence[str] | Literal[False]) -> tuple[State, str]:
    if lines is False:
        return "gone", ""
    cited = span(reading.at)
    if not reading.print:
        inside = cited is None or cited[1] <= len(lines)
        return ("unprinted", fingerprint(lines, cited)) if inside else ("gone", "")
    if (cited is None or cited[1] <= len(lines)) and fingerprint(lines, cited) == reading.print:
        return "same", ""
    if cited and (first := _where(lines, cited[1] - cited[0] + 1, reading.print)):
        return "moved", f"L{first}-L{first + cited[1] - cited[0]}"
    return "changed", ""


def _where(lines: Sequence[str], length: int, wanted: str) -> int | None:
    """The first line of the block of this length that has the fingerprint."""
    for first in range(1, len(lines) - length + 2):
        if fingerprint(lines, (first, first + length - 1)) == wanted:
            return first
    return None


def _place(citation: str, sources: Mapping[str, Source]) -> _Place | None:
    """The file that a citation names; None for a document, an issue, or a repository as a whole."""
    at = citation.partition("#")[0]
    key, _, path = at.partition(":")
    if key in ("http", "https"):
        match = _GITHUB.match(at)
        return _Place("", *match.groups()) if match else None
    url = sources[key].url if key in sources else ""
    match = _GITHUB.match(url.replace("{}", path)) if path and not path.endswith("/") else None
    return _Place(key, *match.groups()) if match else None


class _Shelf:
    """The repositories of a folder, each file read once."""

    def __init__(self, folder: Path, as_cited: bool) -> None:
        self._folder = folder
        self._as_cited = as_cited
        self._roots: dict[str, tuple[Path, bool] | None] = {}
        self._files: dict[tuple[str, str, str], Sequence[str] | Literal[False] | None] = {}

    def lines(self, place: _Place) -> Sequence[str] | Literal[False] | None:
        """The file's lines; False when the repository lacks it, None when the repository is not there."""
        label = f"{place.key}|{place.repository}"
        if label not in self._roots:
            self._roots[label] = self._root(place)
        root = self._roots[label]
        if root is None:
            return None
        known = (label, place.path, place.revision if self._as_cited or not place.key else "")
        if known not in self._files:
            self._files[known] = self._read(root[0], root[1], place)
        return self._files[known]

    def search(self, place: _Place, words: str) -> str | None:
        """The first line that has the words; "" for none, None where the repository is not there as git has it."""
        root = self._root(place)
        where = root and (root[0] if root[1] else root[0] / ".git")
        if where is None or not where.exists():
            return None
        revisions = [place.revision, f"v{place.revision}"] if self._as_cited else ["HEAD"]
        for revision in revisions:
            if _git(where, "rev-parse", "-q", "--verify", f"{revision}^{{commit}}") is not None:
                found = _git(where, "grep", "-nIiE", "-m1", words, revision, "--", *_CODE) or b""
                return found.decode("utf-8", "replace").partition("\n")[0][:120]
        return None

    def _root(self, place: _Place) -> tuple[Path, bool] | None:
        """Folder of the repository, and whether it is a git directory without a work tree."""
        names = [place.key] if place.key else []
        names += [f"{place.owner}+{place.name}", f"{place.owner}/{place.name}", place.name]
        for name in names:
            for path in (self._folder / name / "repo", self._folder / name):
                if not path.is_dir():
                    continue
                git = (path / "HEAD").is_file() and (path / "objects").is_dir()
                return path, git
        return None

    def _read(self, root: Path, git: bool, place: _Place) -> Sequence[str] | Literal[False] | None:
        pinned = self._as_cited or not place.key  # an address of its own names its revision
        if git or (pinned and (root / ".git").exists()):
            where = root if git else root / ".git"
            revision = place.revision if pinned else "HEAD"
            return _git_lines(where, revision, place.path)
        path = root / place.path
        if not path.is_file():
            return False
        return path.read_text("utf-8", "replace").splitlines()


def _git_lines(directory: Path, revision: str, path: str) -> Sequence[str] | Literal[False] | None:
    """A file of a git directory; False when the revision lacks it, None when the directory lacks the revision."""
    for name in (revision, f"v{revision}"):
        if _git(directory, "rev-parse", "-q", "--verify", f"{name}^{{commit}}") is not None:
            shown = _git(directory, "cat-file", "blob", f"{name}:{path}")
            return False if shown is None else shown.decode("utf-8", "replace").splitlines()
    return None


def _git(directory: Path, *arguments: str) -> bytes | None:
    """What git prints; None when it fails."""
    git = quiet_git.program()
    if git is None:
        raise MatrixError(
            f"{directory} is a git directory and git is not installed; install it, or name work trees"
        )
    try:
        done = quiet_git.ask(git, f"--git-dir={directory}", *arguments)
    except OSError as error:
        raise MatrixError(
            f"{directory}: git cannot be run ({error.strerror}); name work trees"
        ) from None
    return None if done.returncode else done.stdout


def fill(path: Path, found: Iterable[Found]) -> int:
    """Write the fingerprints that readings lack into the file of readings; how many were written.

    A reading that has one keeps it: who has read a changed place again takes the old one out first.
    """
    new = {item.reading.at: item.now for item in found if item.state == "unprinted" and item.now}
    written = 0
    lines = path.read_text("utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines):
        match = re.match(r'\s*\{ at = "([^"]+)", .* \},$', line)
        if match and match[1] in new and " print = " not in line:
            lines[number] = line.replace(" },", f', print = "{new[match[1]]}" }},')
            written += 1
    if written:
        path.write_text("".join(lines), "utf-8")
    return written
