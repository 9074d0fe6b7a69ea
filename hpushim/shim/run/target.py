"""What ``hpushim run`` was given: a Python file, a notebook, or a program that starts Python; or why it cannot be run."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpushim.errors import HpushimError

_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh"])
#: Programs that are there to start others.
_STARTERS = frozenset(
    [
        *("env", "make", "nice", "nohup", "stdbuf", "timeout", "time", "taskset", "numactl"),
        *("mpirun", "mpiexec", "srun"),
    ]
)
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_HEAD = 4096


@dataclass(frozen=True)
class Target:
    """What is to be run: ``path`` for a Python file, standard input or a notebook, ``words`` for a program."""

    kind: Literal["python", "input", "notebook", "program"]
    path: Path
    words: tuple[str, ...] = ()


def target_of(word: str, arguments: Sequence[str] = ()) -> Target:
    """What the first word of a command line means, with the words behind it.

    Raises HpushimError, which says the way, for what cannot be run: nothing there, a folder without ``__main__.py``,
    a program that is not there to start others.
    """
    path = Path(word)
    if word == "-":
        return Target("input", path)
    if path.is_dir():
        if not (path / "__main__.py").is_file():
            raise HpushimError(
                f"{word}: a folder without __main__.py; expected a script: name one in it"
            )
        return Target("python", path)
    if path.is_file():
        return _of_file(path, word, arguments)
    if path.exists():
        raise HpushimError(f"{word}: neither a file nor a folder; expected a script")
    if word.startswith("-"):
        line = " ".join(["hpushim run python", word, *arguments][:4])
        raise HpushimError(f"{word}: not an option of hpushim; to pass it to Python, run: {line}")
    found = _command(word)
    if found is None:
        raise HpushimError(
            f"{word}: no such script; expected a Python file, a notebook or a shell script: check the path"
        )
    first = _first_line(found)
    if first.startswith(b"#!") and b"python" in first:
        return Target("python", found)
    if _starts_others(found.name) or _starts_others(word):
        return Target("program", found, (str(found), *arguments))
    raise _not_a_script(word, arguments)


def _of_file(path: Path, word: str, arguments: Sequence[str]) -> Target:
    if path.suffix == ".ipynb":
        return Target("notebook", path)
    first = _first_line(path)
    if path.suffix != ".py" and first.startswith(b"#!"):
        interpreter = os.fsdecode(first[2:]).split()
        name = next((w for w in map(_last, interpreter) if w in _SHELLS), None)
        if name is not None:
            return Target("program", path, (*interpreter, str(path), *arguments))
        if "python" not in os.fsdecode(first):
            raise _not_a_script(word, arguments)
        return Target("python", path)
    if path.suffix in (".sh", ".bash", ".zsh"):
        shell = path.suffix[1:] if path.suffix != ".sh" else "bash"
        found = shutil.which(shell) or shutil.which("sh")
        if found is None:
            raise HpushimError(f"{word}: a shell script, but {shell} is not installed; install it")
        return Target("program", path, (found, str(path), *arguments))
    if path.suffix != ".py" and zipfile.is_zipfile(path):
        return Target("python", path)
    if path.suffix != ".py" and _is_binary(path):
        if _starts_others(path.name):
            return Target("program", path, (str(path), *arguments))
        raise _not_a_script(word, arguments)
    return Target("python", path)


def _command(word: str) -> Path | None:
    """The command of this name: the one beside this Python, else the one on the path."""
    if os.sep in word:
        return None
    beside = Path(sys.executable).parent / word
    if beside.is_file():
        return beside
    found = shutil.which(word)
    return Path(found) if found is not None else None


def _starts_others(name: str) -> bool:
    name = _last(name)
    return name in _SHELLS or name in _STARTERS or _PYTHON.fullmatch(name) is not None


def _last(word: str) -> str:
    return word.rpartition("/")[2]


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(_HEAD)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(_HEAD)


def _not_a_script(word: str, arguments: Sequence[str]) -> HpushimError:
    line = " ".join([word, *arguments][:4])
    return HpushimError(
        f"{word}: a program, and no Python script; expected a Python file, a notebook or a shell script; "
        f"to have HPU in the Python processes that it starts: hpushim run sh -c '{line}'"
    )
