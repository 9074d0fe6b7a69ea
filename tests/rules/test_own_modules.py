"""A package of the project that has the name of a library is the project's; a mere folder is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"tests/ops/triton/test_one.py": "x = 1\n"},
            True,
        ),  # Python takes an installed triton first
        ({"triton/__init__.py": ""}, False),
        ({"triton.py": ""}, False),
        ({"ours/__init__.py": "", "ours/triton/__init__.py": ""}, True),  # that one is ours.triton
    ],
)
def test_a_name_is_the_projects_where_python_finds_it_there(
    tmp_path: Path, files: dict[str, str], told: bool
) -> None:
    for name, text in {**files, "kernel.py": "import triton\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    report = analyse([tmp_path], Target(), jobs=1)
    codes = {f.code for file in report.files for f in file.findings}
    assert ("HPU708" in codes) is told
