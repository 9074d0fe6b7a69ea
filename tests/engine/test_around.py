"""Which files no training run needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target

TRAINS = "import torch\nloss.backward()\n"
MAIN = 'import torch\nif __name__ == "__main__":\n    run()\n'
PLAIN = "import torch\n"


@pytest.mark.parametrize(
    ("files", "aside"),
    [
        # Without a file that trains only names tell.
        ({"a.py": PLAIN, "serve/b.py": MAIN, "tests/test_a.py": TRAINS}, {"tests/test_a.py"}),
        ({"lib/fit.py": TRAINS, "serve/b.py": PLAIN}, {"serve/b.py"}),
        ({"lib/fit.py": "from serve import b\n" + TRAINS, "serve/b.py": PLAIN}, set()),
        ({"lib/fit.py": TRAINS, "serve/b.py": "from lib.fit import x\n"}, set()),
        # A module may be loaded by its name, a program of another purpose is not.
        ({"lib/fit.py": TRAINS, "lib/b.py": PLAIN, "lib/c.py": MAIN}, {"lib/c.py"}),
        ({"train.py": TRAINS, "helper.py": PLAIN, "export.py": PLAIN}, {"export.py"}),
        ({"train.py": TRAINS, "setup.py": MAIN, "show.ipynb": "{}"}, {"show.ipynb"}),
        # An import of an installed package is none of a folder in another package.
        (
            {"lib/fit.py": "import data\n" + TRAINS, "z/p/__init__.py": "", "z/p/data.py": PLAIN},
            {"z/p/__init__.py", "z/p/data.py"},
        ),
        # A copy of another project trains for itself.
        (
            {"setup.py": "", "lib/fit.py": TRAINS, "dep/x/setup.py": "", "dep/x/t.py": TRAINS},
            {"dep/x/setup.py", "dep/x/t.py"},
        ),
        ({"a/Dockerfile": "FROM x\n", ".github/w.yml": "", "train.py": TRAINS}, {"a/Dockerfile", ".github/w.yml"}),
    ],
)  # fmt: skip
def test_what_no_training_run_needs(tmp_path: Path, files: dict[str, str], aside: set[str]) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = analyse([tmp_path], Target())
    assert {path for path in report.around if path in files} == aside
