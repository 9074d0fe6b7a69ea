"""A name of torch.hpu that nobody is known to have run is named when the shim first calls it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("served")

pytest.importorskip("torch")

ASK = """
import hpushim
import torch

for _ in range(2):
    try:
        torch.cuda.{name}()
    except RuntimeError:
        pass
"""


@pytest.mark.parametrize(("name", "told"), [("utilization", 1), ("memory_allocated", 0)])
def test_it_is_said_once_and_counted(name: str, told: int) -> None:
    environment = os.environ | {"HPUSHIM": "emulate", "HPUSHIM_LOG": "summary"}
    command = [sys.executable, "-c", ASK.format(name=name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = f"torch.cuda.{name} calls torch.hpu.{name}, which nobody is known to have run"
    assert done.returncode == 0, done.stderr
    now, _, summary = done.stderr.partition("summary of this run")
    assert (now.count(said), summary.count(said)) == (told, told), done.stderr
