"""What `hpushim run` rewrites as it loads it: the user's files, the libraries that the policy names, nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ASKS = 'def on_gpu(device):\n    return device.type == "cuda"\n'


def run(script: Path, *path: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k != "HPUSHIM"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, path))
    done = subprocess.run(
        [sys.executable, "-m", "hpushim", "run", script],
        cwd=script.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def library(folder: Path, name: str, version: str) -> Path:
    package = folder / "site-packages" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (package / "devices.py").write_text(ASKS)
    metadata = package.parent / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder / "site-packages"


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("lightning", "2.6.6", "True"),  # meets CUDA, compares by itself
        ("lightning", "2.5.5", "False"),  # knows hpu
        ("some_library", "1.0", "False"),  # nobody's business
    ],
)
def test_a_librarys_comparisons_follow_the_policy(
    tmp_path: Path, name: str, version: str, said: str
) -> None:
    site = library(tmp_path, name, version)
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(
        f"import torch\nfrom {name}.devices import on_gpu\nprint(on_gpu(torch.device('cuda')))\n"
    )
    assert run(script, site) == said


def test_a_checkout_below_the_script_is_not_rewritten(tmp_path: Path) -> None:
    checkout = tmp_path / "vendored"
    shutil.copytree(
        ROOT / "hpushim", checkout / "hpushim", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "compat_matrix.toml", checkout)
    (tmp_path / "asks.py").write_text(ASKS)
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom asks import on_gpu\nprint(on_gpu(torch.zeros(1, device='cuda').device))\n"
    )
    assert run(script, checkout) == "True"
