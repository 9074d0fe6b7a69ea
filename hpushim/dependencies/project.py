"""The packages that a project imports or requests, read off its files."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, get_args

from hpushim import safe_files
from hpushim.dependencies.assessing import assess
from hpushim.dependencies.places import normal
from hpushim.engine.base.kind import Kind
from hpushim.engine.data.pins import names, says_versions
from hpushim.engine.facts import modules
from hpushim.engine.files.discover import discover, project_root
from hpushim.engine.links import imported, optional
from hpushim.model import ABSENT, Dependency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hpushim.dependencies.places import Places
    from hpushim.matrix import Matrix
    from hpushim.model import Target

#: The module that a project builds from Rust.
_LIBRARY = re.compile(rb"^\[lib\][^\n]*\n(?:(?!\[)[^\n]*\n)*?name\s*=\s*\"(\w+)\"", re.MULTILINE)
#: The modules that a project compiles.
_COMPILED = re.compile(rb"(?i:extension)\(\s*(?:name\s*=\s*)?[\"']([\w.]+)")
_KINDS: frozenset[Kind] = frozenset(get_args(Kind))


def _built(path: Path) -> list[str]:
    pattern = {"Cargo.toml": _LIBRARY, "setup.py": _COMPILED}.get(path.name)
    names = pattern.findall(safe_files.read(path)) if pattern else ()
    return [part.decode() for name in names for part in {name.partition(b".")[0], name.rpartition(b".")[2]}]  # fmt: skip


def of_project(
    paths: Sequence[Path],
    exclude: Sequence[str],
    places: Places,
    matrix: Matrix,
    target: Target,
    around: frozenset[str] = frozenset(),
    reached: frozenset[str] = frozenset(),
) -> tuple[Dependency, ...]:
    """Every third-party package of the files under ``paths``, assessed from ``places``.

    ``around`` are files that no training run needs, ``reached`` those that the program imports.
    """
    root = project_root(paths)
    files = discover(paths, root, _KINDS, exclude).files
    texts: dict[Path, bytes] = {}
    beside: set[Path] = set()
    wanted: set[str] = set()
    fetching: list[bytes] = []
    own, built = set(modules(root, files)), set[str]()
    for file in files:
        with suppress(OSError):
            if file.kind == "python":
                texts[file.path] = safe_files.read(file.path)
                if file.shown in around:
                    beside.add(file.path)
            elif file.kind == "shell":
                fetching.append(safe_files.read(file.path))
            if says_versions(file.path, file.kind):
                wanted |= names(safe_files.read(file.path), file.kind)
            built.update(_built(file.path))
    packages = {path.parent.name for path in texts if path.name == "__init__.py"}
    own -= {name for name in own - packages if not _is_neighbour(name, texts, unknown=True)}
    found = assess(
        [data for path, data in texts.items() if path not in beside],
        frozenset(own | built),
        sorted(wanted),
        places,
        matrix,
        target,
        [data for path, data in texts.items() if path in beside],
    )
    with suppress(OSError):
        fetching.append(safe_files.read(root / ".gitmodules"))
    needed = {file.path for file in files if file.shown in reached}
    missing = _missing({path: texts[path] for path in needed & texts.keys()}, root, [each for each in fetching if b"git" in each])  # fmt: skip
    return (*missing, *(
        each
        for each in found
        if each.kind != "not assessed"
        or normal(each.name) in wanted
        or not _is_neighbour(each.name, texts)
    ))  # fmt: skip


def _missing(
    texts: Mapping[Path, bytes], root: Path, fetching: Sequence[bytes]
) -> tuple[Dependency, ...]:
    """The packages inside the project's own of which the checkout has no file: submodules, and what a script fetches (``fetching``)."""
    files: dict[str, set[Path]] = {}
    required: set[str] = set()
    for path, data in texts.items():
        code = b"\n" + data
        may = optional(code)
        for module, name in imported(code):
            if found := _gap(path, module, root, fetching):
                files.setdefault(found, set()).add(path)
                required |= set() if (module, name) in may and not _is_called_anyway(name, code) else {found}  # fmt: skip
    return tuple(
        Dependency(name, len(files[name]), name in required, "none", evidence=ABSENT)
        for name in sorted(files)
    )


def _is_called_anyway(name: str, code: bytes) -> bool:
    """Does a file call what it may go on without, and ask nowhere whether it is there, nor set a flag that says so?"""
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    inside: set[ast.AST] = set()
    for each in nodes:
        if isinstance(each, ast.Try):
            inner = [*ast.walk(each)]
            inside.update(inner)
            if name in {alias.name for part in inner if isinstance(part, ast.ImportFrom) for alias in part.names} and any(map(_is_flag, inner)):  # fmt: skip
                return False
    calls = [each.func for each in nodes if isinstance(each, ast.Call) and each not in inside]
    called = any(isinstance(func, ast.Name) and func.id == name for func in calls)
    asking = (part for each in nodes for part in _asking(each))
    return called and not any(isinstance(part, ast.Name) and part.id == name for part in asking)


def _is_flag(node: ast.AST) -> bool:
    """``HAS_FUSED = True``."""
    return isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)  # fmt: skip


def _asking(node: ast.AST) -> list[ast.expr]:
    """What a condition reads by itself: ``fused``, ``fused is None``."""
    match node:
        case (
            ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test)
        ):
            return [test]
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
    return []


def _gap(path: Path, module: str, root: Path, fetching: Sequence[bytes]) -> str:
    """The package that a module is in, where a folder on the way there is missing, or the last part and something fetches it; else ""."""
    dots = len(module) - len(module.lstrip("."))
    parts = module.lstrip(".").split(".")
    home = path.parents[dots - 1] if 0 < dots <= len(path.parents) else root
    if not dots and not (root / parts[0] / "__init__.py").is_file():
        return ""
    end = next((n for n in range(len(parts)) if not _is_there(home.joinpath(*parts[: n + 1]))), None)  # fmt: skip
    if end is None or (end == len(parts) - 1 and not any(parts[end].encode() in each for each in fetching)):  # fmt: skip
        return ""
    return "." * dots + ".".join(parts[: end + 2])


def _is_there(place: Path) -> bool:
    return place.is_dir() or any(place.parent.glob(f"{place.name}.*"))


def _is_neighbour(name: str, texts: Mapping[Path, bytes], *, unknown: bool = False) -> bool:
    """Do files import a module of the project by its plain name, as scripts in a package do with what is beside or above them?

    A module that imports its own name means a package of others, and files elsewhere do so unless they say where they look. ``unknown`` is
    the answer where none imports the name.
    """
    files = {path.parent for path in texts if path.stem == name}
    homes = files | {path.parent.parent for path in texts if path.parent.name == name}
    taking = {path for path in texts if homes and name.encode() in texts[path] and _imports(texts[path], name)}  # fmt: skip
    homes -= {path.parent for path in taking if path.stem == name}
    if not taking:
        return unknown
    return bool(homes) and any(
        b"sys.path" in texts[path] or not homes.isdisjoint(path.parents) for path in taking
    )


def _imports(data: bytes, name: str) -> bool:
    return any(module.partition(".")[0] == name for module, _ in imported(b"\n" + data))
