"""Child processes of whatever kind: their files are rewritten as those of ``hpushim run`` are.

``HPUSHIM`` enables every child through torch's entry point, but by then Python has compiled the child's script and the
modules that import torch first. So a folder with a ``sitecustomize`` is on the children's ``PYTHONPATH``; it
calls :func:`begin` before the program, whoever started it: ``subprocess``, a launcher, a shell script.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.run import compiling, import_hook, own

FOLDER = str(Path(__file__).parent / "startup")


def environment() -> dict[str, str]:
    """The change of environment that has children call :func:`begin`: variable to new value."""
    rest = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {"PYTHONPATH": os.pathsep.join([FOLDER, *(part for part in rest if part != FOLDER)])}


def install() -> Undo | None:
    """Sets that environment where children will be enabled, which is where ``HPUSHIM`` is set; returns how to undo it."""
    if not os.environ.get("HPUSHIM"):
        return None
    os.environ.update(environment())

    def undo() -> bool:
        parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in parts if part != FOLDER)
        return True

    return undo


def begin() -> None:
    """In a child, before its program: rewrites its modules from now on; a script that needs it itself is run anew by hpushim."""
    words = arguments()
    if words[:2] == ["-m", "hpushim"]:
        return
    if _is_own_and_compares(words) and os.name == "posix":
        os.execv(sys.executable, [sys.executable, *_through_run(words)])
    import_hook.install()


def arguments() -> list[str]:
    """What Python was instructed to run: a script and its arguments, or these after ``-m`` and a module's name, or ``-c`` and
    code; else nothing. Python's own options are left out."""
    given = sys.argv
    if not given or not given[0]:
        return []
    if given[0] in ("-m", "-c"):
        # -m NAME or -mNAME
        named = sys.orig_argv[len(sys.orig_argv) - len(given)]
        return [given[0], named.removeprefix(given[0]), *given[1:]]
    return list(given)


def _through_run(arguments: list[str]) -> list[str]:
    """Python's own options as they were, then ``-m hpushim run`` and the script with its arguments."""
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
    return [*options, "-m", "hpushim", "run", *arguments]


def _is_own_and_compares(arguments: list[str]) -> bool:
    """Whether a script of the user's, or code on the command line, has comparisons to rewrite."""
    if arguments[:1] == ["-c"]:
        return bool(compiling.compared(os.fsencode(arguments[1])))
    if not arguments or arguments[0].startswith("-"):
        return False
    script = Path(arguments[0])
    try:
        return own.is_own_script(script) and bool(compiling.compared(script.read_bytes()))
    except OSError:
        return False
