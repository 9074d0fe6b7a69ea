"""The import hook of ``hpushim run``: modules under the script's directory are rewritten as they are loaded,
and those of the few libraries that the matrix's policy names.

Rewritten code is never written to ``__pycache__``; every other module loads as ever.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from hpushim.shim import log

if TYPE_CHECKING:
    from hpushim.shim.run.rewrite import Rewrite

ROOT_VARIABLE = "HPUSHIM_REWRITE"
"""The directories whose files are the user's own, as in PATH; set by ``hpushim run``, inherited by child processes."""

SHOW_VARIABLE = "HPUSHIM_SHOW_REWRITES"

_OURS = ("hpushim", "_hpushim", "habana_frameworks")
#: What after a text may make a comparison of it, and what before a bracket makes no call, or one that compares.
_OPERATORS = (b"==", b"!=", b":", b"[", b".", b"in", b"not")
_NO_CALLS = frozenset(
    b"startswith get in not and or if elif while return assert case yield await lambda".split()
)
_NOT_OWN = ("site-packages", "dist-packages", "node_modules")


def install(root: Path) -> None:
    """Rewrites modules below ``root`` that are imported from now on. Installing twice is installing once."""
    root = root.resolve()
    if not any(isinstance(f, _Finder) and f.root == root for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder(root))


def uninstall() -> None:
    """Takes every such hook down."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Finder)]


def install_inherited() -> None:
    """In a child process: the hook that the parent's ``hpushim run`` asked for."""
    for root in filter(None, os.environ.get(ROOT_VARIABLE, "").split(os.pathsep)):
        install(Path(root))


def add(root: Path) -> None:
    """Rewrites modules below ``root``, here and in child processes."""
    roots = [one for one in os.environ.get(ROOT_VARIABLE, "").split(os.pathsep) if one]
    if str(root) not in roots:
        os.environ[ROOT_VARIABLE] = os.pathsep.join([*roots, str(root)])
    install_inherited()


def loader(name: str, file: str) -> importlib.machinery.SourceFileLoader:
    """The loader of a module whose source is rewritten."""
    return _Loader(name, file)


def rewrites(module: ModuleType) -> bool:
    """Whether a module was loaded by this hook."""
    return isinstance(getattr(module, "__loader__", None), _Loader)


def compiled(path: str, data: bytes) -> CodeType:
    """The code of one of the user's files, rewritten where it compares device types.

    Raises SyntaxError as Python would.
    """
    import ast

    from hpushim.shim.run import rewrite

    tree = ast.parse(data, path)
    tree, done = rewrite.apply(tree)
    show = os.environ.get(SHOW_VARIABLE) == "1"
    for one in done:
        if show:
            log.line(f"HPU107 {path}:{one.line}: {one.before}  →  {one.after}")
    code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code


def comparisons(file: str) -> list[Rewrite]:
    """The device-type comparisons of a file that mentions a device at all. Raises OSError."""
    data = Path(file).read_bytes()
    if b"cuda" not in data or not _may_compare(data):
        return []
    from hpushim.shim.run import rewrite

    return rewrite.find(data)


def _may_compare(data: bytes) -> bool:
    """False where every ``"cuda"`` is plainly given to a call, a keyword or a name: most scripts need no parsing."""
    import re

    text = rb"""(?:(\w+)\s*([(=])|\b(else))?\s*["']cuda(?::0|:)?["'](?=\s*(\S{0,3}))"""
    for word, sign, branch, after in re.findall(text, data):
        if after.startswith(_OPERATORS) or not (sign or branch):
            return True
        if sign == b"(" and word in _NO_CALLS:
            return True
    return False


class _Finder:
    """Finds the modules below one directory, with a loader that rewrites."""

    def __init__(self, root: Path) -> None:
        from hpushim import matrix

        self.root = root
        matrix.load()  # before it finds modules, for it asks the matrix about each, also about the matrix's own

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in _OURS:
            return None  # a checkout below the script's folder; reading it needs it loaded
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        if not self._is_users(Path(spec.loader.path).resolve()) and not _follows(name):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec

    def _is_users(self, file: Path) -> bool:
        return file.is_relative_to(self.root) and _is_own(file.relative_to(self.root), self.root)


def _follows(name: str) -> bool:
    """Whether the module's library is one that meets CUDA under the shim and compares devices by their type."""
    from hpushim.shim import policy

    return policy.compares_devices(name.partition(".")[0])


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a source file of the user's, past the bytecode cache when it mentions cuda."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if b"cuda" not in data:
            return super().get_code(fullname)
        return compiled(path, data)


def is_own(folder: Path) -> bool:
    """Whether a folder is somebody's own and not one that libraries are installed to."""
    return not any(part in _NOT_OWN for part in folder.parts)


def is_own_script(script: Path) -> bool:
    """Whether a script is somebody's own: not an installed command, nor part of an installed library."""
    interpreter = Path(sys.executable)
    commands = {interpreter.parent.resolve(), interpreter.resolve().parent}
    folder = script.resolve().parent
    return folder not in commands and is_own(folder)


def _is_own(relative: Path, root: Path) -> bool:
    """Not an environment or a vendored installation that happens to lie below the script."""
    folders = relative.parts[:-1]
    return is_own(relative.parent) and not any(
        (root.joinpath(*folders[:n]) / "pyvenv.cfg").is_file() for n in range(1, len(folders) + 1)
    )
