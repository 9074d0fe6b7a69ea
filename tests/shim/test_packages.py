"""Packages made for NVIDIA: blocked with the alternative, or stood in for; a library meets the truth."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

torch = pytest.importorskip("torch", reason="the shim works on torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
PACKAGES = "flash_attn,xformers,cupy,numba.cuda,mamba_ssm,my_own"


def run(path: Path, **environment: str) -> dict[str, Any]:
    """What the script printed, with ``path`` holding installed packages."""
    search = os.pathsep.join([str(path), str(HERE.parents[1])])
    done = warm.run(
        [sys.executable, str(HERE / "packages_script.py"), PACKAGES],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={
            **os.environ,
            "HPUSHIM": "emulate",
            "HPUSHIM_LOG": "quiet",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": search,
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    for name in ("flash_attn", "cupy", "numba", "numba/cuda", "my_own"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("")
    # A library that looks after itself imports what it likes.
    (folder / "accelerate.py").write_text("import flash_attn\n")
    return folder


@pytest.fixture(scope="module")
def found(installed: Path) -> dict[str, Any]:
    return run(installed)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("flash_attn", "HPU703"),
        ("xformers", "HPU709"),
        ("cupy", "HPU712"),
        ("numba.cuda", "HPU712"),
        ("mamba_ssm", "HPU709"),
    ],
)
def test_blocked_packages_are_as_if_absent(found: dict[str, Any], name: str, code: str) -> None:
    seen, outcome = found[name]
    assert not seen and outcome.startswith(f"ModuleNotFoundError: {code} {name} "), outcome


def test_other_packages_import(found: dict[str, Any]) -> None:
    assert found["my_own"] == [True, "imported"]


def test_a_package_can_be_let_through(installed: Path) -> None:
    assert run(installed, HPUSHIM_ALLOW_IMPORT="cupy")["cupy"] == [True, "imported"]


def test_pynvml_answers_or_raises_its_own_error(found: dict[str, Any]) -> None:
    for question in ("nvmlDeviceGetTemperature", "nvmlDeviceGetFanSpeed"):
        assert found[question].startswith("NVMLError_NotSupported: HPU620")
    assert "HPU620" in found["constant"]


def test_pynvml_asks_hl_smi(tmp_path: Path) -> None:
    tool = tmp_path / "hl-smi"
    tool.write_text("#!/bin/sh\necho '0, 42'\n")
    tool.chmod(0o755)
    found = run(tmp_path, HL_SMI=str(tmp_path))
    assert found["nvmlDeviceGetTemperature"] == 42
    assert found["nvmlDeviceGetFanSpeed"].startswith("NVMLError_NotSupported: HPU620")


def test_apex_is_answered_with_torch(found: dict[str, Any]) -> None:
    assert found["lamb"] == ["FusedLamb", "torch.float32", True]
    assert found["adam"] == ["FusedAdam", "Adam"]


def test_deactivate_lets_everything_through(found: dict[str, Any]) -> None:
    assert found["after"] == ["imported", False, True]
