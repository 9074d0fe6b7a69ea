"""What public reports say fails on a card (docs/refusals.md), the emulated HPU refuses under the policy ``faithful``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("served")

pytest.importorskip("torch")

#: By release and mode, statements of which each fails on a card.
CASES = {
    ("1.19", "1"): (
        'torch.Generator("hpu")',
        'torch.tensor([2**40]).to("hpu")',
    ),
    ("1.24", "0"): (
        "torch.accelerator.empty_cache()",
        "torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(2, 2))",
        'torch.ones(2, device="hpu") + torch.ones(2)',
        'torch.sparse_coo_tensor([[0]], [1.0], (2,), device="hpu")',
        'torch.nn.DataParallel(torch.nn.Linear(2, 2).to("hpu"))',
    ),
}
RUN = """
import json, sys
from hpushim.shim import detect
detect.emulate()
import torch
done = {}
for statement in json.loads(sys.argv[1]):
    try:
        exec(statement)
        done[statement] = "accepted"
    except Exception as error:
        done[statement] = type(error).__name__
print(json.dumps(done))
"""


@pytest.mark.parametrize(("release", "lazy"), CASES)
def test_a_reported_refusal_is_refused(release: str, lazy: str) -> None:
    settings = {
        "HPUSHIM": "off",
        "HPUSHIM_STACK": release,
        "PT_HPU_LAZY_MODE": lazy,
        "HPUSHIM_POLICY": "faithful",
    }
    statements = CASES[release, lazy]
    command = [sys.executable, "-c", RUN, json.dumps(statements)]
    out = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, check=True
    ).stdout
    done = json.loads(out.splitlines()[-1])
    assert [statement for statement, how in done.items() if how == "accepted"] == []
    assert set(done) == set(statements)
