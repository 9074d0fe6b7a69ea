"""The options that a project declares are known to the rules on its launch scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target


@pytest.mark.parametrize(
    ("script", "launch"),
    [
        ('parser.add_argument("--fp16")\n', "python train.py --fp16\n"),
        ("a.add_argument('--fp16')\na.add_argument('--bf16')\n", "python train.py --bf16\n"),
        ("print('--fp16')\n", "python train.py --bf16\n"),
    ],
)
def test_an_option_of_the_project_keeps_its_name(tmp_path: Path, script: str, launch: str) -> None:
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    shell = tmp_path / "run.sh"
    shell.write_text("export PT_HPU_LAZY_MODE=0\npython train.py --fp16\n", encoding="utf-8")
    migrate([tmp_path], Target(), unsafe=True, jobs=1)
    assert shell.read_text(encoding="utf-8").endswith(launch)
