"""Which programs of a project train, and what shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

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
