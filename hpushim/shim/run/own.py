"""Which files are the user's own: everything that no installer put where libraries are.

It does not matter where they lie or which finder found them: beside the script, in ``src/``, in an editable install, on
``PYTHONPATH``, in a namespace package.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

_LIBRARIES = frozenset(("site-packages", "dist-packages", "node_modules"))
# Never the user's, wherever a checkout of theirs lies; reading one of ours needs it loaded.
_NEVER = frozenset(("hpushim", "_hpushim", "habana_frameworks", "torch", "torchgen", "functorch"))


def is_never(module: str) -> bool:
    """Whether a module of this name is never the user's."""
    top = module.partition(".")[0]
    return top in _NEVER or top in sys.stdlib_module_names


def is_own_folder(folder: Path) -> bool:
    """Whether a folder is somebody's own: not the standard library's, not one that libraries are installed to, not in an
    environment.
    """
    return _is_own(str(folder.resolve()))


def is_own_file(file: str | Path) -> bool:
    """Whether a file is somebody's own."""
    # Each module that is loaded is looked up: without pathlib that is a third of the time.
    name = os.fspath(file)
    if os.path.islink(name) or not os.path.isabs(name):  # noqa: PTH114, PTH117
        return is_own_folder(Path(name).resolve().parent)
    return _is_own(os.path.dirname(name))  # noqa: PTH120


@functools.lru_cache(maxsize=4096)
def _is_own(folder: str) -> bool:
    """The same of an absolute name. One folder after the other, since most have their parents in common."""
    linked = os.path.islink(folder) or ".." in folder  # noqa: PTH114
    if linked and (real := os.path.realpath(folder)) != folder:
        return _is_own(real)
    parent, name = os.path.split(folder)
    if name in _LIBRARIES or folder in _installed() or os.path.isfile(f"{folder}/pyvenv.cfg"):  # noqa: PTH113
        return False
    return parent == folder or _is_own(parent)


def is_own_script(script: Path) -> bool:
    """Whether a script is somebody's own: not an installed command, nor part of an installed library."""
    interpreter = Path(sys.executable)
    commands = {interpreter.parent.resolve(), interpreter.resolve().parent}
    return script.resolve().parent not in commands and is_own_file(script)


@functools.cache
def _installed() -> frozenset[str]:
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*getattr(site, "getsitepackages", list)(), site.getusersitepackages()]
    return frozenset(os.path.realpath(folder) for folder in folders if folder)
