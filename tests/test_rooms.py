"""Who may import whom, and what may not be loaded at start."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_ANY = {"errors", "matrix", "model"}
_READING = {*_ANY, "pycode"}
_AT_RUN_TIME = {*_ANY, "callers", "handover", "messages", "settings"}
_SAFE = {"quiet_git", "safe_files", "showing"}
_THEMES = ("devices", "precision", "distributed", "memory", "execution", "training", "libraries", "files", "tool")  # fmt: skip
_FOR_RULES = {
    *_READING,
    "compare",
    *(f"engine/{room}" for room in ("base", "data", "python", "rules", "shell")),
    "codemods/analysis",
    "codemods/edits",
    "codemods/values",
}
#: room → rooms that it may import, anywhere in its files. A room's own files need no mention.
ROOMS: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "callers": set(),
    "handover": {"callers"},
    "kept": set(),
    "messages": set(),
    "pycode": set(),
    "compare": {"pycode"},
    "settings": {"errors"},
    "quiet_git": set(),
    "safe_files": set(),
    "showing": set(),
    "dependencies": {
        *_READING,
        "safe_files",
        "engine",
        *(f"engine/{r}" for r in ("base", "data", "files")),
    },
    "matrix": {"errors", "kept", "model", "quiet_git", "safe_files"},
    "engine/base": _READING,
    "engine/files": {*_READING, *_SAFE, "engine/base"},
    "engine/python": {*_READING, "engine/base"},
    "engine/shell": {*_READING, "engine/base"},
    "engine/data": {*_READING, "engine/base", "engine/shell"},
    "engine/rules": {*_READING, "kept", "engine/base", "engine/data", "engine/python"},
    "engine": {
        *_READING,
        *_SAFE,
        *(f"engine/{room}" for room in ("base", "data", "files", "python", "rules", "shell")),
    },
    "codemods/edits": {
        *_READING,
        *(f"engine/{room}" for room in ("base", "data", "python", "shell")),
    },
    "codemods/analysis": _FOR_RULES - {"codemods/analysis", "codemods/values"},
    "codemods/values": _FOR_RULES - {"codemods/values"},
    "codemods/bases": _FOR_RULES,
    **{f"codemods/{theme}": {*_FOR_RULES, "codemods/bases"} for theme in _THEMES},
    "codemods": {*_READING, "engine", "engine/base", "engine/files"},
    "following": {*_ANY, *_SAFE, "engine", "engine/files"},
    "plan": _ANY,
    "report": {*_ANY, "showing"},
    "ledgers": {*_ANY, "report", "safe_files", "showing"},
    "shim": {*_AT_RUN_TIME, "compare", "kept", "pycode", "ledgers", "safe_files", "showing"},
    "emulator": {*_AT_RUN_TIME, "safe_files"},
    "portfolio": {
        *_ANY,
        "dependencies",
        "engine",
        "engine/base",
        "engine/files",
        "report",
        "safe_files",
    },
    "prove/recorder": {"shim"},
    "prove": {*_ANY, *_SAFE, "engine", *(f"engine/{room}" for room in ("base", "data", "files"))},
    "cli": {
        *_ANY,
        *_SAFE,
        "dependencies",
        "engine",
        *(f"engine/{room}" for room in ("base", "data", "files", "rules")),
        "following",
        "ledgers",
        "plan",
        "portfolio",
        "prove",
        "report",
        "shim",
    },
}
# files with a licence of their own, each the one door between two rooms
DOORS = {
    "hpushim/engine/rules/registry.py": {"codemods"},
    "hpushim/shim/detect.py": {"emulator"},
}
#: What only a few rooms may load.
_HEAVY = {"torch", "libcst", "click", "rich", "yaml", "jinja2"}
#: Where a script's own start waits for it, and where not even this may be loaded.
_AT_START = {*_HEAVY, "msgspec", "tomli"}
_BEFORE_ALL = {*_AT_START, "pathlib"}
FORBIDDEN = {
    "model": _HEAVY,
    "errors": _AT_START,
    "callers": _AT_START,
    "compare": _AT_START,
    "handover": _AT_START,
    "kept": _BEFORE_ALL,
    "messages": _AT_START,
    "pycode": _AT_START,
    "settings": _AT_START,
    "quiet_git": _BEFORE_ALL,
    "safe_files": _BEFORE_ALL,
    "showing": _BEFORE_ALL,
    "matrix": _HEAVY,
    "dependencies": _HEAVY,
    "engine": {"click", "habana_frameworks", "torch"},
    "codemods": {"click", "habana_frameworks", "torch"},
    "ledgers": {"click", "habana_frameworks", "libcst", "torch"},
    "following": {"click", "habana_frameworks", "libcst", "torch"},
    "plan": {"click", "habana_frameworks", "jinja2", "libcst", "rich", "yaml"},
    "portfolio": {"click", "habana_frameworks", "rich", "torch"},
    "report": {"click", "habana_frameworks", "libcst", "torch"},
    "prove": {"click", "libcst", "rich"},
    "shim": {"click", "jinja2", "libcst", "rich", "yaml"},
    "emulator": {"click", "jinja2", "libcst", "rich", "yaml"},
    "cli": {"libcst"},
}


def _room(name: str) -> str | None:
    """The room of a dotted name below ``hpushim``."""
    parts = name.split(".")[1:]
    for length in (2, 1):
        room = "/".join(parts[:length])
        if len(parts) >= length and room in ROOMS:
            return room
    return None


def _modules() -> list[tuple[str, Path]]:
    """Every module with its dotted name."""
    found = []
    for path in sorted((ROOT / "hpushim").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[1:3] == ("emulator", "site"):
            continue  # a package of its own, on sys.path only while the emulator is on
        found.append((".".join(parts), path))
    for path in sorted((ROOT / "codemods").rglob("*.py")):
        found.append((".".join(("hpushim", *path.relative_to(ROOT).with_suffix("").parts)), path))
    return [(name.removesuffix(".__init__"), path) for name, path in found if _room(name)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _at_run_time(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node but for what only type checkers read."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            yield node
            left.extend(ast.iter_child_nodes(node))


def _imports(name: str, path: Path, *, at_run_time: bool = False) -> set[str]:
    """The dotted names that a module imports, relative ones made whole."""
    names: set[str] = set()
    tree = _tree(path)
    for node in _at_run_time(tree) if at_run_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = node.level - (path.stem == "__init__")
                above = name.split(".")[: -up or None]
                base = ".".join([*above, base]).rstrip(".")
            names |= {f"{base}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return names


def test_files_import_only_from_the_rooms_they_may() -> None:
    wrong = []
    for name, path in _modules():
        room = _room(name)
        assert room is not None
        allowed = ROOMS[room] | {room, None} | DOORS.get(str(path.relative_to(ROOT)), set())
        forbidden = FORBIDDEN[room.partition("/")[0]]
        for imported in _imports(name, path):
            top = imported.partition(".")[0]
            if _room(imported) not in allowed if top == "hpushim" else top in forbidden:
                wrong.append(f"{name} imports {imported}")
    assert wrong == []


def _ordered(edges: dict[str, set[str]]) -> list[str]:
    """The nodes so that each comes after those that it needs; raises CycleError for a circle."""
    return list(graphlib.TopologicalSorter(edges).static_order())


def test_the_rooms_form_no_circle() -> None:
    assert set(_ordered(ROOMS)) == set(ROOMS)


def test_the_modules_of_the_codemod_form_no_circle() -> None:
    """Imports inside functions count; those for type checkers do not."""
    modules = {
        name: path
        for name, path in _modules()
        if (_room(name) or "").startswith(("engine", "codemods"))
    }
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        edges[name] = set()
        for imported in _imports(name, path, at_run_time=True):
            while imported and imported not in modules:
                imported = imported.rpartition(".")[0]
            edges[name] |= {imported} - {"", name}
    assert set(_ordered(edges)) == set(modules)


def test_rules_do_not_import_rules() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, path in _modules()
        if (_room(name) or "").removeprefix("codemods/") in _THEMES and path.stem != "__init__"
        for imported in _imports(name, path)
        if (_room(imported) or "").removeprefix("codemods/") in _THEMES
    ]
    assert wrong == []


def _code_words(tree: ast.Module) -> set[str]:
    """The words of names and strings, documentation apart."""
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in told:
            if isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node.value, bytes):
                texts.append(node.value.decode("latin-1"))
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                texts.append(value)
    return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}


def _files(*folders: str) -> list[tuple[str, ast.Module]]:
    """Every file below these folders with its tree."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert paths, folders
    return [(path.relative_to(ROOT).as_posix(), _tree(path)) for path in paths]


def _calls(folder: str) -> list[tuple[str, ast.Call]]:
    """Every call below a folder with its place."""
    return [
        (f"{name}:{node.lineno}", node)
        for name, tree in _files(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def test_the_engine_and_pycode_know_no_cuda() -> None:
    """They know Python and files."""
    of_cuda = {"cuda", "nccl", "hccl", "habana", "gaudi", "htcore"}
    files = _files("hpushim/engine", "hpushim/pycode")
    known = {name: _code_words(tree) & of_cuda for name, tree in files}
    assert {name for name, words in known.items() if words} == set()


def test_rules_on_python_build_no_text_edits() -> None:
    """They name nodes and what becomes of them; rules on other kinds of file say which bytes change."""
    build = {
        place
        for place, call in _calls("codemods")
        if isinstance(call.func, ast.Name) and call.func.id in ("Edit", "Fix", "splice")
    }
    assert build and {place for place in build if not place.startswith("codemods/files/")} == set()


def test_rules_ask_a_whole_module_through_what_is_found_once() -> None:
    """``"x" in module.data`` at every call takes time that grows with the square of the file: ``module.holds("x")`` does not."""
    searched = [
        f"{name}:{node.lineno}"
        for name, tree in _files("codemods")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Compare) and any(map(_is_whole, node.comparators)))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("search", "match", "fullmatch")
            and any(map(_is_whole, node.args))
        )
    ]
    assert searched == []


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith(
        ("module.data", "module.text")
    )


def test_rules_do_not_walk_the_whole_tree() -> None:
    """``ast.walk`` is for a statement; a file is asked by word."""
    walked = {
        place: ast.unparse(call.args[0])
        for place, call in _calls("codemods")
        if ast.unparse(call.func) == "ast.walk"
    }
    assert walked and [p for p, what in walked.items() if what.rpartition(".")[2] == "tree"] == []


#: Calls that print, write or read files, and the one place for each; the others are of files of hpushim's own.
ONE_PLACE = {
    "print": {"print", "echo"},
    "write": {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "rmtree", "copyfile", "truncate", "touch"},
    "read": {"read_text", "read_bytes", "open"},
}  # fmt: skip
ITS_FILES = {
    "print": {
        "cli/output.py",
        "report/rows.py",
        "report/text.py",
    },  # the latter two draw into a text
    "write": {"matrix/sources.py"},
    "read": {
        "cli/__init__.py",
        "engine/rules/catalogue.py",
        "engine/rules/page.py",
        "report/elements.py",
        "report/html.py",
        "matrix/readings.py",
        "matrix/signatures.py",
        "matrix/vendor_names.py",
        "matrix/sources.py",
    },
}


@pytest.mark.parametrize("what", ONE_PLACE)
@pytest.mark.parametrize("room", ["cli", "engine", "matrix", "report"])
def test_there_is_one_place_to_print_write_and_read(what: str, room: str) -> None:
    for path in sorted((ROOT / "hpushim" / room).rglob("*.py")):
        name = path.relative_to(ROOT / "hpushim").as_posix()
        for node in ast.walk(_tree(path)):
            called = node.func if isinstance(node, ast.Call) else None
            word = getattr(called, "attr", getattr(called, "id", ""))
            on = getattr(getattr(called, "value", None), "id", "")
            mine = on in ("folder", "runs", "console") or name in ITS_FILES[what]
            assert word not in ONE_PLACE[what] or mine, f"{name}:{node.lineno} calls {word}"


def _loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = _loaded_after("import hpushim")
    assert not loaded & {"torch", "libcst", "msgspec", "tomli", "click", "rich", "yaml", "jinja2"}


def test_help_loads_click_alone() -> None:
    loaded = _loaded_after("from hpushim.cli import main\nassert main(['--help']) == 0")
    assert "click" in loaded
    assert not loaded & {"torch", "libcst", "rich", "yaml", "jinja2", "tomli", "msgspec"}


def test_a_clean_project_is_checked_without_parsing_anything(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    loaded = _loaded_after(
        f"from hpushim.cli import main\nassert main(['check', {str(tmp_path)!r}]) == 0"
    )
    assert not loaded & {"torch", "libcst"}


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports test files by their bare names: the second of two would not be collected in the same process."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_two_modules_beside_tests_share_a_name() -> None:
    """Tests import what lies beside them by its bare name, and one process runs tests of several folders."""
    names = [path.name for path in (ROOT / "tests").glob("*/*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


def test_no_name_at_the_top_of_a_file_has_two_meanings() -> None:
    """What is written first would be used with the second value, and neither ruff nor mypy says so."""
    twice = []
    for path in sorted([*ROOT.glob("hpushim/**/*.py"), *ROOT.glob("codemods/**/*.py"), *ROOT.glob("tests/**/test_*.py")]):  # fmt: skip
        body = ast.parse(path.read_text(encoding="utf-8")).body
        names = [n.id for one in body if isinstance(one, ast.Assign) for n in one.targets if isinstance(n, ast.Name)]  # fmt: skip
        names += [one.name for one in body if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
        twice += [f"{path.relative_to(ROOT)}: {name}" for name in set(names) if names.count(name) > 1]  # fmt: skip
    assert twice == []
