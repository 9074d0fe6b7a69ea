"""Whether the program of this process is written for Gaudi already: it imports the vendor's package before it says CUDA.

Read from the text of its own files, in the order in which Python comes to it, before the program has run.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hpushim.patterns import lazily
from hpushim.shim.run import children, own

_PACKAGE = "habana_frameworks"
_MOST = 200  # files
_IMPORTED = lazily(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^#\n]*)|import[ \t]+([^#\n]+))", re.MULTILINE
)
_CUDA = lazily(r"\b(cuda|nccl)\b")


class Choice(NamedTuple):
    """Whether to run the program natively, and why, in words; the reason is empty where there was nothing to choose."""

    native: bool
    reason: str


class _Said(NamedTuple):
    what: str  # "gaudi", "cuda" or "hpushim"
    place: str


def choice() -> Choice:
    """What the files of this program say."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    words = children.arguments()
    if main is None:
        said = (
            list(_said(words[1].encode(), "-c", Path.cwd(), set())) if words[:1] == ["-c"] else []
        )
    elif own.is_own_script(Path(main)):
        said = list(_of_file(Path(main), Path(main).resolve().parent, set()))
    else:
        said = []
    first: dict[str, _Said] = {}
    for one in said:
        first.setdefault(one.what, one)
    if "gaudi" not in first or "hpushim" in first:
        return Choice(False, "")
    gaudi, cuda = first["gaudi"], first.get("cuda")
    if cuda is None:
        return Choice(True, f"{gaudi.place} imports {_PACKAGE}")
    if said.index(gaudi) < said.index(cuda):
        return Choice(True, f"{gaudi.place} imports {_PACKAGE}, but {cuda.place} names CUDA; `hpushim run` sends "
                            "it to HPU")  # fmt: skip
    return Choice(False, f"{cuda.place} names CUDA before {gaudi.place} imports {_PACKAGE}; `hpushim run "
                         "--native` does not change CUDA calls")  # fmt: skip


def _of_file(file: Path, top: Path, seen: set[Path]) -> Iterator[_Said]:
    if file in seen or len(seen) >= _MOST:
        return
    seen.add(file)
    try:
        text = file.read_bytes()
    except OSError:
        return
    yield from _said(text, os.path.relpath(file, top), top, seen)


def _said(text: bytes, name: str, top: Path, seen: set[Path]) -> Iterator[_Said]:
    """What a file and those of its own that it imports say, in order."""
    local = {module: _local(module, top) for module in _modules(text)}
    local = {module: file for module, file in local.items() if file is not None}
    if not local and _PACKAGE.encode() not in text:
        if b"cuda" in text:
            yield _Said("cuda", name)
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    for node in sorted(nodes, key=lambda one: (one.lineno, one.col_offset)):
        place = f"{name}:{node.lineno}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in _named(node):
                top_name = module.partition(".")[0]
                if top_name in (_PACKAGE, "hpushim"):
                    yield _Said("gaudi" if top_name == _PACKAGE else "hpushim", place)
                elif local.get(module) is not None:
                    yield from _of_file(local[module], top, seen)  # type: ignore[arg-type]
        elif _says_cuda(node):
            yield _Said("cuda", place)


def _says_cuda(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "cuda"
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_CUDA.fullmatch(node.value.partition(":")[0]))  # fmt: skip


def _modules(text: bytes) -> Iterator[str]:
    for found in _IMPORTED.finditer(text):
        module, names, plain = (
            one.decode(errors="replace") if one else "" for one in found.groups()
        )
        for one in plain.split(","):
            if one.strip():
                yield one.split()[0]
        if module:
            yield module
            yield from (
                f"{module}.{one.split()[0]}" for one in names.strip("() ").split(",") if one.split()
            )


def _named(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    module = node.module or ""
    return [module, *(f"{module}.{one.name}" for one in node.names)]


def _local(module: str, top: Path) -> Path | None:
    """The project's file of a module, looked for beside the program."""
    path = top.joinpath(*module.strip(".").split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
