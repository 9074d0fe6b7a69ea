"""Which files git tracks, and which have changes that it does not hold yet, without running what a repository's settings name.

``git status`` starts whatever a repository's configuration names. So git only lists what is in its index and in the last
commit (see :mod:`hpushim.quiet_git`), and the bytes on disk are compared here. A file that only a filter could show to be clean counts as changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from hpushim import quiet_git, safe_files
from hpushim.errors import HpushimError

#: From so many files on, git lists everything, because it looks for each name in each entry.
_MANY = 200


def uncommitted(files: Iterable[Path]) -> list[Path]:
    """Those of ``files`` that lie in a git work tree with content that is not committed.

    New files that git does not ignore count; files outside of any work tree, and every file where git is
    not installed, do not. Raises :class:`HpushimError` when git is there and cannot answer.
    """
    trees: dict[str, list[Path]] = {}
    known: dict[str, str | None] = {}
    for file in files:
        tree = _tree(os.path.dirname(file), known)  # noqa: PTH120
        if tree is not None:
            trees.setdefault(tree, []).append(file)
    if not trees:
        return []
    program = quiet_git.program()
    if program is None:
        return []
    return [file for tree in sorted(trees) for file in _Tree(program, tree).dirty(trees[tree])]


class Tracked:
    """The files that git tracks below a folder, and the folders that hold them. git runs at the first question.

    Holds nothing where there is no work tree, no git, or no answer: then the patterns of ``.gitignore`` decide alone.
    """

    def __init__(self, top: Path) -> None:
        self._top = top

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    @cached_property
    def _paths(self) -> frozenset[str]:
        tree, program = _tree(os.fspath(self._top), {}), quiet_git.program()
        if tree is None or program is None:
            return frozenset()
        try:
            names = _Tree(program, tree).names(self._top)
        except HpushimError:
            return frozenset()
        found: set[str] = set()
        for name in names:
            path = os.path.join(tree, os.fsdecode(name))  # noqa: PTH118
            while len(path) > len(tree) and path not in found:
                found.add(path)
                path = os.path.dirname(path)  # noqa: PTH120
        return frozenset(found)


def _tree(folder: str, known: dict[str, str | None]) -> str | None:
    """The work tree that a folder lies in."""
    passed: list[str] = []
    found: str | None = None
    while True:
        if folder in known:
            found = known[folder]
            break
        passed.append(folder)
        if os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118
            found = folder
            break
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            break
        folder = above
    known.update(dict.fromkeys(passed, found))
    return found


class _Tree:
    """One work tree."""

    def __init__(self, program: str, tree: str) -> None:
        self.program, self.tree = program, tree

    def dirty(self, files: list[Path]) -> list[Path]:
        """The files with content that the last commit does not hold."""
        names = {os.fsencode(file.relative_to(self.tree).as_posix()): file for file in files}
        self._readable(names)
        listed = sorted(names) if len(names) <= _MANY else []
        index = self._index(listed)
        commit = self._commit(listed) if index else {}
        new = [name for name in names if name not in index]
        ignored = self._ignored(new) if new else frozenset()
        dirty = []
        for name, file in sorted(names.items()):
            if name not in index:
                if name not in ignored:
                    dirty.append(file)
            elif index[name] != commit.get(name) or not _same(file, index[name]):
                dirty.append(file)
        return dirty

    def names(self, folder: Path) -> list[bytes]:
        """The files below ``folder`` in the index, relative to the work tree."""
        self._readable(())
        return self._ask(
            "--literal-pathspecs", "ls-files", "--full-name", "-z", "--", os.fspath(folder)
        )

    def _index(self, names: list[bytes]) -> dict[bytes, bytes]:
        """Object of each file in the index; none that is the same for a file with a conflict."""
        found: dict[bytes, bytes] = {}
        for line in self._ask("--literal-pathspecs", "ls-files", "--stage", "-z", "--", *names):
            head, _, name = line.partition(b"\t")
            _, item, stage = head.split(b" ")
            found[name] = item if stage == b"0" else b"conflict"
        return found

    def _commit(self, names: list[bytes]) -> dict[bytes, bytes]:
        """Object of each file in the last commit; empty before the first one."""
        if not self._ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}", may_fail=True):
            return {}
        lines = self._ask(
            "--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", "HEAD", "--", *names
        )
        found: dict[bytes, bytes] = {}
        for line in lines:
            head, _, name = line.partition(b"\t")
            found[name] = head.split(b" ")[2]
        return found

    def _ignored(self, names: list[bytes]) -> frozenset[bytes]:
        # A colon at the start of a name would mean something to git.
        given = b"".join(b"./" + name + b"\0" for name in names)
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        return frozenset(name[2:] for name in self._ask(*words, given=given, may_fail=True))

    def _readable(self, names: Iterable[bytes]) -> None:
        """Refuses a repository in which git would read from something else than files."""
        suspects = [os.path.join(self.tree, ".git")]  # noqa: PTH118
        if os.path.isdir(suspects[0]):  # noqa: PTH112
            inner = ("HEAD", "config", "config.worktree", "index", "commondir", "info/exclude")
            suspects = [f"{suspects[0]}/{name}" for name in (*inner, "info/attributes")]
        folders: set[bytes] = {b""}
        for name in names:
            folder = os.path.dirname(name)  # noqa: PTH120
            while folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)  # noqa: PTH120
        for folder in folders:
            base = os.path.join(self.tree, os.fsdecode(folder))  # noqa: PTH118
            suspects += [f"{base}/.gitignore", f"{base}/.gitattributes"]
        for suspect in suspects:
            try:
                mode = os.stat(suspect).st_mode  # noqa: PTH116
            except OSError:
                continue
            if not stat.S_ISREG(mode):
                raise self._cannot(f"{suspect} is not a regular file")

    def _ask(self, *words: str | bytes, given: bytes = b"", may_fail: bool = False) -> list[bytes]:
        """The fields of an answer."""
        try:
            done = quiet_git.ask(self.program, "-C", self.tree, *words, given=given)
        except OSError as error:
            raise self._cannot(error.strerror or "not started") from None
        if done.returncode and not (may_fail and done.returncode == 1):
            why = done.stderr.decode(errors="replace").strip().split("\n")[0]
            raise self._cannot(why or f"exit code {done.returncode}")
        return [field for field in done.stdout.split(b"\0") if field.strip()]

    def _cannot(self, why: str) -> HpushimError:
        return HpushimError(
            f"git cannot list the changes in {self.tree} ({why}); fix that or use --allow-dirty"
        )


def _same(file: Path, item: bytes) -> bool:
    """Are the bytes on disk those of a git object? Line ends may be those of the other system, as git allows."""
    try:
        data = safe_files.read(file, safe_files.LIMIT, follow=False)
    except OSError:
        return False
    if _object(data, item) == item:
        return True
    return b"\r\n" in data and _object(data.replace(b"\r\n", b"\n"), item) == item


def _object(data: bytes, like: bytes) -> bytes:
    name = "sha256" if len(like) == 64 else "sha1"
    import hashlib

    digest = hashlib.new(name, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest().encode()
