"""torch.profiler with ProfilerActivity.HPU: device events, tables, traces; all of them emulated."""

from __future__ import annotations

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from hpushim.emulator import device

HPU = getattr(ProfilerActivity, "HPU", None)
BOTH = [ProfilerActivity.CPU, HPU]


@pytest.fixture(autouse=True)
def device_events():
    if HPU is None:
        pytest.skip(f"torch {torch.__version__} has no ProfilerActivity.HPU")
    if not device.load().profiles_device:
        pytest.skip(f"torch {torch.__version__} ships no headers to extend its profiler with")


def work() -> torch.Tensor:
    x = torch.ones(64, 64, device="hpu", requires_grad=True)
    with record_function("forward"):
        y = (x @ x).relu().sum()
    y.backward()
    return x.grad.cpu()


def averages(**options):
    with profile(activities=BOTH, **options) as prof:
        work()
    return prof, {e.key: e for e in prof.key_averages()}


def test_hpu_is_an_activity_that_torch_offers(hpu):
    assert HPU in torch.profiler.supported_activities()


def test_operators_and_their_device_time(hpu):
    _, rows = averages()
    kernel = rows["emulated_hpu::mm"]
    assert kernel.count == 3, "one forward, two backward"
    assert kernel.self_device_time_total > 0 and kernel.self_cpu_time_total == 0
    operator = rows["aten::mm"]
    assert operator.device_time_total == pytest.approx(kernel.device_time_total)
    assert operator.cpu_time_total > operator.device_time_total
    assert rows["forward"].device_time_total > 0, "the kernels below a range count in it"
    assert rows["emulated_hpu::memcpy_device_to_host"].count == 1


@pytest.mark.parametrize("key", ["device_time_total", "self_device_time_total", "cpu_time_total"])
def test_the_table_has_columns_of_the_device(hpu, key):
    prof, _ = averages()
    table = prof.key_averages().table(sort_by=key, row_limit=50)
    assert "Self HPU" in table and "HPU total" in table and "emulated_hpu::mm" in table
    total = table.split("Self HPU time total: ")[1].split()[0]
    assert total != "0.000us"


def test_the_trace_says_emulated(hpu, tmp_path):
    prof, _ = averages()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert {e["args"]["device"] for e in kernels} == {"emulated"}
    host = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    for kernel in kernels:
        asked_by = host[kernel["args"]["External id"]]
        assert asked_by["ts"] <= kernel["ts"]
        assert kernel["ts"] + kernel["dur"] <= asked_by["ts"] + asked_by["dur"]
    assert any(e.get("args", {}).get("name") == "hpu:0 (emulated)" for e in events)


def test_steps_of_a_schedule(hpu, tmp_path):
    ready = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=ready.append) as prof:
        for _ in range(8):
            work()
            prof.step()
    assert len(ready) == 2
    rows = {e.key: e for e in ready[-1].key_averages()}
    assert rows["emulated_hpu::mm"].count == 6, "two active steps of the last round"


def test_tensorboard_traces(hpu, tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with profile(activities=BOTH, on_trace_ready=handler):
        work()
    (written,) = tmp_path.iterdir()
    assert "emulated_hpu::mm" in written.read_text()


def test_shapes_and_stacks_and_memory(hpu):
    with profile(activities=BOTH, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        work()
    grouped = prof.key_averages(group_by_input_shape=True)
    assert any(e.key == "aten::mm" and e.input_shapes == [[64, 64], [64, 64]] for e in grouped)
    memory = [
        e
        for e in prof.profiler.kineto_results.events()
        if e.name() == "[memory]" and e.device_type().name == "HPU"
    ]
    taken = sum(e.nbytes() for e in memory if e.nbytes() > 0)
    freed = -sum(e.nbytes() for e in memory if e.nbytes() < 0)
    assert taken >= 4 * 64 * 64 * 4 and 0 < freed <= taken


def test_device_events_alone_and_the_host_alone(hpu):
    with profile(activities=[HPU]) as prof:
        work()
    assert any(e.key == "emulated_hpu::mm" for e in prof.key_averages())
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        work()
    keys = {e.key for e in prof.key_averages()}
    assert "aten::mm" in keys and not any(k.startswith("emulated_hpu::") for k in keys)


def test_threads_keep_their_own_operators(hpu):
    import threading

    with profile(activities=BOTH) as prof:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        work()
    rows = {e.key: e for e in prof.key_averages()}
    assert rows["emulated_hpu::mm"].count >= 3


def test_switched_off_by_the_vendors_variable(run):
    """HABANA_PROFILE=0: no events of the device, as on Gaudi."""
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
        torch.ones(4, 4, device="hpu") @ torch.ones(4, 4, device="hpu")
    print(sum(e.key.startswith("emulated_hpu::") for e in prof.key_averages()))
    prof.key_averages().table(sort_by="cpu_time_total")
    """
    assert run(code, HABANA_PROFILE="0").stdout.split()[-1] == "0"
    assert run(code, HABANA_PROFILE="").stdout.split()[-1] == "2", "fill_ and mm"


def test_nothing_is_kept_after_the_profile(hpu):
    averages()
    before = torch.hpu.memory_allocated()
    for _ in range(100):
        torch.ones(8, device="hpu") + 1
    assert torch.hpu.memory_allocated() == before
    _, rows = averages()
    assert rows["emulated_hpu::mm"].count == 3
