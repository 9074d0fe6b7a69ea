"""The versions that a project asks for decide what a package's row says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.codemods.analysis.versions import assess
from hpushim.engine.base.text import Project, Text
from hpushim.engine.data.pins import pins
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("requirements", "Pytorch_Lightning[extra] >=1.5,<2.0  # old\n", ">=1.5,<2.0"),
        ("yaml", "dependencies:\n  - pytorch-lightning=1.4.2=py38\n", "==1.4.2.*"),
        ("yaml", "  - pip:\n    - pytorch_lightning==1.4.2\n", "==1.4.2"),
        ("toml", 'dependencies = ["torch", "pytorch-lightning~=2.4"]\n', "~=2.4"),
        ("python", "setup(install_requires=['pytorch-lightning<2.5.6'])\n", "<2.5.6"),
        ("ini", "install_requires =\n    pytorch-lightning <= 2.5\n", "<= 2.5"),
    ],
)
def test_versions_are_read(kind: str, text: str, found: str) -> None:
    assert pins(text.encode(), kind)["pytorch-lightning"] == found


def test_a_setting_is_no_package() -> None:
    assert pins(b"[isort]\nline_length = 100\nprofile=black\n", "ini") == {}


@pytest.mark.parametrize(
    ("specifier", "status"),
    [
        ("==2.4.0", "changed"),
        ("==2.5.5", "changed"),
        ("==2.5.6", "unsupported"),
        ("==2.5.*", "unsupported"),
        ("==2.4.*", "changed"),
        ("<2.5.6", "changed"),
        ("<2.6", "unsupported"),
        ("<=2.5.5", "changed"),
        (">=1.5,<2", "changed"),
        (">=1.5", "unsupported"),
        ("~=2.4.0", "changed"),
        ("~=2.4", "unsupported"),
        ("!=2.5.6", "unsupported"),
    ],
)
def test_a_limit_decides_where_every_version_lies_in_it(specifier: str, status: str) -> None:
    matrix = load()
    row = matrix.row("lightning.Trainer(accelerator=)", "argument")
    assert row is not None
    text = Text("", "train.py", Target(), matrix, Project(pins=(("lightning", specifier),)))
    assert assess(text, row).status == status


def test_two_files_that_disagree_leave_it_open() -> None:
    matrix = load()
    row = matrix.row("lightning.Trainer(accelerator=)", "argument")
    assert row is not None
    asked = (("lightning", "<2.5"), ("pytorch-lightning", ">=2"))
    text = Text("", "train.py", Target(), matrix, Project(pins=asked))
    assert assess(text, row).status == "unsupported"


@pytest.mark.parametrize(("version", "safety"), [("<2.5", "unsafe"), (">=2.5.6", "safe")])
def test_the_requirements_of_a_project_are_used(tmp_path: Path, version: str, safety: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"lightning{version}\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(
        'from lightning import Trainer\nTrainer(accelerator="gpu")\n', encoding="utf-8"
    )
    report = analyse([tmp_path], Target(), jobs=1)
    found = [f for file in report.files for f in file.findings if f.row and "(" in f.row]
    assert [f.safety for f in found] == [safety]
