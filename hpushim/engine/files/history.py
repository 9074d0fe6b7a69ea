"""What the files of a project held where the current branch left a revision, read from git's objects alone.

Nothing that a repository's configuration names is run (see :mod:`hpushim.quiet_git`), so what is on disk is compared here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hpushim import quiet_git, showing
from hpushim.errors import HpushimError


class Past:
    """The files below ``root`` in the last commit that the current branch shares with ``revision``.

    Raises HpushimError, in one sentence, where there is no git, no work tree, no such revision or no shared commit.
    """

    def __init__(self, root: Path, revision: str) -> None:
        self._revision = revision
        program = quiet_git.program()
        if program is None:
            raise HpushimError(f"--since {revision}: git is not installed; install it or leave --since out")  # fmt: skip
        self._program = program
        self._root = os.fspath(root)
        self._tree = os.fsdecode(self._ask(self._root, "rev-parse", "--show-toplevel").rstrip(b"\n"))  # fmt: skip
        self._commit = self._shared()

    def contents(self, shown: Iterable[str]) -> dict[str, bytes]:
        """The bytes of those of these files that were there; paths as reports show them."""
        objects = self._objects(set(shown))
        names = list(objects)
        given = b"".join(objects[name] + b"\n" for name in names)
        answer = self._ask(self._tree, "cat-file", "--batch", given=given) if names else b""
        found: dict[str, bytes] = {}
        start = 0
        for name in names:
            end = answer.index(b"\n", start)
            size = int(answer[start:end].split(b" ")[2])
            found[name] = answer[end + 1 : end + 1 + size]
            start = end + 1 + size + 1
        return found

    def _shared(self) -> str:
        if self._revision.startswith("-"):
            raise self._cannot("it is not the name of a revision")
        name = f"{self._revision}^{{commit}}"
        commit = self._ask(self._tree, "rev-parse", "--quiet", "--verify", name, why="there is no such revision here; fetch it first")  # fmt: skip
        words = ("merge-base", commit.decode().strip(), "HEAD")
        why = "the current branch shares no commit with it; fetch more of the history"
        return self._ask(self._tree, *words, why=why).decode().split("\n")[0]

    def _objects(self, wanted: set[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        below = os.path.join(os.path.realpath(self._root), "")  # noqa: PTH118
        listed = self._ask(self._tree, "ls-tree", "-r", "-z", "--full-tree", self._commit)
        for line in filter(None, listed.split(b"\0")):
            head, _, name = line.partition(b"\t")
            mode, kind, item = head.split(b" ")
            path = os.path.join(self._tree, os.fsdecode(name))  # noqa: PTH118
            inside = path.startswith(below)
            shown = showing.path(path[len(below) :] if inside else path)
            if kind == b"blob" and mode != b"120000" and shown in wanted:
                found[shown] = item
        return found

    def _ask(self, folder: str, *words: str, given: bytes = b"", why: str = "") -> bytes:
        try:
            done = quiet_git.ask(self._program, "-C", folder, *words, given=given)
        except OSError as error:
            raise self._cannot(error.strerror or "git cannot be started") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().split("\n")[0]
            raise self._cannot(why or said or f"git ended with {done.returncode}")
        return done.stdout

    def _cannot(self, why: str) -> HpushimError:
        return HpushimError(f"--since {self._revision}: {why}; nothing was checked")
