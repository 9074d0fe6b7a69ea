"""Who may import whom, and what may not be loaded at start."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_ANY = {"errors", "matrix", "model"}
_AT_RUN_TIME = {*_ANY, "callers", "handover", "messages", "settings"}
_SAFE = {"quiet_git", "safe_files", "showing"}
_THEMES = ("devices", "precision", "distributed", "memory", "execution", "training", "libraries")
_THEMES = (*_THEMES, "files", "tool")
_FOR_RULES = {
    *_ANY,
    "compare",
    *(f"engine/{room}" for room in ("base", "data", "python", "rules", "shell")),
    "codemods/analysis",
    "codemods/edits",
}
#: room → rooms that it may import, anywhere in its files. A room's own files need no mention.
ROOMS: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "callers": set(),
    "compare": set(),
    "handover": {"callers"},
    "messages": set(),
    "settings": {"errors"},
    "quiet_git": set(),
    "safe_files": set(),
    "showing": set(),
    "matrix": {"errors", "model", "quiet_git", "safe_files"},
    "engine/base": _ANY,
    "engine/files": {*_ANY, *_SAFE, "engine/base"},
    "engine/python": {*_ANY, "engine/base"},
    "engine/shell": {*_ANY, "engine/base"},
    "engine/data": {*_ANY, "engine/base", "engine/shell"},
    "engine/rules": {*_ANY, "engine/base", "engine/data", "engine/python"},
    "engine": {
        *_ANY,
        *_SAFE,
        *(f"engine/{room}" for room in ("base", "data", "files", "python", "rules", "shell")),
    },
    "codemods/edits": {*_ANY, *(f"engine/{room}" for room in ("base", "data", "python", "shell"))},
    "codemods/analysis": _FOR_RULES - {"codemods/analysis"},
    "codemods/bases": _FOR_RULES,
    **{f"codemods/{theme}": {*_FOR_RULES, "codemods/bases"} for theme in _THEMES},
    "codemods": {*_ANY, "engine", "engine/base", "engine/files"},
    "following": {*_ANY, *_SAFE, "engine", "engine/files"},
    "plan": _ANY,
    "report": {*_ANY, "showing"},
    "ledgers": {*_ANY, "report", "safe_files", "showing"},
    "shim": {*_AT_RUN_TIME, "compare", "ledgers", "safe_files", "showing"},
    "emulator": {*_AT_RUN_TIME, "safe_files"},
    "prove/recorder": {"shim"},
    "prove": {*_ANY, *_SAFE, "engine", *(f"engine/{room}" for room in ("base", "data", "files"))},
    "cli": {
        *_ANY,
        *_SAFE,
        "engine",
        *(f"engine/{room}" for room in ("base", "data", "files", "rules")),
        "following",
        "ledgers",
        "plan",
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
    "messages": _AT_START,
    "settings": _AT_START,
    "quiet_git": _BEFORE_ALL,
    "safe_files": _BEFORE_ALL,
    "showing": _BEFORE_ALL,
    "matrix": _HEAVY,
    "engine": {"click", "habana_frameworks", "torch"},
    "codemods": {"click", "habana_frameworks", "torch"},
    "ledgers": {"click", "habana_frameworks", "libcst", "torch"},
    "following": {"click", "habana_frameworks", "libcst", "torch"},
    "plan": {"click", "habana_frameworks", "jinja2", "libcst", "rich", "yaml"},
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


class _AtRunTime(ast.NodeTransformer):
    """Drops what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def _imports(name: str, path: Path, *, at_run_time: bool = False) -> set[str]:
    """The dotted names that a module imports, relative ones made whole."""
    names: set[str] = set()
    tree: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(_AtRunTime().visit(tree) if at_run_time else tree):
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


@pytest.mark.parametrize(("name", "path"), _modules(), ids=[name for name, _ in _modules()])
def test_a_file_imports_only_from_the_rooms_it_may(name: str, path: Path) -> None:
    room = _room(name)
    assert room is not None
    allowed = ROOMS[room] | {room} | DOORS.get(str(path.relative_to(ROOT)), set())
    for imported in _imports(name, path):
        top = imported.partition(".")[0]
        if top == "hpushim":
            target = _room(imported)
            assert target is None or target in allowed, f"{path.name} imports {imported}"
        else:
            forbidden = FORBIDDEN[room.partition("/")[0]]
            assert top not in forbidden, f"{path.name} imports {imported}"


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
    for name, path in _modules():
        room = _room(name) or ""
        if room.removeprefix("codemods/") in _THEMES and path.stem != "__init__":
            for imported in _imports(name, path):
                other = _room(imported) or ""
                assert other.removeprefix("codemods/") not in _THEMES, f"{name} imports {imported}"


def _code_words(path: Path) -> set[str]:
    """The words of names and strings, documentation apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
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


@pytest.mark.parametrize(
    "path",
    [p for p in sorted((ROOT / "hpushim/engine").rglob("*.py")) if p.stem != "catalogue"],
    ids=lambda p: p.stem,
)
def test_the_engine_knows_no_cuda(path: Path) -> None:
    """It knows Python and files; the catalogue alone, which writes the guide for rules, gives examples."""
    assert not _code_words(path) & {"cuda", "nccl", "hccl", "habana", "gaudi", "htcore"}


@pytest.mark.parametrize("path", sorted((ROOT / "codemods").rglob("*.py")), ids=lambda p: p.stem)
def test_rules_on_python_build_no_text_edits(path: Path) -> None:
    """They name nodes and what becomes of them; rules on other kinds of file say which bytes change."""
    names = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert path.parent.name == "files" or not names & {"Edit", "Fix", "splice"}


@pytest.mark.parametrize("path", sorted((ROOT / "codemods").rglob("*.py")), ids=lambda p: p.stem)
def test_rules_ask_a_whole_module_through_what_is_found_once(path: Path) -> None:
    """``"x" in module.data`` at every call takes time that grows with the square of the file: ``module.holds("x")`` does not."""
    searched = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Compare) and any(map(_is_whole, node.comparators)))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("search", "match", "fullmatch")
            and any(map(_is_whole, node.args))
        )
    ]
    assert [ast.unparse(node) for node in searched] == []


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith(
        ("module.data", "module.text")
    )


@pytest.mark.parametrize("path", sorted((ROOT / "codemods").rglob("*.py")), ids=lambda p: p.stem)
def test_rules_do_not_walk_the_whole_tree(path: Path) -> None:
    """``ast.walk`` is for a statement; a file is asked by word."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ast.walk":
            assert ast.unparse(node.args[0]).rpartition(".")[2] != "tree", node.lineno


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
        "report/html.py",
        "matrix/readings.py",
        "matrix/vendor_names.py",
        "matrix/sources.py",
    },
}


@pytest.mark.parametrize("what", ONE_PLACE)
@pytest.mark.parametrize("room", ["cli", "engine", "matrix", "report"])
def test_there_is_one_place_to_print_write_and_read(what: str, room: str) -> None:
    for path in sorted((ROOT / "hpushim" / room).rglob("*.py")):
        name = path.relative_to(ROOT / "hpushim").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
