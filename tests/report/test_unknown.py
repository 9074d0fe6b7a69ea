"""The report counts what nobody knows, also in rows that the project brings along."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.report import summarise

ROW = """
[[row]]
name = "mylib.fast"
status = "{status}"
rule = "HPU021"
note = "Ours."
"""


@pytest.mark.parametrize(("status", "count"), [("unknown", 2), ("unsupported", 0)])
def test_rows_of_the_project_are_counted(tmp_path: Path, status: str, count: int) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text(ROW.format(status=status), encoding="utf-8")
    source = tmp_path / "train.py"
    source.write_text("import mylib\n\nmylib.fast(1)\nmylib.fast(2)\n", encoding="utf-8")
    report = analyse([source], Target(), matrix=load(extra=(rows,)), jobs=1)
    assert [f.row for file in report.files for f in file.findings] == ["mylib.fast"] * 2
    assert summarise(report).unknown == count
