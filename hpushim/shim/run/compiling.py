"""How the user's own code is compiled in ``hpushim run`` and its children: its comparisons of devices are rewritten first.

Modules come here through the import hook. Code that is compiled past it does as well: a script that a profiler, a
debugger or ``runpy`` reads by itself, a file that is loaded by its path, ``exec(compile(…))``. Rewritten code is never
written to ``__pycache__``.
"""

from __future__ import annotations
import __future__

import builtins
import functools
import os
import sys
import zipimport
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from hpushim.kept import Kept
from hpushim.shim import log, policy
from hpushim.shim.run import own

if TYPE_CHECKING:
    import ast

    from hpushim.shim.run.rewrite import Rewrite

SHOW_VARIABLE = "HPUSHIM_SHOW_REWRITES"

#: Compiler flags that code hands on to what it compiles.
_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST; each child of a run pays for what is imported here
_compile = builtins.compile
_looked_at: set[str] = set()
_get_code = SourceFileLoader.get_code


def install() -> None:
    """Has code that is compiled past the import hook rewritten, too. Installing twice is installing once."""
    builtins.compile = _rewriting_compile
    SourceFileLoader.get_code = _rewriting_get_code  # type: ignore[method-assign, assignment]


def uninstall() -> None:
    """Undoes this, where nobody has put something else there since."""
    if builtins.compile is _rewriting_compile:
        builtins.compile = _compile
    if SourceFileLoader.get_code is _rewriting_get_code:
        SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


def loader(name: str, file: str) -> SourceFileLoader:
    """The loader of a module whose source is rewritten."""
    return Loader(name, file)


def compiled(path: str, data: bytes) -> CodeType:
    """The code of one of the user's files, rewritten where it compares devices.

    Raises SyntaxError as Python would.
    """
    code: CodeType = _compile(parsed(path, data), path, "exec", dont_inherit=True)
    return code


def parsed(path: str, data: bytes) -> ast.Module:
    """The tree of one of the user's files, or of a cell, rewritten where it compares devices. Raises SyntaxError."""
    import ast

    from hpushim.pycode.steps import TooManySteps

    _looked_at.add(os.path.abspath(path))  # noqa: PTH100
    try:
        return rewritten(ast.parse(data, path), path)
    except RecursionError:
        why = "is nested too deeply to rewrite comparisons with 'cuda'"
    except TooManySteps as error:
        why = f"{error}: its comparisons with 'cuda' are not rewritten"
    log.warn("HPU107", why, at=(path, 1))
    return ast.parse(data, path)


def rewritten(tree: ast.Module, path: str) -> ast.Module:
    """A tree that was parsed already, changed in place. Raises RecursionError where it is nested too deep."""
    from hpushim.shim.run import rewrite

    tree, done = rewrite.apply(tree)
    rewrite.follow_texts(tree)
    if os.environ.get(SHOW_VARIABLE) == "1":
        for one in done:
            log.line(f"HPU107 {path}:{one.line}: {one.before}  →  {one.after}")
    return tree


def of_text(text: Any, flags: int) -> Any:
    """The code of a text without a file, rewritten; the same text where it names no CUDA or does not parse. ``flags`` are
    those of the code that it comes from.
    """
    if not _names_cuda(text):
        return text
    data = text.encode() if isinstance(text, str) else bytes(text)
    try:
        return _compile(parsed("<string>", data), "<string>", "exec", flags & _FUTURE, True)
    except (SyntaxError, ValueError):
        return text


def is_rewritten(file: str) -> bool:
    """Whether code of this file was compiled here."""
    return os.path.abspath(file) in _looked_at  # noqa: PTH100


def compared(data: bytes) -> list[Rewrite]:
    """The comparisons of a device with CUDA in a source."""
    if b"cuda" not in data.lower():
        return []
    from hpushim.shim.run import rewrite

    return [one for one in rewrite.find(data) if one.sure]


def compared_lines(file: str) -> list[int]:
    """The lines of a file that compare a device with CUDA; kept beside its byte code, for finding them takes longer than all
    patches. Raises OSError.
    """
    if b"cuda" not in Path(file).read_bytes().lower():
        return []
    kept = Kept(file, "hpushim", _finders())
    data = kept.read()
    if data is None:
        lines = [one.line for one in compared(Path(file).read_bytes())]
        kept.write(" ".join(map(str, lines)).encode())
        return lines
    return [int(line) for line in data.split()]


@functools.cache
def _finders() -> tuple[str, ...]:
    """The files that decide what a comparison is."""
    top = Path(__file__).parents[2]
    folders = (top / "compare", top / "pycode")
    return (
        os.path.join(os.path.dirname(__file__), "rewrite.py"),  # noqa: PTH118, PTH120
        *(one.path for folder in folders for one in os.scandir(folder) if one.name.endswith(".py")),
    )


class Loader(SourceFileLoader):
    """Loads a source file of the user's, past the bytecode cache when it mentions cuda."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if b"cuda" not in data.lower():
            return super().get_code(fullname)
        return compiled(path, data)


class Archive(zipimport.zipimporter):
    """Loads modules from an archive, as ``Loader`` does from files."""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname)
        if source is None or "cuda" not in source.lower():
            return super().get_code(fullname)
        return compiled(self.get_filename(fullname), source.encode())


@functools.wraps(_compile)
def _rewriting_compile(
    source: Any,
    filename: Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **options: Any,
) -> Any:
    caller = sys._getframe(1)
    if not dont_inherit:
        flags |= caller.f_code.co_flags & _FUTURE
    if mode == "exec" and not flags & _ONLY_AST and _is_users(source, filename, caller):
        data = source.encode() if isinstance(source, str) else bytes(source)
        try:
            source = parsed(os.fsdecode(filename), data)
        except (SyntaxError, ValueError):
            pass  # said below, as ever
    return _compile(source, filename, mode, flags, True, optimize, **options)


def _is_users(source: Any, filename: Any, caller: FrameType) -> bool:
    """Whether this is source of the user's which may compare: of a file of theirs, or handed over by one."""
    # The import system keeps what it compiles in __pycache__.
    if not _names_cuda(source) or str(caller.f_globals.get("__name__")).startswith(
        ("importlib.", "_frozen_")
    ):
        return False
    files = (os.fsdecode(filename), caller.f_code.co_filename)
    return any(Path(file).is_file() and own.is_own_file(Path(file)) for file in files)


def _names_cuda(source: Any) -> bool:
    if isinstance(source, str):
        return "cuda" in source.lower()
    return isinstance(source, bytes | bytearray) and b"cuda" in source.lower()


def _rewriting_get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
    """For a file that is loaded by its path: the import hook, which looks for names, does not meet it."""
    path = self.path
    if (
        type(self) is SourceFileLoader
        and not own.is_never(fullname)
        and own.is_own_file(Path(path))
    ):
        data = self.get_data(path)
        if b"cuda" in data.lower() and policy.is_users(fullname.partition(".")[0], silently=True):
            return compiled(path, data)
    return _get_code(self, fullname)
