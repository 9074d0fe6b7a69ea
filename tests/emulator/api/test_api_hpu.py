"""torch.hpu: device, memory, random state, streams, events, switches, metrics, the launch helper."""

from __future__ import annotations

import importlib
import json
import os
import pickle

import pytest

torch = pytest.importorskip("torch")


def test_device_answers(hpu):
    assert hpu.is_available()
    assert hpu.is_initialized() or hpu.init() is None
    assert hpu.device_count() == 1
    assert hpu.current_device() == 0
    assert hpu.get_device_name() == "GAUDI2"
    assert hpu.get_arch_list() == ["GAUDI2"]
    assert hpu.get_gencode_flags() == ""
    assert "emulated" in hpu.get_device_properties()
    assert hpu.is_bf16_supported()


def test_generation_for_libraries():
    experimental = importlib.import_module("habana_frameworks.torch.utils.experimental")
    assert experimental._get_device_type() == experimental.synDeviceType.synDeviceGaudi2
    assert experimental._is_fp16_supported()


@pytest.mark.parametrize("bad", [1, "hpu:1", torch.device("hpu", 3)])
def test_other_devices_are_refused(hpu, bad):
    for ask in (hpu.get_device_name, hpu.memory_allocated, hpu.memory_stats):
        with pytest.raises(AssertionError, match="Invalid device id"):
            ask(bad)
    with pytest.raises(ValueError, match="Expected a hpu device"):
        hpu.memory_allocated("cpu")


def test_set_device_follows_the_launcher(hpu, monkeypatch):
    monkeypatch.delenv("HLS_MODULE_ID", raising=False)
    monkeypatch.delenv("HABANA_VISIBLE_MODULES", raising=False)
    hpu.set_device(0)
    with pytest.raises(AssertionError, match="HPUSHIM_DEVICES"):
        hpu.set_device(1)
    monkeypatch.setenv("HPUSHIM_DEVICES", "4")
    hpu.set_device("hpu:2")
    assert os.environ["HLS_MODULE_ID"] == "2"
    hpu.set_device(0)
    assert os.environ["HLS_MODULE_ID"] == "2", "the first choice stands"
    assert hpu.current_device() == 0
    with hpu.device(2), hpu.device(0), hpu.device_of(torch.ones(1, device="hpu")):
        pass
    with pytest.raises(AssertionError, match="env_device_id=2"):
        hpu.device(1)


def test_memory_counters(hpu):
    hpu.reset_peak_memory_stats()
    before = hpu.memory_allocated()
    block = torch.empty(1 << 20, dtype=torch.uint8, device="hpu")
    assert hpu.memory_allocated() - before == 1 << 20
    del block
    assert hpu.memory_allocated() == before
    assert hpu.max_memory_allocated() >= before + (1 << 20)
    hpu.reset_peak_memory_stats()
    assert hpu.max_memory_allocated() == before
    stats = hpu.memory_stats()
    assert list(stats) == [
        "Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize",
        "TotalSystemAllocs", "TotalSystemFrees", "TotalActiveAllocs",
    ]  # fmt: skip
    assert stats["Limit"] == 102106132480  # what a Gaudi 2 calls dramSize
    assert hpu.memory_reserved() == hpu.max_memory_reserved() == stats["Limit"]
    assert hpu.mem_get_info() == (stats["Limit"] - before, stats["Limit"])
    assert hpu.memory_usage() == before
    assert "emulated" in hpu.memory_summary()
    with pytest.warns(FutureWarning, match="renamed"):
        assert hpu.memory_cached() == stats["Limit"]


def test_accumulated_counters_start_anew(hpu):
    torch.empty(10, device="hpu")
    hpu.reset_accumulated_memory_stats()
    assert hpu.memory_stats()["NumAllocs"] == 0
    kept = torch.empty(10, device="hpu")
    assert hpu.memory_stats()["NumAllocs"] == 1
    del kept


def test_random_state(hpu):
    torch.manual_seed(3)
    first = torch.rand(5, device="hpu")
    hpu.manual_seed_all(3)
    assert torch.equal(first, torch.rand(5, device="hpu"))
    assert hpu.initial_seed() == 3
    state = hpu.get_rng_state()
    second = torch.rand(5, device="hpu")
    hpu.set_rng_state(state)
    assert torch.equal(second, torch.rand(5, device="hpu"))
    hpu.set_rng_state_all([state])
    assert torch.equal(second, torch.rand(5, device="hpu"))
    assert len(hpu.get_rng_state_all()) == len(hpu.default_generators) == 1
    with pytest.raises(RuntimeError, match="only device 0"):
        hpu.get_rng_state(1)
    with pytest.raises(RuntimeError, match="states len of 1"):
        hpu.set_rng_state_all([state, state])
    assert hpu.random.seed() == hpu.initial_seed()


def test_torchs_dtensor_names_the_card_by_its_rank() -> None:
    torch.hpu.random.set_rng_ctx("philox")
    try:
        torch.hpu.manual_seed(3)
        before = torch.hpu.random.get_rng_state("hpu:3")
        with torch.random.fork_rng(devices=[torch.device("hpu", 1)], device_type="hpu"):
            torch.hpu.manual_seed(4)
            other = torch.hpu.random.get_rng_state()
            torch.hpu.random.set_rng_state(before, "hpu:1")
            assert torch.equal(torch.hpu.random.get_rng_state(), before)
            assert not torch.equal(other, before)
            torch.hpu.random.set_rng_state(other, "hpu:2")
        assert torch.equal(torch.hpu.random.get_rng_state(), before)
    finally:
        torch.hpu.random.unset_rng_ctx("philox")


def test_fork_rng_restores_the_device(hpu):
    torch.manual_seed(3)
    state = hpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="hpu"):
        torch.rand(5, device="hpu")
        torch.manual_seed(9)
    assert torch.equal(state, hpu.get_rng_state())


@pytest.mark.parametrize("requested", [-1, 0, 1])
def test_all_streams_have_one_priority(hpu, requested):
    assert hpu.Stream(priority=requested).priority == hpu.current_stream().priority == 0


def test_streams_are_types_of_their_own(hpu):
    stream = hpu.Stream()
    assert type(stream) is hpu.Stream
    assert isinstance(stream, torch.Stream)
    assert isinstance(hpu.current_stream(), hpu.Stream)
    assert stream != hpu.default_stream()
    assert hpu.current_stream() == hpu.default_stream()
    with hpu.stream(stream) as nothing:
        assert nothing is None
        assert hpu.current_stream() == stream
        with hpu.stream(None):
            assert hpu.current_stream() == stream
    assert hpu.current_stream() == hpu.default_stream()
    assert hpu.get_stream_info(stream) == (stream.id(), 0, False)
    assert {stream: 1}[hpu.Stream(stream_id=stream.id())] == 1
    hpu.set_stream(stream)
    assert torch.accelerator.current_stream() == stream
    hpu.set_stream(hpu.default_stream())


def test_events_are_types_of_their_own(hpu):
    start, end = hpu.Event(enable_timing=True), hpu.Event(enable_timing=True)
    assert type(start) is hpu.Event
    assert isinstance(start, torch.Event)
    assert "uninitialized" in repr(start)
    with pytest.raises(RuntimeError, match="record"):
        start.elapsed_time(end)
    stream = hpu.Stream()
    start.record()
    end.record(stream)
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0.0
    assert isinstance(stream.record_event(), hpu.Event)
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(stream.record_event())


def test_streams_and_events_mix_with_torchs_own(hpu):
    stream, event = hpu.Stream(), hpu.Event()
    plain_stream, plain_event = torch.Stream("hpu"), torch.Event("hpu")
    assert stream.record_event(plain_event) is plain_event
    event.record(plain_stream)
    for waiting in (stream, plain_stream):
        waiting.wait_event(event)
        waiting.wait_event(plain_event)
        waiting.wait_stream(plain_stream)
        waiting.wait_stream(stream)
    torch.ones(2, device="hpu").record_stream(stream)


def test_switches(hpu):
    assert hpu.recompute_sdp_enabled()
    with hpu.sdp_kernel(enable_recompute=False):
        assert not hpu.recompute_sdp_enabled()
    assert hpu.recompute_sdp_enabled()
    hpu.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status()
    hpu.disable_dynamic_shape()
    assert not hpu.get_dynamic_shape_status()
    with pytest.warns(UserWarning, match="deterministic"):
        hpu.setDeterministic(True)


def test_autocast_state(hpu):
    assert not hpu.is_autocast_hpu_enabled()
    assert hpu.get_autocast_hpu_dtype() == torch.bfloat16
    with torch.autocast("hpu", torch.bfloat16):
        assert hpu.is_autocast_hpu_enabled()
        assert (
            torch.ones(2, 2, device="hpu") @ torch.ones(2, 2, device="hpu")
        ).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "BFloat16Tensor", "BoolTensor"])
def test_legacy_tensor_types(hpu, name):
    made = getattr(hpu, name)([1, 0])
    assert made.device.type == "hpu"
    assert isinstance(made, getattr(hpu, name))
    assert made.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="legacy constructor expects device"):
        getattr(hpu, name)([1], device="cpu")


def test_utilization_is_not_modelled(hpu):
    with pytest.raises(
        NotImplementedError, match=r"emulated HPU does not model torch\.hpu\.utilization"
    ):
        hpu.utilization()


def test_metrics(hpu, tmp_path):
    assert hpu.metric_global("no_such_metric") is None
    metrics = importlib.import_module("habana_frameworks.torch.hpu.metrics")
    with pytest.raises(metrics.MetricNotFound), hpu.metric_localcontext("no_such_metric"):
        pass
    fallbacks = dict(hpu.metric_global("cpu_fallback").stats())
    assert set(fallbacks) == {"TotalNumber", "FallbackOps"}
    hpu.metrics_dump(str(tmp_path / "metrics.json"))
    hpu.metrics_dump(str(tmp_path / "metrics.json"))
    written = json.loads((tmp_path / "metrics.json").read_text())
    assert {one["metric_name"] for one in written} >= {"graph_compilation", "cpu_fallback"}
    assert (tmp_path / "metrics.json.1").exists(), "an earlier file is kept"


def test_metrics_file_at_exit(run, tmp_path):
    target = tmp_path / "metrics.txt"
    code = """
        from hpushim.emulator import enable
        enable()
        import torch
        torch.hpu.metric_global("graph_compilation")
        (torch.ones(2, device="hpu") + 1).sum().item()
    """
    run(code, PT_HPU_METRICS_FILE=str(target), PT_HPU_METRICS_FILE_FORMAT="text")
    text = target.read_text()
    assert "Metric name: graph_compilation" in text
    assert "Triggered by: process_exit" in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (1, -1, -1)),
        ({"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}, (4, 3, 1)),
        (
            {
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            },
            (2, 1, 1),
        ),
    ],
)
def test_launch_helper(monkeypatch, given, expected):
    hccl = importlib.import_module("habana_frameworks.torch.distributed.hccl")
    with monkeypatch.context() as changes:
        for name in (
            "WORLD_SIZE",
            "RANK",
            "LOCAL_RANK",
            "MASTER_ADDR",
            "MASTER_PORT",
            "HLS_MODULE_ID",
            "ID",
        ):
            changes.setenv(name, "")  # so that its value comes back afterwards
            changes.delenv(name)
        for name, value in given.items():
            changes.setenv(name, value)
        assert hccl.initialize_distributed_hpu() == expected
        assert os.environ.get("HLS_MODULE_ID") == (str(expected[2]) if given else None)
        assert hccl.initialize_distributed_hpu(8, 5, 2) == (8, 5, 2)
        assert os.environ["RANK"] == "5"


def test_visible_modules_choose_the_card(monkeypatch):
    hccl = importlib.import_module("habana_frameworks.torch.distributed.hccl")
    for name, value in {
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "HABANA_VISIBLE_MODULES": "4,6",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ID", "")
    monkeypatch.setenv("HLS_MODULE_ID", "")
    monkeypatch.delenv("HLS_MODULE_ID")
    hccl.initialize_distributed_hpu()
    assert os.environ["HLS_MODULE_ID"] == "6"
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4")
    monkeypatch.delenv("HLS_MODULE_ID")
    with pytest.raises(AssertionError, match="has no device"):
        hccl.initialize_distributed_hpu()


def test_hccl_is_registered():
    assert "hccl" in torch.distributed.Backend.backend_list
    assert torch.distributed.get_default_backend_for_device("hpu") == "hccl"


def test_mark_step_does_nothing_in_eager_mode():
    from hpushim.emulator import ledger

    core = importlib.import_module("habana_frameworks.torch.core")
    before = ledger.snapshot()["mark_steps"]
    ran: list[int] = []
    core.add_step_closure(ran.append, (1,))
    core.mark_step()
    assert ran == []
    assert ledger.snapshot()["mark_steps"] == before


def test_compile_with_the_vendors_backend():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(
        "hpu"
    )
    x = torch.randn(3, 4, device="hpu")
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    compiled = torch.compile(model, backend="hpu_backend", options={"use_graph_freezing": False})
    found = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(Exception, match="no option 'no_such_option'"):
        torch.compile(model, backend="hpu_backend", options={"no_such_option": 1})(x[:1])


def test_compiled_attention_keeps_its_layout():
    """A view after a permuted element-wise result: legal in the trace only if shapes are propagated as they run."""

    def attention(q):
        scaled = q.transpose(1, 2) * 0.5
        return torch.softmax(scaled.transpose(1, 2).reshape(2, -1), dim=-1).sum(-1)

    q = torch.randn(2, 3, 4, 5, device="hpu", requires_grad=True)
    expected = torch.autograd.grad(attention(q).sum(), q)
    found = torch.autograd.grad(torch.compile(attention, backend="hpu_backend")(q).sum(), q)
    torch.testing.assert_close(found, expected)


def test_generators_and_modules_survive_pickling():
    model = torch.nn.Linear(2, 2).to("hpu")
    again = pickle.loads(pickle.dumps(model))
    assert again.weight.device.type == "hpu"
    assert torch.equal(again.weight, model.weight)


def test_recompilation_finder(tmp_path):
    experimental = importlib.import_module("habana_frameworks.torch.utils.experimental")
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    watched = experimental.detect_recompilation_auto_model(model, csv_out=str(tmp_path / "found"))
    for rows in (2, 2, 5):
        watched(torch.ones(rows, 3))
    rows = watched.analyse_dynamicity()
    assert [(step, name) for step, name, *_ in rows if name == "0"] == [(1, "0"), (3, "0")]
    assert (tmp_path / "found.csv").read_text().startswith("step,module,class,shapes")


def test_shapes_that_a_data_loader_gives(hpu):
    experimental = importlib.import_module(
        "habana_frameworks.torch.utils.experimental.detect_recompilation"
    )
    loader = [torch.ones(2, 3), torch.ones(1, 3), torch.ones(2, 3)]
    assert experimental.data_dynamicity(loader) == {(2, 3): 2, (1, 3): 1}
    nested = (torch.ones(4), [torch.ones(1, 2), {"mask": torch.ones(3)}], 7)
    assert experimental.get_shape(nested) == ((4,), ((1, 2), ((hash("mask"), (3,)),)), hash(7))
    same = experimental.const_shape_dataloader(loader, 2)
    assert [batch.shape for batch in same] == [(2, 3), (2, 3)]
    assert [b.shape for b in experimental.const_shape_dataloader(loader, 9)] == [(2, 3)] * 2
    with pytest.raises(AssertionError, match="gives no batch"):
        experimental.const_shape_dataloader([], 1)


def test_old_inference_helpers(hpu):
    core = importlib.import_module("habana_frameworks.torch.core")
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval().to("hpu")
    model[1].running_mean.fill_(0.3)
    x = torch.randn(1, 1, 5, 5, device="hpu")
    expected = model(x)
    fused = core.hpu_set_env(model)
    core.hpu_initialize(fused, mark_only_scales_as_const=True)
    assert isinstance(fused[1], torch.nn.Identity)
    torch.testing.assert_close(fused(x), expected, rtol=1e-5, atol=1e-5)
    core.hpu_reset_env()


def test_eight_bit_layers_run_in_full_width_or_say_no():
    engine = importlib.import_module("habana_frameworks.torch.hpex.experimental.transformer_engine")
    layer = engine.Linear(3, 2)
    with engine.fp8_autocast(enabled=False, fp8_recipe=engine.recipe.DelayedScaling()):
        assert layer(torch.ones(1, 3, device="hpu")).shape == (1, 2)
    assert not engine.fp8.is_fp8_available()[0]
    with (
        pytest.raises(NotImplementedError, match="emulated HPU does not model fp8_autocast"),
        engine.fp8_autocast(enabled=True),
    ):
        pass
