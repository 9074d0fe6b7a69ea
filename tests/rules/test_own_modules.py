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


LENT = {
    "from .backend import torch": True,
    "from .backend import name, torch, jax": True,
    "from ..ours.backend import torch": True,
    "from .backend import torch as t": True,
    "from .backend import Torch as torch": False,
    "from . import torch": False,
}
USES = {"{0}.autocast('cuda', dtype={0}.float16)": "HPU203", "{0}.cuda.synchronize()": "HPU414"}


@pytest.mark.parametrize("line", list(LENT))
@pytest.mark.parametrize("use", list(USES))
@pytest.mark.parametrize("own", ["", "ours/backend/torch.py", "ours/backend/torch/__init__.py"])
def test_torch_from_a_module_of_the_project(tmp_path: Path, line: str, use: str, own: str) -> None:
    called = "t" if line.endswith(" t") else "torch"
    files = {"ours/__init__.py": "", "ours/backend/__init__.py": "name = 1\n", own or "ours/b.py": ""}  # fmt: skip
    files["ours/model.py"] = f"{line}\n\n\ndef f(x):\n    return {use.format(called)}\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    report = analyse([tmp_path], Target(), jobs=1)
    said = {f.code for file in report.files if file.path == "ours/model.py" for f in file.findings}
    assert (USES[use] in said) is (LENT[line] and not own)
