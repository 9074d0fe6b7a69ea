"""git, called without running what a repository configures.

``.git/config`` can name a monitor of the file system, hooks, filters, helpers that fetch and more. Here all of that is switched off on
the line of the command, which overrules the repository. Only questions that read index and objects belong here: nothing that compares
with the files on disk (filters) or shows differences (other programs). Only the standard library is imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

#: Seconds for one question; git waits for ever where it is made to read from a pipe.
PATIENCE = 60.0
_OFF = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    f"core.hooksPath={os.devnull}",
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",  # nothing is fetched, in whatever way
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


def program() -> str | None:
    """The git to run: from the folders of PATH that do not depend on the current folder. None where there is none."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder):
            for name in ("git.exe", "git") if os.name == "nt" else ("git",):
                found = os.path.join(folder, name)
                if os.path.isfile(found) and os.access(found, os.X_OK):
                    return found
    return None


def ask(git: str, *words: str | bytes, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """One question to the program ``git``; its answer whatever the exit code.

    Raises OSError when git does not start, and TimeoutError when it does not answer.
    """
    import subprocess

    off = [word for setting in _OFF for word in ("-c", setting)]
    try:
        return subprocess.run(
            [git, "--no-replace-objects", "--no-pager", *off, *words],
            capture_output=True,
            check=False,
            input=given,
            env={**os.environ, **_ENVIRONMENT},
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(None, f"no answer in {PATIENCE:.0f} seconds") from None
