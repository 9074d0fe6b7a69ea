"""HPU graphs and step marks, which exist in lazy mode only: run by test_api_lazy.py in a process of that mode."""

from __future__ import annotations

import copy
import importlib
import warnings

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(5)


def _graphs():
    return importlib.import_module("habana_frameworks.torch.hpu.graphs")


def _classifier():
    return torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    ).to("hpu")


def test_lazy_mode():
    internal = importlib.import_module("habana_frameworks.torch.utils.internal")
    assert internal.is_lazy()
    assert torch.hpu.is_lazy_mode


def test_replay_reads_new_inputs_and_fills_the_same_outputs(hpu):
    x, w = torch.randn(4, 8, device="hpu"), torch.randn(8, 8, device="hpu")
    total = torch.zeros(4, 8, device="hpu")
    seen = []
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        assert hpu.is_current_stream_capturing()
        y = (x @ w).relu()
        view = y.view(-1)[::2]
        total.add_(y)
        seen.append(1)
    assert not hpu.is_current_stream_capturing()
    first = y.clone()
    new = torch.randn(4, 8, device="hpu")
    x.copy_(new)
    graph.replay()
    expected = (new @ w).relu()
    assert torch.equal(y, expected)
    assert torch.equal(view, expected.view(-1)[::2])
    torch.testing.assert_close(total, first + expected)
    assert seen == [1], "Python runs once, at the capture"


def test_replay_without_a_capture_is_an_error(hpu):
    with pytest.raises(RuntimeError, match="capture before replay"):
        hpu.HPUGraph().replay()


def test_reading_a_value_in_a_capture_warns(hpu):
    x = torch.ones(3, device="hpu")
    with pytest.warns(UserWarning, match="keeps the captured one"), hpu.graph(hpu.HPUGraph()):
        x.sum().item()


def test_new_random_numbers_at_each_replay(hpu):
    x = torch.ones(64, device="hpu")
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        y = torch.nn.functional.dropout(x, 0.5)
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y)


def test_training_step_in_one_graph(hpu):
    """Forward, backward and the optimizer's step captured together, as with CUDA graphs."""
    model = torch.nn.Linear(8, 2).to("hpu")
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.SGD(plain.parameters(), lr=0.1)
    x, target = torch.randn(4, 8, device="hpu"), torch.randn(4, 2, device="hpu")

    def step(model, optimizer, x, target):
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss

    step(model, optimizer, x, target)
    step(plain, other, x, target)
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        loss = step(model, optimizer, x, target)
    step(plain, other, x.clone(), target)
    for _ in range(3):
        new = torch.randn(4, 8, device="hpu")
        x.copy_(new)
        graph.replay()
        expected = step(plain, other, new, target)
        torch.testing.assert_close(loss, expected)
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_wrapped_module_gives_the_plain_results(hpu, context):
    model = _classifier().eval()
    plain = copy.deepcopy(model)
    graphed = hpu.wrap_in_hpu_graph(model)
    assert graphed is model
    with context():
        for rows in (4, 4, 5, 4, 5):
            x = torch.randn(rows, 8, device="hpu")
            expected = plain(x)
            torch.testing.assert_close(graphed(x), expected)
    assert len(model.forward.cache) == 2
    model.clear_cache()
    assert not model.forward.cache


def test_wrapped_module_stops_at_max_graphs(hpu):
    model = hpu.wrap_in_hpu_graph(_classifier().eval(), max_graphs=1)
    with torch.no_grad():
        for rows in (4, 5, 6):
            assert model(torch.randn(rows, 8, device="hpu")).shape[0] == rows
    assert len(model.forward.cache) == 1


def test_wrapped_function_takes_keywords_and_bypass(hpu):
    calls = []

    def scale(x, *, by):
        calls.append(by)
        return {"y": x * by}

    graphed = hpu.wrap_in_hpu_graph_func(scale)
    for _ in range(3):
        x = torch.randn(3, device="hpu")
        expected = x * 2
        assert torch.equal(graphed(x, by=2)["y"], expected)
    assert calls == [2]
    graphed(torch.ones(3, device="hpu"), by=2, bypass_hpu_graphs=True)
    assert calls == [2, 2]
    assert torch.equal(graphed(x, by=3)["y"], x * 3), "another plain value needs its own graph"


@pytest.mark.parametrize(
    "settings", [{}, {"use_lfu": True}, {"inplace": False}, {"have_grad_accumulation": True}]
)
def test_cached_module_trains_as_the_plain_one(hpu, settings):
    model = _classifier()
    plain = copy.deepcopy(model)
    cached = hpu.ModuleCacher(max_graphs=2)(model=model, **settings)
    optimizer = torch.optim.SGD(cached.parameters(), lr=0.1, momentum=0.9)
    other = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for rows in (4, 4, 3, 4, 5, 3):
        x, target = torch.randn(rows, 8, device="hpu"), torch.randn(rows, 2, device="hpu")
        losses = []
        for one, step in ((cached, optimizer), (plain, other)):
            step.zero_grad()
            loss = torch.nn.functional.mse_loss(one(x), target)
            loss.backward()
            step.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for (name, one), two in zip(
        model.state_dict().items(), plain.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, two, msg=lambda text, name=name: f"{name}: {text}")


def test_cacher_refuses_a_distributed_model(hpu):
    class Wrapped(torch.nn.parallel.DistributedDataParallel):
        def __init__(self):
            torch.nn.Module.__init__(self)

        def forward(self, x):
            return x

    with pytest.raises(AssertionError, match="only after wrapping with ModuleCacher"):
        _graphs().GraphModel(Wrapped())


def test_dropout_in_a_cached_module_follows_the_seed(hpu):
    """The capture leaves random state alone, so the same seed gives the same masks with and without graphs."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).to("hpu")
    plain = copy.deepcopy(model)
    cached = hpu.ModuleCacher()(model=model)
    x = torch.randn(4, 8, device="hpu")
    torch.manual_seed(9)
    ours = [cached(x).clone() for _ in range(3)]
    torch.manual_seed(9)
    for one in ours:
        torch.testing.assert_close(one, plain(x))


def test_graphed_callables(hpu):
    first, second = torch.nn.Linear(8, 8).to("hpu"), torch.nn.Linear(8, 2).to("hpu")
    plain = copy.deepcopy((first, second))
    samples = (
        (torch.randn(4, 8, device="hpu"),),
        (torch.randn(4, 8, device="hpu", requires_grad=True),),
    )
    graphed = hpu.make_graphed_callables((first, second), samples, warmups=2)
    for _ in range(3):
        x = torch.randn(4, 8, device="hpu")
        for model in (graphed, plain):
            for part in model:
                part.zero_grad()
            model[1](torch.relu(model[0](x))).square().sum().backward()
        for one, two in zip(graphed, plain, strict=True):
            torch.testing.assert_close(one.weight.grad, two.weight.grad)
            torch.testing.assert_close(one.bias.grad, two.bias.grad)


def test_graphed_callables_refuse_hooks_and_other_values(hpu):
    hooked = torch.nn.Linear(2, 2).to("hpu")
    hooked.register_forward_hook(lambda *_: None)
    x = torch.randn(3, 2, device="hpu")
    with pytest.raises(AssertionError, match="hooks"):
        hpu.make_graphed_callables(hooked, (x,))
    with pytest.raises(AssertionError, match="tuple of tensors"):
        hpu.make_graphed_callables(torch.nn.Linear(2, 2).to("hpu"), (x, 3))


def test_input_hash_and_copy():
    graphs = _graphs()
    x, y = torch.zeros(2, 3, device="hpu"), torch.ones(2, 3, device="hpu")
    assert graphs.input_hash([x, {"a": 1}]) == graphs.input_hash([y, {"a": 1}])
    assert graphs.input_hash([x, {"a": 1}]) != graphs.input_hash([x, {"a": 2}])
    assert graphs.input_hash(x) != graphs.input_hash(x.t())
    with torch.autocast("hpu", torch.bfloat16):
        inside = graphs.input_hash(x)
    assert inside != graphs.input_hash(x)
    graphs.copy_to({"a": [x]}, {"a": [y]})
    assert torch.equal(x, y)
    with pytest.raises(AssertionError, match="keys differ"):
        graphs.copy_to({"a": x}, {"b": x})


def test_packer_keeps_structure():
    tree = {"a": (torch.ones(1), [torch.zeros(2), "text"]), "b": None}
    packer = _graphs().TensorPacker()
    tensors, structure = packer.pack(tree)
    assert [t.shape[0] for t in tensors] == [1, 2]
    again = packer.unpack(tensors, structure)
    assert again["a"][0] is tensors[0]
    assert again["a"][1] == [tensors[1], "text"]


def test_mark_step_runs_closures_and_is_counted():
    core = importlib.import_module("habana_frameworks.torch.core")
    from hpushim.emulator import ledger

    ran = []
    before = ledger.snapshot()["mark_steps"]
    core.add_step_closure(ran.append, (3,))
    assert ran == []
    core.mark_step()
    core.mark_step(sync=True)
    assert ran == [3]
    assert ledger.snapshot()["mark_steps"] == before + 2


#: Marks of one step with one group of parameters; the group of momentum updates marks before and behind.
OPTIMIZERS = {
    "FusedAdagrad": 2, "FusedAdamW": 2, "FusedLamb": 2, "FusedResourceApplyMomentum": 2, "FusedSGD": 2, "MarkstepAdam": 1, "MarkstepAdamW": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers_mark_each_step(name):
    from hpushim.emulator import ledger

    package = "habana_frameworks.torch.hpex.optimizers"
    module = importlib.import_module(f"{package}.{name}")
    weight = torch.ones(4, device="hpu", requires_grad=True)
    optimizer = getattr(module, name.removeprefix("Markstep"))([weight], lr=0.1)
    for _ in range(2):
        weight.grad = torch.ones_like(weight)
        before = ledger.snapshot()["mark_steps"]
        optimizer.step()
        assert ledger.snapshot()["mark_steps"] - before == OPTIMIZERS[name]


def test_lars_marks_around_its_own_work_in_each_step():
    from hpushim.emulator import ledger

    optimizers = importlib.import_module("habana_frameworks.torch.hpex.optimizers")
    weight = torch.ones(4, device="hpu", requires_grad=True)
    optimizer = optimizers.FusedLars(torch.optim.SGD([weight], lr=0.1), skip_mask=[1])
    weight.grad = torch.ones_like(weight)
    before = ledger.snapshot()["mark_steps"]
    optimizer.step()
    assert ledger.snapshot()["mark_steps"] - before == 2


def test_compile_backend_is_absent():
    model = torch.compile(torch.nn.Linear(2, 2).to("hpu"), backend="hpu_backend")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match="PT_HPU_LAZY_MODE=0"):
            model(torch.ones(1, 2, device="hpu"))


def test_recompilations_reach_the_metric(hpu):
    core = importlib.import_module("habana_frameworks.torch.core")
    weight = torch.randn(3, 3, device="hpu")
    core.mark_step()
    with hpu.metric_localcontext("graph_compilation") as metric:
        for rows in (2, 2, 4, 2, 4):
            torch.randn(rows, 3, device="hpu") @ weight
            core.mark_step()
    assert dict(metric.stats())["TotalNumber"] == 2
