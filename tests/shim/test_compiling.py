"""Code of the user's that is compiled past the import system is rewritten as the rest is, and never kept."""

from __future__ import annotations

import ast
import builtins
import pickle
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from test_run import run

from hpushim.shim.run import compiling

ASKS = 'import torch\nprint("cuda" == torch.ones(1).cuda().device.type)\n'
BY_PATH = "import importlib.util as u\ns = u.spec_from_file_location('asks', 'asks.py')\nm = u.module_from_spec(s)\ns.loader.exec_module(m)\n"
WAYS = {
    "profiler": ["-m", "cProfile", "asks.py"],
    "tracer": ["-m", "trace", "--listfuncs", "asks.py"],
    "debugger": ["-m", "pdb", "-c", "continue", "asks.py"],
    "runpy": 'import runpy\nrunpy.run_path("asks.py", run_name="__main__")\n',
    "exec of code": 'exec(compile(open("asks.py").read(), "asks.py", "exec"))\n',
    "exec of a made text": 'exec(compile(open("asks.py").read() + "# more\\n", "<made>", "exec"))\n',
    "exec of text": 'exec(open("asks.py").read(), {})\n',
    "exec of bytes": 'exec(open("asks.py", "rb").read())\n',
    "file by its path": BY_PATH,
    "loader": 'from importlib.machinery import SourceFileLoader\nSourceFileLoader("asks", "asks.py").load_module()\n',
    "child's code": ["python", "-c", ASKS],
    "child's profiler": ["python", "-m", "cProfile", "asks.py"],
}


@pytest.mark.parametrize("way", WAYS)
def test_it_answers_as_cuda_does(tmp_path: Path, way: str) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    words = WAYS[way]
    if isinstance(words, str):
        (tmp_path / "train.py").write_text(words)
        words = ["train.py"]
    done = run(tmp_path, *words)
    assert "True" in done.stdout.splitlines() and "False" not in done.stdout.splitlines(), done
    assert "HPU107" not in done.stderr
    kept = [file.read_bytes() for file in tmp_path.rglob("*.pyc")]
    assert not any(b"hpu" in data for data in kept)


def test_a_library_loaded_by_its_path_is_left_alone(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "asks.py").write_text(ASKS)
    (tmp_path / "train.py").write_text(BY_PATH.replace("'asks.py'", "'site-packages/asks.py'"))
    assert run(tmp_path, "train.py").stdout == "False\n"


def test_what_a_library_compiles_of_its_own_is_left_alone(tmp_path: Path) -> None:
    """As templates do: the source is the library's, whatever name it gives it, and whoever asked."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "asks.py").write_text(f"def ask(name):\n    exec(compile({ASKS!r}, name, 'exec'), {{}})\n")  # fmt: skip
    (tmp_path / "train.py").write_text(
        f"import sys\nsys.path.append({str(library)!r})\nimport asks\n"
        "asks.ask('<template>')\nasks.ask(asks.__file__)\nasks.ask(__file__)\n"
    )
    done = run(tmp_path, "train.py")
    assert done.stdout.split() == ["False", "False", "True"], done.stderr


def test_code_inherits_what_its_maker_imported_from_the_future(tmp_path: Path) -> None:
    for maker, told in (("from __future__ import annotations\n", "'x.device'"), ("", "1")):
        (tmp_path / "train.py").write_text(
            f"{maker}import torch\nclass x: device = 1\n"
            "text = 'def f(a: x.device): return a.type == \"cuda\"'\n"
            "here, there = {'x': x}, {'x': x}\n"
            "exec(compile(text, 'made', 'exec'), here)\nexec(text, there)\n"
            "print(here['f'].__annotations__, there['f'].__annotations__)\n"
        )
        done = run(tmp_path, "train.py")
        assert done.stdout == f"{{'a': {told}}} {{'a': {told}}}\n", done.stderr


@pytest.fixture
def installed() -> Iterator[None]:
    before = (builtins.compile, SourceFileLoader.get_code)
    compiling.install()
    compiling.install()
    yield
    compiling.uninstall()
    assert (builtins.compile, SourceFileLoader.get_code) == before


@pytest.mark.usefixtures("installed")
def test_compile_stays_compile() -> None:
    assert pickle.loads(pickle.dumps(compile)) is compile
    assert isinstance(compile("x == 'cuda'", "x", "exec", ast.PyCF_ONLY_AST), ast.Module)
    assert eval(compile("device == 'cuda'", __file__, "eval"), {"device": "hpu"}) is False
    for wrong in ("device.type == 'cuda' (", "'cuda'\0"):
        with pytest.raises((SyntaxError, ValueError)):
            compile(wrong, __file__, "exec")
    with pytest.raises(TypeError):
        compile("1")  # type: ignore[call-arg]
    names: dict[str, object] = {}
    exec(compile(memoryview(b"x = 'cuda'"), __file__, "exec"), names)
    assert names["x"] == "cuda"
