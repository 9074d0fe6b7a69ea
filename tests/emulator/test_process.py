"""Processes: how they start with the device, and how they end; where that is the subject, by ``start``, in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import crossed
import pytest

import hpushim.emulator

BACKWARD = """
import hpushim.emulator
hpushim.emulator.enable()
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).to("hpu")
model(torch.randn(8, 64, device="hpu")).sum().backward()
"""


def test_ends_cleanly_right_after_backward(start):
    for _ in range(5 if crossed.EVERY else 1):
        assert start(BACKWARD).stderr == ""


def test_ends_cleanly_after_backward_in_a_thread(start):
    code = BACKWARD + (
        "import threading\n"
        "def work(): model(torch.randn(8, 64, device='hpu')).sum().backward()\n"
        "t = threading.Thread(target=work); t.start(); t.join()\n"
    )
    assert start(code).stderr == ""


def test_children_emulate_by_environment_alone(start, monkeypatch):
    changes = hpushim.emulator.environment(gaudi="gaudi3")
    code = """
    import torch
    assert torch.hpu.is_available() and torch.hpu.get_device_name() == "GAUDI3"
    assert torch.ones(2).to("hpu").sum().item() == 2
    assert "hpu_backend" in torch._dynamo.list_backends()
    import importlib.metadata, subprocess
    version = importlib.metadata.version("habana-torch-plugin")
    told = subprocess.run(["hl-smi", "-v"], capture_output=True, text=True, check=True).stdout
    assert version in told and "emulated" in told
    """
    start(code, **changes)


def test_without_the_environment_nothing_is_emulated(start):
    code = """
    import torch, importlib.util
    assert importlib.util.find_spec("habana_frameworks") is None
    assert not hasattr(torch, "hpu")
    """
    start(code, PYTHONPATH="")


def test_enable_twice_is_once_and_children_inherit(run):
    code = """
    import subprocess, sys
    from hpushim import emulator
    emulator.enable()
    emulator.enable()
    import torch, habana_frameworks.torch
    assert torch.hpu is habana_frameworks.torch.hpu
    subprocess.run([sys.executable, "-c", "import torch; assert torch.ones(1).to('hpu').device.type == 'hpu'"], check=True)
    """
    run(code)


def test_torch_asked_for_an_accelerator_before_the_emulator_came(start):
    code = """
    import torch
    assert torch.accelerator.current_accelerator() is None
    torch.ones(2, requires_grad=True).sum().backward()
    import hpushim.emulator
    hpushim.emulator.enable()
    assert torch.accelerator.current_accelerator().type == "hpu"
    x = torch.ones(2, device="hpu", requires_grad=True)
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]
    """
    start(code)


def test_a_real_package_is_never_shadowed(start, tmp_path):
    (tmp_path / "habana_frameworks").mkdir()
    (tmp_path / "habana_frameworks" / "__init__.py").write_text("")
    code = "import hpushim.emulator as e; e.enable()"
    result = start(code, check=False, PYTHONPATH=str(tmp_path))
    assert result.returncode != 0
    assert "real habana_frameworks is installed" in result.stderr and str(tmp_path) in result.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers_and_pinning(run, tmp_path, method):
    script = tmp_path / "loading.py"
    script.write_text(
        f"""
import hpushim.emulator
hpushim.emulator.enable()
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    torch.ones(2, device="hpu", requires_grad=True).sum().backward()
    data = TensorDataset(torch.arange(16.0))
    loader = DataLoader(data, 4, num_workers=2, pin_memory=True, multiprocessing_context="{method}")
    total = 0
    for (batch,) in loader:
        assert batch.is_pinned()
        total += batch.to("hpu", non_blocking=True).sum().item()
    assert total == 120
"""
    )
    result = run(
        f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}], check=True)"
    )
    assert "rror" not in result.stderr, result.stderr


def test_two_first_uses_at_once_build_the_environment_once(tmp_path, start):
    code = """
    import os
    from concurrent.futures import ThreadPoolExecutor
    from hpushim import emulator
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: emulator.environment()["PYTHONPATH"], range(32)))
    assert len(found) == 1
    """
    start(code, HPUSHIM_CACHE_DIR=str(tmp_path))
    made = list((tmp_path / "environment").iterdir())
    assert len(made) == 1 and os.access(made[0] / "bin" / "hl-smi", os.X_OK)


def test_a_program_that_lets_autograd_use_its_threads_ends_well() -> None:
    """A thread that asks for Python while it shuts down waits for the end; it used to abort nine runs of ten."""
    code = (
        "import hpushim.emulator; hpushim.emulator.enable()\n"
        "import torch\n"
        "torch.autograd.set_multithreading_enabled(True)\n"
        "x = torch.ones(3, device='hpu', requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
    )
    for _ in range(4 if crossed.EVERY else 1):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=dict(os.environ, HPUSHIM="off"),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
