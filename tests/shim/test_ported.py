"""``HPUSHIM=emulate`` and programs that are written for Gaudi already, or for both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("served")

torch = pytest.importorskip("torch", reason="start-up is about programs that import torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

TELL = """
x = torch.ones(2).to("hpu")
print(x.type(), torch.cuda.is_available())
"""
GAUDI = "import habana_frameworks.torch.core as htcore"
CUDA = "torch.ones(1).cuda()"
NATIVE, SHIM = "torch.hpu.FloatTensor False", "torch.cuda.FloatTensor True"


def _ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**clean, "HPUSHIM": "emulate", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("main", "expected", "says"),
    [
        (f"{GAUDI}\nimport torch", NATIVE, "train.py:1 imports habana_frameworks"),
        (f"import torch\n{GAUDI}", NATIVE, "train.py:2 imports habana_frameworks"),
        ("import torch\nimport mine", NATIVE, "mine.py:1 imports habana_frameworks"),
        (f"import torch\n{GAUDI}\nif 0:\n    {CUDA}", NATIVE, "but train.py:4 names CUDA"),
        (f"import torch\nif 0:\n    {CUDA}\n{GAUDI}", SHIM, "train.py:3 names CUDA before train.py:4"),
        ("import torch", SHIM, "(HPUSHIM=emulate)"),
        (f"import hpushim\nimport torch\n{GAUDI}", SHIM, "(HPUSHIM=emulate)"),
    ],
)  # fmt: skip
def test_a_program_for_gaudi_runs_natively(
    main: str, expected: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(f"{main}\n{TELL}")
    (tmp_path / "mine.py").write_text(f"{GAUDI}\n")
    done = _ran(tmp_path, "train.py")
    assert done.stdout.strip() == expected, done.stderr
    assert says in done.stderr


def test_a_cuda_call_that_was_left_over_fails_natively(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{GAUDI}\nimport torch\n{CUDA}\n")
    done = _ran(tmp_path, "train.py")
    assert done.returncode == 1
    assert "hpushim run" in done.stderr
    assert "Torch not compiled with CUDA enabled" in done.stderr
