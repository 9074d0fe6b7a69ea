"""Ports that follow upstream, on real histories: ``python upstream.py [--commits N] GIT_DIRECTORY …``.

A port is made of the project as it was N first-parent commits ago (default 50): migrated, and changed by hand in some places, of which
some are lines that were migrated. Then it takes each of the N commits by ``git merge``, once with ``hpushim merge-driver`` and once
without, and ``migrate`` rewrites what came new. Told are merges that stopped with a conflict, files and places in conflict, and how far
the end is from the newest commit migrated from scratch with the same changes by hand. The repositories are other people's, and are
found outside of this tree.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from hpushim.engine.project import migrate
from hpushim.errors import HpushimError
from hpushim.following.git_setup import SECTION
from hpushim.model import Target

MARK = "# by hand"
_SUFFIX = re.compile(rf"[ \t]*{MARK} \d+$", re.MULTILINE)
_LINE = re.compile(rf"^[ \t]*{MARK} \d+\n", re.MULTILINE)
_HAND = re.compile(rf"{MARK} \d+$", re.MULTILINE)


class Outcome(NamedTuple):
    """What became of one port."""

    merges: int
    stopped: int  #: merges with a conflict
    files: int  #: files in conflict, over all merges
    places: int  #: conflict markers in them
    by_hand: tuple[int, int]  #: changes by hand that were made, and those left at the end
    differing: tuple[
        str, ...
    ]  #: files that, changes by hand apart, are not the newest version migrated


def git(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """One git command in ``folder``, by nobody in particular, with neither hooks nor anybody's configuration."""
    settings = ["user.name=t", "user.email=t@t", "core.hooksPath=/dev/null", "core.autocrlf=false",
                "commit.gpgSign=false", "merge.conflictStyle=merge", "gc.auto=0"]  # fmt: skip
    return subprocess.run(
        ["git", *(word for setting in settings for word in ("-c", setting)), *words],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_LFS_SKIP_SMUDGE": "1"},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=check,
    )


def history(source: Path, commits: int) -> list[str]:
    """The commit to start from, and those after it."""
    found = git(source, "rev-list", "--first-parent", "--reverse", f"-n{commits + 1}", "HEAD")
    return found.stdout.split()


def follow(source: Path, chain: list[str], port: Path, *, driver: bool) -> Outcome:
    """Makes a port in ``port`` and lets it follow a chain of commits."""
    git(port.parent, "clone", "-q", "--shared", "--no-checkout", str(source), port.name)
    git(port, "checkout", "-q", "-b", "port", chain[0])
    if driver:
        command = f"{sys.executable} -m hpushim merge-driver --path=%P --marker-size=%L %O %A %B"
        git(port, "config", f"{SECTION}.driver", command)
        (port / ".git" / "info" / "attributes").write_text("* merge=hpushim\n")
    changed = _migrated(port)
    made = sum(_by_hand(port / name, number) for number, name in enumerate(changed))
    git(port, "commit", "-qam", "changes by hand")
    stopped = files = places = 0
    for commit in chain[1:]:
        done = git(port, "merge", "-q", "--no-edit", "-m", "upstream", commit, check=False)
        unmerged = sorted(
            {line.split("\t")[1] for line in git(port, "ls-files", "-u").stdout.splitlines()}
        )
        if done.returncode and not unmerged:
            raise RuntimeError(f"git merge {commit}: {done.stdout}{done.stderr}")
        stopped += bool(unmerged)
        files += len(unmerged)
        for name in unmerged:
            text = (port / name).read_text(errors="replace") if (port / name).exists() else ""
            places += max(text.count("\n<<<<<<< ") + text.startswith("<<<<<<< "), 1)
            # Whoever has to settle it takes upstream's and migrates it, which loses the changes by hand there.
            if git(port, "checkout", "--theirs", "--", name, check=False).returncode:
                git(port, "rm", "-qf", "--", name, check=False)
            else:
                git(port, "add", "--", name)
        if unmerged:
            git(port, "commit", "-qm", "upstream")
        _migrated(port)
    fresh = port.parent / f"{port.name}-fresh"
    git(port.parent, "clone", "-q", "--shared", "--no-checkout", str(source), fresh.name)
    git(fresh, "checkout", "-q", "--detach", chain[-1])
    _migrated(fresh)
    names = {
        name for folder in (port, fresh) for name in git(folder, "ls-files").stdout.splitlines()
    }
    differing = tuple(name for name in sorted(names) if _bare(port / name) != _bare(fresh / name))
    left = sum(len(_HAND.findall(_text(port / name))) for name in names)
    return Outcome(len(chain) - 1, stopped, files, places, (made, left), differing)


def _migrated(folder: Path) -> list[str]:
    """Migrates a work tree and commits it; the Python files that changed."""
    try:
        migrate((folder,), Target(), allow_dirty=True, jobs=1)
    except HpushimError as error:
        raise RuntimeError(f"{folder}: {error}") from None
    (folder / ".git" / "info" / "exclude").write_text(".hpushim/\n")
    changed = git(folder, "diff", "--name-only").stdout.splitlines()
    git(folder, "commit", "-qam", "migrated", check=False)
    return [name for name in changed if name.endswith(".py")]


def _by_hand(file: Path, number: int) -> int:
    """Changes a migrated file: a line of its own before a function, and the end of a line that names hpu; how many were made."""
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    before = "\n".join(lines)
    made = 0
    for at in range(len(lines) - 1, -1, -1):
        if made < 2 and re.search(r"\bhpu\b", lines[at]) and at % 2 == number % 2:
            tried = [*lines[:at], f"{lines[at]}  {MARK} {made}", *lines[at + 1 :]]
            if _means(before, "\n".join(tried)):
                lines, made = tried, made + 1
    functions = [at for at, line in enumerate(lines) if line.startswith(("def ", "class "))]
    if functions and number % 3 == 0:
        lines.insert(functions[len(functions) // 2], f"{MARK} {made}")
        made += 1
    text = "\n".join(lines)
    if not made or not _means(before, text):
        return 0
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    return made


def _means(before: str, after: str) -> bool:
    try:
        return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
    except (SyntaxError, ValueError):
        return False


def _text(file: Path) -> str:
    if not file.is_file() or file.is_symlink():
        return ""
    return file.read_text(encoding="utf-8", errors="surrogateescape")


def _bare(file: Path) -> str:
    """A file without what was changed by hand."""
    return _SUFFIX.sub("", _LINE.sub("", _text(file)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="leave the ports in this folder")
    parser.add_argument("repositories", nargs="+", type=Path)
    asked = parser.parse_args()
    wrong = 0
    print(
        "| repository | driver | merges | stopped | files in conflict | places | by hand: made, left | files unlike a fresh migration |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for source in asked.repositories:
        chain = history(source, asked.commits)
        with tempfile.TemporaryDirectory(prefix="upstream-") as scratch:
            folder = asked.keep or Path(scratch)
            for driver in (True, False):
                name = source.resolve().parent.name if source.name == "repo" else source.name
                port = folder / f"{name}-{'driver' if driver else 'plain'}"
                end = follow(source.resolve(), chain, port, driver=driver)
                wrong += driver and bool(end.differing)
                print(f"| {name} | {'yes' if driver else 'no'} | {end.merges} | {end.stopped} | {end.files} | {end.places} "
                      f"| {end.by_hand[0]}, {end.by_hand[1]} | {len(end.differing)} {' '.join(end.differing[:4])} |", flush=True)  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
