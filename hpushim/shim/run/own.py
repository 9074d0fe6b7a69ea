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


@functools.lru_cache(maxsize=4096)
def is_own_folder(folder: Path) -> bool:
    """Whether a folder is somebody's own: not the standard library's, not one that libraries are installed to, not in an
    environment.
    """
    if folder.name in _LIBRARIES or folder in _installed() or (folder / "pyvenv.cfg").is_file():
        return False
    return folder.parent == folder or is_own_folder(folder.parent)


def is_own_file(file: str | Path) -> bool:
    """Whether a file is somebody's own."""
    # Each module that is loaded is asked for: without pathlib that is a third of the time.
    if os.path.islink(file):  # noqa: PTH114
        return is_own_folder(Path(file).resolve().parent)
    return _is_own_directory(os.path.dirname(file))  # noqa: PTH120


@functools.lru_cache(maxsize=4096)
def _is_own_directory(name: str) -> bool:
    return is_own_folder(Path(name).resolve())


def is_own_script(script: Path) -> bool:
    """Whether a script is somebody's own: not an installed command, nor part of an installed library."""
    interpreter = Path(sys.executable)
    commands = {interpreter.parent.resolve(), interpreter.resolve().parent}
    return script.resolve().parent not in commands and is_own_file(script)


@functools.cache
def _installed() -> frozenset[Path]:
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*getattr(site, "getsitepackages", list)(), site.getusersitepackages()]
    return frozenset(Path(folder).resolve() for folder in folders if folder)
