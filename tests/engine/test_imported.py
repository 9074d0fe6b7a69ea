"""What the files of a project import from each other holds the names there, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target

HELPERS = """import torch
from torch.cuda.amp import GradScaler

Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
z = Tensor(3)


def train(loss, optimizer):
    scaler = GradScaler()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""


@pytest.mark.parametrize(
    "line",
    [
        "from helpers import Tensor, GradScaler\n",
        "from helpers import *\n\nprint(Tensor, GradScaler)\n",
        "from .helpers import (\n    GradScaler,  # the scaler (of CUDA)\n    Tensor as T,\n)\n",
        "from pkg.helpers import GradScaler, \\\n    Tensor\n",
        "def f():\n    from .helpers import Tensor\n    from helpers import GradScaler\n",
        "try:\n    from . helpers import Tensor, GradScaler\nexcept ImportError:\n    pass\n",
    ],
)
def test_a_name_that_another_file_imports_stays(tmp_path: Path, line: str) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (package / "user.py").write_text(line, encoding="utf-8")
    migrate([tmp_path], Target(), jobs=1)
    after = (package / "helpers.py").read_text(encoding="utf-8")
    assert "import GradScaler\n" in after
    assert "Tensor = " in after


@pytest.mark.parametrize(
    "line",
    ["from torch import Tensor\n", "from helpers import train\n", "from helpers import *\n", ""],
)
def test_other_imports_hold_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (tmp_path / "user.py").write_text(line, encoding="utf-8")
    migrate([tmp_path], Target(), jobs=1)
    after = (tmp_path / "helpers.py").read_text(encoding="utf-8")
    assert "GradScaler" not in after
    assert "Tensor = " not in after
