"""A communication hook whose state is a process group, as torch's own hooks take it."""

from __future__ import annotations

from pathlib import Path

import pytest
import warm

SCRIPT = """
import torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
dist.init_process_group("nccl", init_method="file://STORE", rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])
model.register_comm_hook(dist.group.WORLD, allreduce_hook)
model(torch.ones(1, 2).cuda()).sum().backward()
print("gradient on", model.module.weight.grad.device)
"""


def test_a_hook_with_a_group_as_its_state_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    import os
    import sys

    script = tmp_path / "hook.py"
    script.write_text(SCRIPT.replace("STORE", str(tmp_path / "store")))
    done = warm.run(
        [sys.executable, "-m", "hpushim", "run", str(script)],
        env={**os.environ, "HPUSHIM": "emulate"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "gradient on hpu:0" in done.stdout
