"""The emulator's books, each run in a process of its own."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("served")

TRAIN = """
import hpushim.emulator
hpushim.emulator.enable()
import torch
import habana_frameworks.torch.core as htcore
model = torch.nn.Linear(4, 3).to("hpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for size in (4, 4, 4, 7, 4, 7, 5):
    x = torch.ones(size, 4).to("hpu")
    with torch.autocast("hpu", torch.bfloat16):
        loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    htcore.mark_step()
"""


def books(run, tmp_path, code, **env):
    path = tmp_path / "ledger.json"
    result = run(code, HPUSHIM_LEDGER=str(path), **env)
    return json.loads(path.read_text()), result


def test_lazy_graphs_recompile_for_each_new_shape_and_say_why(run, tmp_path):
    found, _ = books(run, tmp_path, TRAIN, PT_HPU_LAZY_MODE="1")
    assert found["emulated"] is True and found["mode"] == "lazy"
    assert found["mark_steps"] == 7 and found["graph_runs"] == 7
    assert found["graphs"] == 3, "sizes 4, 7 and 5"
    assert found["recompilations"] == 2
    causes = found["recompilation_causes"]
    assert [c["operator"] for c in causes] == ["aten::addmm", "aten::addmm"]
    assert "[4,4]" in causes[0]["before"] and "[7,4]" in causes[0]["after"]
    assert "[5,4]" in causes[1]["after"]


def test_eager_mode_has_no_graph_between_marks(run, tmp_path):
    found, _ = books(run, tmp_path, TRAIN, PT_HPU_LAZY_MODE="0")
    assert found["mode"] == "eager"
    assert found["graph_runs"] == found["operators"]
    assert found["graphs"] < found["operators"], (
        "an operator that comes again is not compiled again"
    )


def test_what_proves_the_device_was_taken(run, tmp_path):
    found, _ = books(run, tmp_path, TRAIN + "torch.mm(torch.ones(2, 2), torch.ones(2, 2))\n")
    assert found["compute_operators"] == {"hpu": 14, "cpu": 1}
    assert found["operator_calls"]["aten::addmm"] == 7 and found["operator_calls"]["aten::mm"] == 7
    assert found["parameters"] == {"hpu": 2}
    assert found["autocast"] == [{"device": "hpu", "dtype": "bfloat16", "count": 7}]
    assert found["host_to_device"] == 9 and found["device_to_host"] == 0
    assert found["peak_bytes"] > 0 and found["unhandled_cuda"] == []


def test_host_syncs_name_the_users_line(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "x = torch.ones(3).to('hpu')\n"  # 2: a transfer
        "for _ in range(5):\n"
        "    x.sum().item()\n"  # 4
        "x.cpu()\n"  # 5
        "bool(x[0])\n"  # 6
        "x.nonzero()\n"  # 7
    )
    found, _ = books(
        run,
        tmp_path,
        f"import hpushim.emulator, runpy; hpushim.emulator.enable(); runpy.run_path({str(script)!r})",
    )
    assert found["host_syncs"] == 8 and found["device_to_host"] == 1
    syncs = {
        (site["line"], site["count"])
        for site in found["sites"]
        if site["kind"] == "host_sync" and site["file"] == str(script)
    }
    assert syncs == {(4, 5), (5, 1), (6, 1), (7, 1)}
    transfers = [s for s in found["sites"] if s["kind"] == "host_to_device"]
    assert [(s["file"], s["line"], s["count"]) for s in transfers] == [(str(script), 2, 1)]


def test_structure_is_wiring_not_sequence(run):
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    from hpushim.emulator import ledger
    a, b = torch.ones(2, device="hpu"), torch.ones(2, device="hpu")
    ledger.mark_step(); ledger.reset()
    (a + b).exp(); ledger.mark_step()
    (b + a).exp(); ledger.mark_step()
    assert ledger.snapshot()["graphs"] == 1, "the same graph on other tensors"
    c = a + b; a.exp(); ledger.mark_step()
    found = ledger.snapshot()
    assert found["graphs"] == 2 and found["recompilations"] == 0, "the same operators, wired otherwise"
    """
    run(code, PT_HPU_LAZY_MODE="1")


def test_tracing_and_emulation_itself_are_not_counted(run, tmp_path):
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    layer = torch.nn.Conv2d(2, 2, 3).to("hpu")
    torch.compile(layer, backend="aot_eager")(torch.ones(1, 2, 5, 5, device="hpu")).sum().backward()
    """
    found, _ = books(run, tmp_path, code)
    assert found["compute_operators"] == {"hpu": 2, "cpu": 0}


def test_a_recomputation_that_stops_early_is_no_work_on_the_cpu(run, tmp_path):
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    from torch.utils.checkpoint import checkpoint
    block = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
    block.to("hpu")
    x = torch.ones(2, 4).to("hpu")
    for _ in range(3):
        checkpoint(block, x, use_reentrant=False).sum().backward()
    """
    found, _ = books(run, tmp_path, code)
    assert found["compute_operators"]["hpu"] > 0 and found["compute_operators"]["cpu"] == 0


def test_a_launcher_and_helpers_leave_the_books_alone(run, tmp_path):
    code = """
    import os, subprocess, sys
    import hpushim.emulator
    hpushim.emulator.enable()
    child = "import hpushim.emulator as e; e.enable(); import torch; torch.ones(2, device='hpu').add(1)"
    for rank in "01":
        subprocess.run([sys.executable, "-c", child], env={**os.environ, "RANK": rank}, check=True)
    subprocess.run([sys.executable, "-c", "import hpushim.emulator as e; e.enable()"], check=True)
    """
    found, _ = books(run, tmp_path, code)
    assert found["operators"] == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.json", "ledger.json.rank1"]


def test_books_of_an_earlier_run_do_not_survive(run, tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text('{"stale": true}')
    found, _ = books(run, tmp_path, "import hpushim.emulator as e; e.enable()")
    assert "stale" not in found and found["operators"] == 0


def test_an_open_hccl_group_is_noted_once_by_its_own_name(run, tmp_path):
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch.distributed as dist
    dist.init_process_group("hccl", init_method="file://{0}/store", rank=0, world_size=1)
    dist.get_backend = lambda: "{1}"  # as a CUDA program is told, or as a group of several backends says
    """
    for name in ("nccl", "undefined"):
        place = tmp_path / name
        place.mkdir()
        found, _ = books(run, place, code.format(place, name))
        assert [group["backend"] for group in found["process_groups"]] == ["hccl"]
