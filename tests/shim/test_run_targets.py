"""``hpushim run`` of notebooks, shell scripts and other starters, and of what cannot be run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from test_run import run

ASKS = (
    "import torch\nx = torch.ones(1).cuda()\n"
    'print(x.device.type == "cuda", x.device.type, torch.cuda.is_available())\n'
)
#: What waits in a Python that is armed: for the user's own modules and for torch.
ARMED = "import sys\nprint(*(type(one).__name__ for one in sys.meta_path if type(one).__module__.startswith('hpushim.')))\n"


def notebook(folder: Path, *cells: str, name: str = "train.ipynb", **metadata: object) -> str:
    """Writes a notebook of code cells, a text cell between them."""
    made = [{"cell_type": "markdown", "metadata": {}, "source": ["# %time\n"]}]
    made += [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)}
        for cell in cells
    ]
    book = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (folder / name).write_text(json.dumps(book))
    return name


def test_a_notebook_runs_by_its_cells(tmp_path: Path) -> None:
    inner = tmp_path / "books"
    inner.mkdir()
    (inner / "mine.py").write_text('def on_gpu(x):\n    return x.device.type == "cuda"\n')
    notebook(
        inner,
        "%matplotlib inline\n%load_ext autoreload\n%env SHADE=dark\nimport os\n\nimport torch\nimport mine\n",
        'x = torch.ones(2).cuda()\nif x.device.type == "cuda":\n    %time y = x.sum().item()\ny\n',
        "!echo from the shell, $SHADE\n",
        "%%bash\necho from bash\n",
        "%%time\nprint(mine.on_gpu(x), __name__, sorted(os.listdir('.')))\n",
        "text = '''\n%no magic\n!no command\n'''\nprint(text.split())\nx.device.type;\n",
        "import sys\nprint(sys.argv[1:])\nsys.exit(5)",
    )
    done = run(tmp_path, "books/train.ipynb", "--epochs", "3")
    assert done.stdout.splitlines() == [
        *("2.0", "from the shell, dark", "from bash"),
        "True __main__ ['mine.py', 'train.ipynb']",
        "['%no', 'magic', '!no', 'command']",
        "'hpu'",
        "['--epochs', '3']",
    ], done.stderr
    assert done.returncode == 5


def test_an_error_in_a_cell_shows_the_cell(tmp_path: Path) -> None:
    name = notebook(tmp_path, "a = 1\n", "def f():\n    raise ValueError('boom')\nf()\n")
    done = run(tmp_path, name)
    assert done.returncode == 1 and "\nValueError: boom\n" in done.stderr
    assert "train.ipynb (cell 3)" in done.stderr and "raise ValueError" in done.stderr
    assert "hpushim/shim" not in done.stderr


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ("print('first')\n%sql select 1\n", "cell 2, line 2: `%sql`"),
        ("%%javascript\nalert()\n", "cell 2, line 1: `%%javascript`"),
        ("print('first')\nfiles = !ls\n", "cell 2, line 2: `files = !ls`"),
    ],
)
def test_other_magics_are_refused_before_anything_runs(
    tmp_path: Path, cell: str, named: str
) -> None:
    done = run(tmp_path, notebook(tmp_path, cell))
    assert done.returncode == 2 and named in done.stderr and not done.stdout


def test_what_is_no_notebook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.ipynb").write_text('{"worksheets": [], "nbformat": 3}')
    assert "not a notebook of format 4" in run(tmp_path, "old.ipynb").stderr
    name = notebook(tmp_path, "x <- 1", kernelspec={"language": "R", "name": "ir"})
    assert "a notebook in R" in run(tmp_path, name).stderr


@pytest.mark.parametrize("how", ["bash", "sh -c", "itself", "suffix", "python", "env", "native"])
def test_python_that_a_program_starts_is_armed(tmp_path: Path, how: str) -> None:
    """Each way that differs once with torch; the others by what stands ready for it."""
    ready = how in ("bash", "itself", "suffix", "env")
    (tmp_path / "ask.py").write_text(ARMED if ready else ASKS)
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\nset -e\ncd .\npython ask.py $1\nexit 3\n")
    script.chmod(0o755)
    (tmp_path / "plain.sh").write_text("python ask.py\nexit 3\n")
    words = {
        "bash": ["bash", "train.sh", "a"],
        "sh -c": ["sh", "-c", "python ask.py; exit 3"],
        "itself": ["./train.sh", "a"],
        "suffix": ["plain.sh"],
        "python": ["python", "ask.py"],
        "env": ["env", "SHADE=dark", "sh", "train.sh"],
        "native": ["--native", "sh", "-c", "python native.py; exit 3"],
    }[how]
    (tmp_path / "native.py").write_text(
        "import torch\nx = torch.ones(1).to('hpu')\nprint(x.is_cuda, x.device.type, torch.cuda.is_available())\n"
    )
    done = run(tmp_path, *words)
    expected = (
        "False hpu False" if how == "native" else "_Finder Waiter" if ready else "True hpu True"
    )
    assert (done.stdout.strip(), done.returncode) == (expected, 0 if how == "python" else 3), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("nothing.py", "no such script"),
        ("folder", "a folder without __main__.py"),
        ("./binary", "hpushim run sh -c './binary --fast'"),
        ("ls", "hpushim run sh -c 'ls --fast'"),
        ("./tool.pl", "a program, and no Python script"),
    ],
)
def test_what_cannot_be_run_is_told_at_once(tmp_path: Path, word: str, told: str) -> None:
    (tmp_path / "folder").mkdir()
    shutil.copy("/bin/ls", tmp_path / "binary")
    (tmp_path / "tool.pl").write_text("#!/usr/bin/perl\nprint 1;\n")
    done = run(tmp_path, word, "--fast")
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert not done.stdout


def test_a_file_goes_before_a_command_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python3\nprint('mine')\n")
    (tmp_path / "train").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    for word in ("./train", "train"):
        assert run(tmp_path, word, PATH=path).stdout == "mine\n"
    (tmp_path / "train.py").write_text("print('a script')\n")
    (tmp_path / "train.py").chmod(0o755)
    assert run(tmp_path, "train.py", PATH=path).stdout == "a script\n"
