"""What the device keeps: memory, random numbers, streams, events, and how torch finds it."""

from __future__ import annotations

import gc

import pytest
import torch

from hpushim.emulator import device


def test_torch_takes_it_for_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("hpu")
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()


def test_a_generator_of_another_device_is_named():
    generator = torch.Generator("hpu")
    with pytest.raises(RuntimeError, match="draw with a generator of the tensor's device"):
        torch.randn(3, generator=generator)
    with pytest.raises(RuntimeError, match="generator"):
        torch.utils.data.RandomSampler([1, 2], generator=generator).__iter__().__next__()


def test_memory_follows_what_is_alive():
    gc.collect()
    before = device.memory_stats()
    x = torch.empty(1000, device="hpu")
    y = x + 1  # a result that a CPU kernel allocated
    now = device.memory_stats()
    assert now["in_use"] - before["in_use"] == 8000
    assert now["live"] - before["live"] == 2
    view = y[10:]
    del x, y
    assert device.memory_stats()["in_use"] - before["in_use"] == 4000, "a view keeps its memory"
    del view
    after = device.memory_stats()
    assert after["in_use"] == before["in_use"]
    assert after["frees"] - before["frees"] == 2
    device.reset_peak_memory()
    assert device.memory_stats()["peak"] == after["in_use"]
    torch.empty(500, device="hpu")
    assert device.memory_stats()["peak"] == after["in_use"] + 2000


def test_memory_limit_raises_out_of_memory_and_says_emulated():
    device.set_memory_limit(device.memory_stats()["in_use"] + 10_000)
    try:
        kept = torch.zeros(1000, device="hpu")
        with pytest.raises(
            torch.OutOfMemoryError, match="emulated HPU out of memory: asked for 8000"
        ):
            kept.to(torch.float64)
        with pytest.raises(torch.OutOfMemoryError, match="emulated"):
            torch.cat([kept, kept])
        assert kept.sum().item() == 0
    finally:
        device.set_memory_limit(0)
    assert torch.cat([kept, kept]).numel() == 2000


OUT_OF_MEMORY = """
import torch
from hpushim.emulator import device, enable, ledger
enable()
device.set_memory_limit(10_000)
for _ in range(2):
    try:
        torch.zeros(10_000, device="hpu")
    except RuntimeError as error:
        print(type(error).__name__, "Allocation failed" in str(error), "out of memory" in str(error))
print([one["code"] for one in ledger.snapshot()["objections"]])
"""


@pytest.mark.parametrize(
    ("policy", "raised"), [("observe", "OutOfMemoryError True True"), ("faithful", "RuntimeError True False"), ("strict", "RuntimeError True False")]
)  # fmt: skip
def test_out_of_memory_is_torchs_error_only_where_it_is_told(run, policy, raised):
    done = run(OUT_OF_MEMORY, HPUSHIM_POLICY=policy)
    *errors, objections = done.stdout.splitlines()
    assert errors == [raised, raised]
    assert objections == ("['HPU401']" if policy == "observe" else "[]")


def test_training_leaves_memory_as_it_was():
    def step():
        m = torch.nn.Linear(8, 8).to("hpu")
        o = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            m(torch.ones(4, 8, device="hpu")).sum().backward()
            o.step()
            o.zero_grad()

    step()
    gc.collect()
    before = device.memory_stats()["in_use"]
    step()
    gc.collect()
    assert device.memory_stats()["in_use"] == before


def test_manual_seed_gives_the_cpus_stream():
    torch.manual_seed(11)
    there = [
        torch.randn(5, device="hpu"),
        torch.rand(3, device="hpu"),
        torch.randperm(6, device="hpu"),
    ]
    torch.manual_seed(11)
    here = [torch.randn(5), torch.rand(3), torch.randperm(6)]
    for a, b in zip(there, here, strict=True):
        assert torch.equal(a.cpu(), b)


def test_the_two_streams_are_apart():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    torch.rand(100, device="hpu")
    torch.nn.functional.dropout(torch.ones(100, device="hpu"))
    torch.ops.aten.native_dropout(torch.ones(50, device="hpu"), 0.5, True)
    assert torch.equal(torch.rand(4), expected), "drawing on hpu leaves the CPU's stream alone"


def test_random_state_comes_back():
    state = device.get_rng_state()
    a = torch.rand(3, device="hpu")
    device.set_rng_state(state)
    assert torch.equal(a.cpu(), torch.rand(3, device="hpu").cpu())
    with torch.random.fork_rng(devices=[0], device_type="hpu"):
        torch.rand(7, device="hpu")
    device.set_rng_state(state)
    assert torch.equal(a.cpu(), torch.rand(3, device="hpu").cpu())


def test_generator_objects():
    g = torch.Generator("hpu")
    assert g.device.type == "hpu"
    g.manual_seed(5)
    a = torch.randint(0, 100, (6,), device="hpu", generator=g)
    assert torch.equal(
        a.cpu(), torch.randint(0, 100, (6,), generator=torch.Generator().manual_seed(5))
    )
    assert g.initial_seed() == 5


def test_a_generator_of_the_cpu_draws_for_the_device_as_on_gaudi():
    x = torch.empty(4, device="hpu").uniform_(-1, 2, generator=torch.Generator().manual_seed(3))
    again = torch.empty(4, device="hpu").uniform_(-1, 2, generator=torch.Generator().manual_seed(3))
    assert torch.equal(x.cpu(), again.cpu())
    assert x.device.type == "hpu"


def test_sharing_the_cpus_stream_makes_interleaved_draws_equal():
    def draws(where):
        torch.manual_seed(9)
        return [torch.rand(2), torch.rand(2, device=where).cpu(), torch.rand(2)]

    device.share_cpu_random(True)
    try:
        for a, b in zip(draws("hpu"), draws("cpu"), strict=True):
            assert torch.equal(a, b)
    finally:
        device.share_cpu_random(False)


def test_streams_and_events():
    first = torch.Stream("hpu")
    second = torch.Stream("hpu")
    assert first != second and first.device == torch.device("hpu", 0)
    with first:
        assert torch.accelerator.current_stream() == first
    assert torch.accelerator.current_stream().stream_id == 0
    start, end = torch.Event("hpu", enable_timing=True), torch.Event("hpu", enable_timing=True)
    start.record(first)
    end.record(first)
    end.synchronize()
    assert end.query() and first.query()
    assert 0 <= start.elapsed_time(end) < 10_000
    second.wait_event(end)
    untimed = torch.Event("hpu")
    untimed.record()
    with pytest.raises((RuntimeError, ValueError), match="timing"):
        start.elapsed_time(untimed)


def test_pinned_memory_is_known_by_its_address():
    x = torch.ones(4).pin_memory()
    assert x.is_pinned() and not torch.ones(4).is_pinned()
    assert x.to("hpu", non_blocking=True).sum().item() == 4
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.empty(3, device="hpu", pin_memory=True)
