"""What programs rely on beyond values: hooks, saved files, changing shapes, torch.accelerator, environment flags."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

# ---- hooks -----------------------------------------------------------------------------------------------------------


def hooked(register):
    """What a hook saw in one training step on each device, in order: [cpu, hpu]."""
    logs = []
    for where in ("cpu", "hpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(where)
        x = torch.linspace(-1, 1, 6).view(2, 3).to(where).requires_grad_()
        log: list[tuple[str, torch.Tensor]] = []

        def see(tag, tensor, log=log, where=where):
            assert tensor.device.type == where
            log.append((tag, tensor.detach().cpu().clone()))

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        handle = register(model, x, optimizer, see)
        model(x).sum().backward()
        optimizer.step()
        for h in handle if isinstance(handle, list) else [handle]:
            h.remove()
        seen = len(log)
        model(x).sum().backward()
        assert len(log) == seen > 0, "a removed hook sees nothing"
        logs.append(log)
    return logs


HOOKS = {
    "forward": lambda m, x, o, see: m[0].register_forward_hook(lambda mod, a, out: see("f", out)),
    "forward_pre": lambda m, x, o, see: m[0].register_forward_pre_hook(
        lambda mod, a: see("p", a[0])
    ),
    "full_backward": lambda m, x, o, see: m[2].register_full_backward_hook(
        lambda mod, gi, go: [see("gi", gi[0]), see("go", go[0])].clear()
    ),
    "full_backward_pre": lambda m, x, o, see: m[2].register_full_backward_pre_hook(
        lambda mod, go: see("go", go[0])
    ),
    "tensor": lambda m, x, o, see: x.register_hook(lambda g: see("x", g)),
    "post_accumulate": lambda m, x, o, see: [
        p.register_post_accumulate_grad_hook(lambda q: see("p", q.grad)) for p in m.parameters()
    ],
    "multi_grad": lambda m, x, o, see: torch.autograd.graph.register_multi_grad_hook(
        list(m.parameters()), lambda grads: [see("g", g) for g in grads].clear()
    ),
    "module_all": lambda m, x, o, see: nn.modules.module.register_module_forward_hook(
        lambda mod, a, out: see(type(mod).__name__, out)
    ),
    "optimizer_step": lambda m, x, o, see: [
        o.register_step_pre_hook(lambda opt, a, k: see("s", opt.param_groups[0]["params"][0])),
        m[0].register_forward_hook(lambda mod, a, out: None),
    ],
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_see_the_cpus_values_in_its_order(name):
    here, there = hooked(HOOKS[name])
    assert [tag for tag, _ in here] == [tag for tag, _ in there]
    for (_, a), (_, b) in zip(here, there, strict=True):
        torch.testing.assert_close(b, a)


def test_hooks_on_saved_tensors_may_move_them_to_the_host():
    x = torch.linspace(0, 1, 4, device="hpu").requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    z = torch.linspace(0, 1, 4).requires_grad_()
    (z.exp() * z).sum().backward()
    assert x.grad.device.type == "hpu" and torch.equal(x.grad.cpu(), z.grad)


def test_a_hook_may_replace_a_gradient():
    x = torch.ones(2, device="hpu", requires_grad=True)
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    assert x.grad.tolist() == [10, 10]


# ---- serialization ---------------------------------------------------------------------------------------------------


def written(value) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int64", "bool", "uint8", "float8_e4m3fn"]
)
def test_every_dtype_is_saved_and_loaded(dtype):
    x = torch.tensor([0, 1, 2, 3], device="hpu").to(getattr(torch, dtype))
    for where in (None, "cpu", "hpu"):
        back = torch.load(written(x), map_location=where, weights_only=True)
        assert back.device.type == (where or "hpu") and back.dtype is x.dtype
        assert torch.equal(back.cpu().float(), x.cpu().float())


def test_a_checkpoint_goes_on_where_it_stopped():
    def made():
        torch.manual_seed(2)
        model = nn.Linear(3, 1).to("hpu")
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def steps(model, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.ones(2, 3, device="hpu")).square().sum().backward()
            optimizer.step()

    whole, halves = made(), made()
    steps(*whole, 6)
    steps(*halves, 3)
    file = written({"model": halves[0].state_dict(), "optimizer": halves[1].state_dict()})
    model, optimizer = made()
    found = torch.load(file, map_location="cpu", weights_only=True)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert {v.device.type for v in optimizer.state[model.weight].values() if v.dim()} == {"hpu"}
    steps(model, optimizer, 3)
    assert torch.equal(model.weight, whole[0].weight)


def test_a_file_of_the_cpu_loads_into_a_model_on_hpu_and_back():
    model = nn.Linear(2, 2)
    twin = nn.Linear(2, 2).to("hpu")
    twin.load_state_dict(torch.load(written(model.state_dict()), map_location="hpu"))
    assert torch.equal(twin.weight.cpu(), model.weight)
    model.load_state_dict(torch.load(written(twin.state_dict()), map_location="cpu"))
    with torch.device("hpu"):
        third = nn.Linear(2, 2)
    third.load_state_dict(model.state_dict(), assign=True)
    assert third.weight.device.type == "cpu", "assign takes the tensors as they are"


def test_files_may_be_mapped():
    path_like = written(torch.arange(4.0, device="hpu"))
    assert torch.load(path_like, map_location="hpu").sum().item() == 6


# ---- dynamic shapes --------------------------------------------------------------------------------------------------


def graphs_of(function, inputs, **options) -> int:
    """How many graphs torch.compile made for these inputs; the results equal those of the plain function."""
    made = []

    def backend(graph, _):
        made.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, **options)
    for x in inputs:
        torch.testing.assert_close(compiled(x), function(x))
    return len(made)


def batches(sizes):
    return [torch.arange(float(n * 2), device="hpu").view(n, 2) for n in sizes]


def test_static_shapes_compile_for_each_size():
    assert graphs_of(lambda x: (x * 2).sum(0), batches([3, 3, 4, 5, 4]), dynamic=False) == 3


def test_shapes_become_dynamic_at_the_second_size():
    assert graphs_of(lambda x: (x * 2).sum(0), batches([3, 3, 4, 5, 6])) == 2


def test_dynamic_from_the_start_is_one_graph():
    assert graphs_of(lambda x: (x * 2).sum(0), batches([3, 4, 5]), dynamic=True) == 1


def test_sizes_marked_dynamic_are_one_graph():
    inputs = batches([3, 4, 5])
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 0)
    assert graphs_of(lambda x: x.cumsum(0), inputs) == 1


def test_results_whose_shape_hangs_on_the_data():
    x = torch.tensor([0.0, 2.0, 0.0, 3.0], device="hpu")
    assert x[x > 0].tolist() == [2, 3] and x.nonzero().shape == (2, 1)
    assert torch.masked_select(x, x == 0).shape == (2,)


@pytest.mark.parametrize("sizes,count", [((4, 4, 4), 1), ((4, 7, 4, 5), 3), ((1, 2, 3), 3)])
def test_lazy_mode_compiles_a_graph_for_each_shape(run, sizes, count):
    code = f"""
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch, habana_frameworks.torch.core as htcore
    from hpushim.emulator import ledger
    w = torch.ones(2, 2, device="hpu")
    htcore.mark_step()
    ledger.reset()
    for n in {sizes}:
        (torch.ones(n, 2).to("hpu") @ w).relu_()
        htcore.mark_step()
    found = ledger.snapshot()
    print(found["graphs"], found["mark_steps"])
    """
    out = run(code, PT_HPU_LAZY_MODE="1").stdout.split()
    assert out == [str(count), str(len(sizes))]


# ---- torch.accelerator -----------------------------------------------------------------------------------------------


def test_accelerator_memory_statistics():
    if not hasattr(torch.accelerator, "memory_allocated"):
        pytest.skip(f"torch {torch.__version__} has no torch.accelerator.memory_allocated")
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    x = torch.empty(1000, device="hpu")
    assert torch.accelerator.memory_allocated() - before == 4000
    del x
    assert torch.accelerator.memory_allocated() == before
    assert torch.accelerator.max_memory_allocated() - before == 4000
    assert torch.accelerator.memory_reserved() >= before
    torch.accelerator.empty_cache()
    assert "allocated_bytes.all.current" in torch.accelerator.memory_stats()


def test_setting_another_device_keeps_the_one():
    # Gaudi's guard looks at no index when one is set, and refuses all but 0 where devices are exchanged.
    torch.accelerator.set_device_index(3)
    assert torch.accelerator.current_device_index() == 0
    assert torch.ones(1, device=torch.accelerator.current_accelerator()).device.index == 0
    with pytest.raises(RuntimeError, match="device index 3"), torch.accelerator.device_index(3):
        pass


def test_accelerator_device_and_streams():
    assert torch.accelerator.device_count() == 1
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize("hpu")
    stream = torch.Stream("hpu")
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    try:
        assert torch.accelerator.current_stream() == stream
        assert torch.hpu.current_stream().stream_id == stream.stream_id
    finally:
        torch.accelerator.set_stream(before)


# ---- environment flags -----------------------------------------------------------------------------------------------

# As a child of an emulating process starts: by the environment alone.
SHOW = """
import os
from hpushim.emulator import enabling, device, profiles
enabling.enable(os.environ.get("HPUSHIM_GAUDI") or "gaudi2", device.device_count())
import torch, habana_frameworks.torch as ht
"""
FLAGS = {
    "PT_HPU_LAZY_MODE=1": ("print(torch.hpu.is_lazy_mode)", "True"),
    "PT_HPU_LAZY_MODE=0": (
        "import habana_frameworks.torch.utils.internal as i; print(i.is_lazy())",
        "False",
    ),
    "HPUSHIM_GAUDI=gaudi3": ("print(torch.hpu.get_device_name())", "GAUDI3"),
    "HPUSHIM_GAUDI=gaudi1": ("print(torch.hpu.get_device_name())", "GAUDI"),
    "PT_HPU_POOL_MEM_ACQUIRE_PERC=50": (
        "print(torch.hpu.mem_get_info()[1] == 102106132480 // 2)",
        "True",
    ),
    "HPUSHIM_DEVICES=4": ("print(device.device_count())", "4"),
    "HPUSHIM_EMULATED_RANDOM=cpu": (
        "torch.manual_seed(1); a = torch.rand(1, device='hpu').cpu(); b = torch.rand(1);"
        "torch.manual_seed(1); print(torch.equal(torch.cat([a, b]), torch.cat([torch.rand(1), torch.rand(1)])))",
        "True",
    ),
    "HPUSHIM_POLICY=faithful": (
        "print(torch.tensor([1 / 3], dtype=torch.float64).to('hpu').item() == 1 / 3)",
        "False",
    ),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_environment_flags(run, flag):
    code, expected = FLAGS[flag]
    name, value = flag.split("=")
    assert run(SHOW + code, **{name: value}).stdout.split()[-1] == expected


@pytest.mark.parametrize(
    "flag",
    [
        "HPUSHIM_GAUDI=gaudi9",
        "HPUSHIM_POLICY=mild",
        "HPUSHIM_STACK=0.1",
        "HPUSHIM_DEVICES=none",
        "HPUSHIM_EMULATED_RANDOM=dice",
        "PT_HPU_POOL_MEM_ACQUIRE_PERC=400",
    ],
)
def test_a_flag_that_makes_no_sense_is_one_clear_line(run, flag):
    name, value = flag.split("=")
    code = SHOW + "profiles.current()\n"
    result = run(code, check=False, **{name: value})
    last = result.stderr.strip().splitlines()[-1]
    assert (
        result.returncode != 0 and "EmulatorError" in last and value in last and "expected" in last
    )
