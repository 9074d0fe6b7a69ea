"""Who may import whom, and what may not be loaded at start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    # room → rooms that it may import, anywhere in its files
    "model": set(),
    "errors": set(),
    "quiet_git": set(),
    "safe_files": set(),
    "showing": set(),
    "matrix": {"errors", "model", "quiet_git", "safe_files"},
    "engine": {"errors", "matrix", "model", "quiet_git", "safe_files", "showing"},
    "codemods": {"engine", "errors", "matrix", "model"},
    "report": {"errors", "matrix", "model", "showing"},
    "shim": {"errors", "matrix", "model", "safe_files"},
    "emulator": {"errors", "matrix", "model", "safe_files"},
    "cli": {"engine", "errors", "matrix", "model", "report", "safe_files", "shim", "showing"},
}
# files with a licence of their own, each the one door between two rooms
DOORS = {
    "hpushim/engine/rule.py": {"codemods"},
    "hpushim/engine/page.py": {"codemods"},
    "hpushim/shim/detect.py": {"emulator"},
}
FORBIDDEN = {
    "model": {"torch", "libcst", "click", "rich", "yaml", "jinja2"},
    "errors": {"torch", "libcst", "click", "rich", "yaml", "jinja2", "msgspec", "tomli"},
    "quiet_git": {
        "torch",
        "libcst",
        "click",
        "rich",
        "yaml",
        "jinja2",
        "msgspec",
        "tomli",
        "pathlib",
    },
    "safe_files": {
        "torch",
        "libcst",
        "click",
        "rich",
        "yaml",
        "jinja2",
        "msgspec",
        "tomli",
        "pathlib",
    },
    "showing": {
        "torch",
        "libcst",
        "click",
        "rich",
        "yaml",
        "jinja2",
        "msgspec",
        "tomli",
        "pathlib",
    },
    "matrix": {"torch", "libcst", "click", "rich", "yaml", "jinja2"},
    "engine": {"torch", "habana_frameworks", "click"},
    "codemods": {"torch", "habana_frameworks", "click"},
    "report": {"torch", "habana_frameworks", "libcst", "click"},
    "shim": {"libcst", "click", "rich", "jinja2", "yaml"},
    "emulator": {"libcst", "click", "rich", "jinja2", "yaml"},
    "cli": {"libcst"},
}


def _files() -> list[tuple[str, Path]]:
    found = []
    for path in sorted((ROOT / "hpushim").rglob("*.py")):
        parts = path.relative_to(ROOT / "hpushim").parts
        if parts[:2] == ("emulator", "site"):
            continue  # a package of its own, on sys.path only while the emulator is on
        room = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
        if room in ROOMS:
            found.append((room, path))
    found += [("codemods", path) for path in sorted((ROOT / "codemods").glob("*.py"))]
    return found


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            # Rules stay inside their room by construction; type checkers see that folder under its own name only.
            assert path.parent.name == "codemods", f"{path}: relative import outside the rules"
            assert node.level == 1, f"{path}: relative import out of the room"
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return names


@pytest.mark.parametrize(("room", "path"), _files(), ids=lambda v: getattr(v, "name", v))
def test_a_file_imports_only_from_the_rooms_it_may(room: str, path: Path) -> None:
    allowed = ROOMS[room] | {room} | DOORS.get(str(path.relative_to(ROOT)), set())
    for name in _imports(path):
        top, _, rest = name.partition(".")
        if top == "hpushim":
            target = rest.partition(".")[0]
            if target in ROOMS:
                assert target in allowed, f"{path.name} imports {name}"
        else:
            assert top not in FORBIDDEN[room], f"{path.name} imports {name}"


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
    "read": {"cli/__init__.py", "engine/page.py", "matrix/readings.py", "matrix/sources.py"},
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
