"""What NCCL and gloo do on CUDA and HCCL and gloo do not, under the shim: averages, card tensors in a gloo group."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import warm

torch = pytest.importorskip("torch", reason="the shim works on torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent


def test_collectives_of_two_ranks() -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    words = ["torchrun", "--standalone", "--nproc-per-node=2", str(HERE / "collectives_program.py")]
    done = warm.run(
        [sys.executable, "-m", "hpushim", "run", *words],
        env={
            **inherited,
            "HPUSHIM_POLICY": "faithful",
            "HPUSHIM_DEVICES": "2",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    plain = found.pop("loss plain")
    assert found.pop("drawn") == 4 and found.pop("mean") == 1.0
    for name, value in found.items():
        if name.startswith("loss"):
            assert value == pytest.approx(plain, rel=1e-5), name
        elif name.startswith("gloo"):
            assert value == ([3.0] if name == "gloo" else [5])
        else:  # of 3 and 5, of -5 and -6
            whole = "int" in name
            assert value == [4, -5 if whole else -5.5], name
            assert isinstance(value[0], int if whole else float), name
    assert len(found) == 4 * 5 + 3 * 2 + 5
    assert done.stderr.count("gloo carries CPU tensors only") == 1
    assert "ReduceOp.AVG" not in done.stderr
