"""Telling git to ask hpushim when both sides changed a file, and taking that back.

Two things are written: the driver, into the repository's own configuration (``.git/config``, which is never committed), and the kinds of
file that it is for, into ``.gitattributes``. Where a clone lacks the first, git merges as it always does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from hpushim import quiet_git, safe_files
from hpushim.errors import HpushimError

SECTION = "merge.hpushim"
_FIRST = "# hpushim begin: files that `hpushim merge-driver` merges; `hpushim init --git --undo` takes this out"
_LAST = "# hpushim end"
#: The files that ``migrate`` rewrites.
_PATTERNS = (
    *("*.py", "*.pyw", "*.ipynb", "*.yaml", "*.yml", "*.json", "*.toml", "*.ini", "*.cfg"),
    *("*.sh", "*.bash", "*.slurm", "*.sbatch", "*.mk", "Makefile", "*Dockerfile*"),
    *("*requirements*.txt", "*constraints*.txt", "*.md"),
)
_LIMIT = 1 << 20  # of a .gitattributes


def set_up(folder: Path) -> Iterator[str]:
    """Sets the driver up for the repository that ``folder`` lies in; yields what was done, a line each.

    What is there already stays. Raises HpushimError where ``folder`` is in no repository, or another driver has the name.
    """
    git, top = _repository(folder)
    wanted = driver()
    before = _config(git, top, "--get", f"{SECTION}.driver")
    if before and before != wanted:
        raise HpushimError(
            f"git already runs {before!r} as {SECTION}.driver; expected none, or {wanted!r}: remove "
            "it with `hpushim init --git --undo` and try again"
        )
    attributes = top / ".gitattributes"
    text = _attributes(attributes)
    if before:
        yield f"git runs `{wanted}` already"
    else:
        _config(git, top, f"{SECTION}.name", "hpushim: migrate both sides, then merge")
        _config(git, top, f"{SECTION}.driver", wanted)
        yield f"git was set up: git config {SECTION}.driver {shlex.quote(wanted)}"
    if _FIRST in text:
        yield f"{attributes} already has the patterns"
    else:
        block = [_FIRST, *(f"{pattern} merge=hpushim" for pattern in _PATTERNS), _LAST]
        newline = "\r\n" if "\r\n" in text else "\n"
        start = text if not text or text.endswith("\n") else text + newline
        data = start + "".join(line + newline for line in block)
        safe_files.write(attributes, data.encode("utf-8", "surrogateescape"), project=top)
        yield f"wrote {len(_PATTERNS)} patterns to {attributes}; commit it"


def take_back(folder: Path) -> Iterator[str]:
    """Takes out what :func:`set_up` wrote; yields what was done, a line each."""
    git, top = _repository(folder)
    if _config(git, top, "--get", f"{SECTION}.driver"):
        _config(git, top, "--remove-section", SECTION)
        yield f"git was set up: git config --remove-section {SECTION}"
    attributes = top / ".gitattributes"
    text = _attributes(attributes)
    start, end = text.find(_FIRST), text.find(_LAST)
    if 0 <= start < end:
        after = end + len(_LAST)
        rest = text[:start] + text[after:].removeprefix("\r").removeprefix("\n")
        if rest:
            safe_files.write(attributes, rest.encode("utf-8", "surrogateescape"), project=top)
            yield f"removed the patterns from {attributes}"
        else:
            attributes.unlink()
            yield f"removed {attributes}, which held nothing else"


def driver() -> str:
    """The command that git runs, by its full path: git's PATH need not be this one."""
    found = sys.argv[0] if Path(sys.argv[0]).name == "hpushim" else shutil.which("hpushim")
    if found and os.path.isfile(found):  # noqa: PTH113
        words = [os.path.abspath(found)]  # noqa: PTH100
    else:
        apart = ["-P"] if sys.version_info >= (3, 11) else []
        words = [sys.executable, *apart, "-m", "hpushim"]
    command = shlex.join(words).replace("%", "%%")
    return f"{command} merge-driver --path=%P --marker-size=%L %O %A %B"


def _repository(folder: Path) -> tuple[str, Path]:
    """The program, and the top of the work tree."""
    git = quiet_git.program()
    if git is None:
        raise HpushimError("git is not on PATH; install it, or leave --git out")
    done = quiet_git.ask(git, "-C", os.fspath(folder), "rev-parse", "--show-toplevel")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise HpushimError(
            f"{folder} is not in a git work tree ({said}); run `git init` there first"
        )
    return git, Path(os.fsdecode(done.stdout.rstrip(b"\n")))


def _config(git: str, top: Path, *words: str) -> str:
    """One question to, or one change of, the repository's own configuration; "" where a value is not set."""
    done = quiet_git.ask(git, "-C", os.fspath(top), "config", "--local", *words)
    if done.returncode and words[0] != "--get":
        said = done.stderr.decode("utf-8", "replace").strip()
        raise HpushimError(f"git config {' '.join(words)}: {said}; nothing else was done")
    return done.stdout.decode("utf-8", "replace").rstrip("\n")


def _attributes(file: Path) -> str:
    try:
        return safe_files.read(file, _LIMIT, follow=False).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise HpushimError(f"{file}: cannot be read: {error.strerror}; fix it first") from None
