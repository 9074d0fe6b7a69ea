"""Which programs of a project train, and what shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine import programs
from hpushim.engine.links import Links
from hpushim.engine.programs import Started
from hpushim.engine.project import analyse
from hpushim.model import Report, Target

TRAINS = "import torch\nloss.backward()\n"
MAIN = 'if __name__ == "__main__":\n    run()\n'
TAKES = "from lib.fit import step\n" + MAIN


def of(folder: Path, files: dict[str, str]) -> Report:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return analyse([folder], Target())


COMMANDS = {
    "python": "    python tools/go.py --x 1\n",
    "options": "`CUDA_VISIBLE_DEVICES=0 python3 -u tools/go.py`\n",
    "launcher": "```\ntorchrun --nproc_per_node=8 \\\n  tools/go.py\n```\n",
    "module": "$ python -m tools.go\n",
    "distributed": "python -m torch.distributed.launch --nproc_per_node 4 tools/go.py\n",
    "variable": "$PY_CMD tools/go.py --cfg x\n",
    "accelerate": "accelerate launch --config a.yaml ./tools/go.py\n",
    "behind cd": "cd tools\npython go.py\n",
    "script": "bash run.sh\n",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("text", [TAKES, "from lib.fit import step\nstep()\n", TRAINS])
def test_what_the_readme_starts_is_the_program(tmp_path: Path, command: str, text: str) -> None:
    files = {"lib/fit.py": TRAINS, "lib/__init__.py": "", "other.py": TAKES, "tools/go.py": text, "README.md": command, "run.sh": "python tools/go.py\n"}  # fmt: skip
    report = of(tmp_path, files)
    assert report.program == "tools/go.py"
    assert report.programs[0].path == "tools/go.py"
    assert "`README.md` has a command that starts it" in report.programs[0].why
    assert "tools/go.py" not in report.around


@pytest.mark.parametrize("first", ["eval.py", "tools/test_it.py", "demo.py", "generate.py", "visualize_x.py"])  # fmt: skip
def test_what_does_something_else_with_the_model_is_not_the_program(
    tmp_path: Path, first: str
) -> None:
    report = of(tmp_path, {"lib/fit.py": TRAINS, first: TAKES, "go.py": TAKES, "README.md": f"python {first}\npython go.py\n"})  # fmt: skip
    assert report.program == "go.py"


LOADS = "import_module(name)\n"


@pytest.mark.parametrize(
    ("files", "program"),
    [
        # A web page that the README starts loads a network; what is called after training trains.
        ({"page.py": "from lib.make import make\n" + MAIN, "tutorial_train.py": TRAINS, "README.md": "python page.py\n"}, "tutorial_train.py"),
        ({"gradio_page.py": "from lib.make import make\n" + MAIN, "main.py": "from lib.fit import step\n" + MAIN, "README.md": "python gradio_page.py\n"}, "main.py"),
        ({"tools/download_data/go.py": "from lib.make import make\n" + MAIN, "tools/fit/go.py": TAKES, "README.md": "python tools/download_data/go.py\npython tools/fit/go.py\n"}, "tools/fit/go.py"),
        ({"go.py": "from lib.make import make\n" + MAIN, "other.py": TAKES, "README.md": "python go.py\npython other.py\n"}, "go.py"),
    ],
)  # fmt: skip
def test_what_loads_by_names_may_train_or_not(tmp_path: Path, files: dict[str, str], program: str) -> None:  # fmt: skip
    assert of(tmp_path, {**files, "lib/make.py": LOADS, "lib/fit.py": TRAINS}).program == program


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.py", 'setup(entry_points={"console_scripts": ["go = pkg.start:main"]})\n'),
        ("pyproject.toml", '[project.scripts]\ngo = "pkg.start:main"\n'),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    go = pkg.start:main\n"),
    ],
)
def test_a_command_that_the_project_installs_is_a_program(
    tmp_path: Path, name: str, text: str
) -> None:
    report = of(tmp_path, {name: text, "pkg/__init__.py": "", "pkg/fit.py": TRAINS, "pkg/start.py": "from pkg.fit import step\ndef main():\n    step()\n"})  # fmt: skip
    assert [each.path for each in report.programs] == ["pkg/start.py"]


@pytest.mark.parametrize(
    ("files", "program"),
    [
        # In the README's order.
        ({"b.py": TRAINS + MAIN, "a.py": TRAINS + MAIN, "README.md": "python b.py\npython a.py\n"}, "b.py"),
        # A name that several files end in is none of them.
        ({"a/go.py": TRAINS + MAIN, "b/go.py": TRAINS + MAIN, "a/train.py": TAKES, "lib/fit.py": TRAINS, "README.md": "python go.py\n"}, "a/train.py"),
        # What trains in a notebook, where a program does not.
        ({"lib/fit.py": TRAINS, "examples/go.py": TAKES, "show.ipynb": '{"cells": [{"cell_type": "code", "source": ["import torch\\n", "loss.backward()\\n"]}]}'}, "examples/go.py"),
        # In a folder that is no package, beside one that also takes gradients.
        ({"pyproject.toml": "", "gui/__init__.py": "", "gui/fit.py": TRAINS, "core/train.py": "from core.model import step\n" + MAIN, "core/model.py": TRAINS, "docs/train.md": "torchrun core/train.py\n"}, "core/train.py"),
        ({"tools/show.py": "import torch\n" + MAIN, "lib/b.py": "import torch\n", "a.py": MAIN, "README.md": "python tools/show.py\n"}, "tools/show.py"),
    ],
)  # fmt: skip
def test_the_program(tmp_path: Path, files: dict[str, str], program: str) -> None:
    assert of(tmp_path, files).program == program


@pytest.mark.parametrize("command", ["theirs-train data --user-dir lib", "torchrun --nproc_per_node=2 $(which theirs-train) data"])  # fmt: skip
def test_a_program_of_another_package_may_train(tmp_path: Path, command: str) -> None:
    report = of(tmp_path, {"lib/net.py": "import torch\nfrom theirs.nets import Net\n", "go.sh": f"{command}\n", "show.py": MAIN})  # fmt: skip
    assert (report.trained_by, report.program, report.programs) == ("theirs", "go.sh", ())


README, SCRIPT = Started("README.md", True, 0), Started("go.sh", False, 0)


@pytest.mark.parametrize(
    ("path", "what", "named", "points"),
    [
        ("go.py", "trains", None, 12), ("train.py", "trains", None, 25), ("Main.py", "trains", None, 14), ("a/b/go.py", "trains", None, 10), ("eval.py", "trains", None, 2),
        ("go.py", "trains", README, 22), ("go.py", "trains", SCRIPT, 16), ("eval/go.py", "trains", None, 8), ("examples/go.py", "trains", None, 8), ("demo/go.py", "trains", None, 5),
        ("go.py", "trains alone", None, 10), ("go.ipynb", "trains", None, -4), ("go.ipynb", "trains alone", None, -6), ("train_eval.py", "trains", None, 25),
        ("go.py", "uses", None, 6), ("go.py", "uses", README, 22), ("go.py", "uses", SCRIPT, 16), ("train.py", "uses", None, 25), ("main.py", "uses", None, 14), ("train/go.py", "uses", None, 11), ("test.py", "uses", README, 12),
        ("main.py", "loads", None, 10), ("main.py", "loads", SCRIPT, 14), ("main.py", "loads", README, 24), ("train.py", "loads", None, 21), ("go.py", "loads", None, None), ("go.py", "loads", SCRIPT, 12), ("go.py", "loads", README, 22),
        ("train.py", "", None, 8), ("train.py", "", README, 18), ("go.py", "", README, None), ("train.ipynb", "", README, None),
    ],
)  # fmt: skip
def test_what_each_sign_weighs(path: str, what: str, named: Started | None, points: int | None) -> None:  # fmt: skip
    imports: dict[str, list[tuple[str, str]]] = {path: [("lib_zq.fit", "")] if what == "uses" else [("lib_zq.make", "")] if what == "loads" else [], "lib_zq/fit.py": [], "lib_zq/make.py": []}  # fmt: skip
    starts = [path] if what.startswith("trains") else ["lib_zq/fit.py"]
    scripts = [] if what == "trains alone" or named else [path]
    found = programs.programs(starts, [*scripts, "other_zq.py"], ["lib_zq/make.py"], Links(imports), {path: named} if named else {})  # fmt: skip
    assert {each.path: number for number, each in found}.get(path) == points
    signs = {"trains": "has a training loop", "uses": "uses the training loop of `lib_zq/fit.py`", "loads": "may load a training loop by name"}  # fmt: skip
    wanted = [signs[what.split(maxsplit=1)[0]]] if what else []
    wanted += ["its name suggests training"] * ("train" in path.rpartition("/")[2])
    wanted += [f"`{named.by}` has a command that starts it"] if named else []
    assert {each.why for _, each in found if each.path == path} == ({", ".join(wanted)} if points is not None else set())  # fmt: skip


def test_of_as_likely_ones_the_readmes_order_counts_then_the_shortest_path() -> None:
    links = Links({path: [] for path in ("a.py", "b.py", "cc.py", "d.py")})
    named = {"b.py": Started("README.md", True, 1), "cc.py": Started("README.md", True, 0)}
    found = programs.programs([*"ab"], [], [], links, {})
    assert [each.path for _, each in found] == ["a", "b"]
    found = programs.programs(["a.py", "b.py", "cc.py", "d.py"], ["a.py", "d.py"], [], links, named)
    assert [(points, each.path) for points, each in found] == [(22, "cc.py"), (22, "b.py"), (12, "a.py"), (12, "d.py")]  # fmt: skip
