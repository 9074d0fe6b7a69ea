"""Where a lazy graph ends, besides marks: wherever the device, the host or another rank needs what is pending."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

PROGRAM = """
    import json, threading
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    import torch.distributed as dist
    import habana_frameworks.torch.core as htcore
    from hpushim.emulator import ledger
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.eye(3).to("hpu")
    event, stream = torch.hpu.Event(), torch.hpu.Stream()

    def in_thread():
        worker = threading.Thread(target=lambda: x * 5)
        worker.start()
        worker.join()

    ENDS = {
        "nothing": lambda: None,
        "another thread": in_thread,
        "mark": htcore.mark_step,
        "item": lambda: x[0, 0].item(),
        "copy to the host": x.cpu,
        "synchronize": torch.hpu.synchronize,
        "event": event.record,
        "stream": stream.synchronize,
        "collective": lambda: dist.all_reduce(x),
        "operator on the CPU": lambda: torch.linalg.svdvals(x),
    }
    found = {}
    for name, end in ENDS.items():
        htcore.mark_step()
        ledger.reset()
        y = x + 1
        end()
        y = y * 2
        htcore.mark_step()
        found[name] = ledger.snapshot()["graph_runs"]
    print(json.dumps(found))
    dist.destroy_process_group()
"""


def test_where_a_lazy_graph_ends(run: Callable[..., Any]) -> None:
    """One sequence for the whole process, threads included: the bridge keeps one context for the device."""
    found = json.loads(run(PROGRAM, PT_HPU_LAZY_MODE="1").stdout)
    whole = {"nothing", "another thread"}
    assert {name for name, graphs in found.items() if graphs == 1} == whole, found
    assert all(graphs == 2 for name, graphs in found.items() if name not in whole), found
