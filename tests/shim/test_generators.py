"""Generators by release: what the emulated device refuses up to 1.19, the shim gives on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("served")

pytest.importorskip("torch")

DRAW = """
import torch

generator = torch.Generator({device!r}).manual_seed(1)
drawn = torch.empty(2, device={device!r}).normal_(generator=generator)
print(generator.device.type, drawn.device.type)
"""


def run(script: str, release: str, shim: str = "off") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HPUSHIM": shim, "HPUSHIM_STACK": release}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("release", "made"), [("1.19", "cpu"), ("1.24", "hpu")])
def test_a_cuda_generator_draws_in_every_release(release: str, made: str) -> None:
    done = run("import hpushim\n" + DRAW.format(device="cuda"), release, "emulate")
    assert done.stdout.split() == [made, "hpu"], done.stderr
    assert ("has no generator for hpu" in done.stderr) == (made == "cpu")


def test_the_emulated_device_refuses_what_the_release_lacks() -> None:
    script = "from hpushim.shim import detect\ndetect.emulate()\n" + DRAW.format(device="hpu")
    refused = run(script, "1.19")
    assert refused.returncode == 1
    assert "torch.Generator was asked for on hpu" in refused.stderr
    assert run(script, "1.24").stdout.split() == ["hpu", "hpu"]
