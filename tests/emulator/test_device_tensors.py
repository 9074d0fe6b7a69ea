"""Tensors of the emulated device: what torch does with them, against the same on the CPU."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch


def both(make):
    """The result of ``make(device)`` on the CPU and, brought back, on hpu."""
    on_hpu = make("hpu")
    assert on_hpu.device == torch.device("hpu", 0)
    return make("cpu"), on_hpu.cpu()


OPERATORS = {
    "arithmetic": lambda d: torch.arange(12.0, device=d).view(3, 4).t() + 1,
    "reduction": lambda d: torch.full((2, 3), 1.5, device=d).cumsum(1),
    "matmul": lambda d: torch.eye(3, device=d) @ torch.linspace(0, 1, 3, device=d),
    "flip": lambda d: torch.tensor([[1, 2], [3, 4]], device=d).flip(0),
    "sort": lambda d: torch.tensor([3.0, 1.0, 2.0], device=d).sort().indices,
    "mask": lambda d: torch.arange(10, device=d)[torch.arange(10, device=d) % 3 == 0],
    "index": lambda d: torch.arange(10, device=d)[torch.tensor([1, 5])],
    "nonzero": lambda d: torch.tensor([0, 2, 0, 5], device=d).nonzero(),
    "unique": lambda d: torch.tensor([3, 1, 3], device=d).unique(),
    "topk": lambda d: (
        torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).to(d).topk(2).values
    ),
    "einsum": lambda d: torch.einsum(
        "ij,kj->ik", torch.ones(2, 3, device=d), torch.ones(4, 3, device=d)
    ),
    "fft": lambda d: torch.fft.rfft(torch.arange(8.0, device=d)).abs(),
    "inverse": lambda d: torch.linalg.inv(torch.tensor([[2.0, 1.0], [0.0, 4.0]], device=d)),
    "one_hot": lambda d: torch.nn.functional.one_hot(torch.tensor([1, 0, 2], device=d)),
    "fp8": lambda d: torch.linspace(-3, 3, 9, device=d).to(torch.float8_e4m3fn).to(torch.float32),
    "complex": lambda d: (
        torch.complex(torch.ones(2, device=d), torch.ones(2, device=d)).conj().imag
    ),
    "cat": lambda d: torch.cat([torch.zeros(1, 2, device=d), torch.ones(2, 2, device=d)]),
    "index_add": lambda d: torch.zeros(5, device=d).index_add_(
        0, torch.tensor([1, 1], device=d), torch.ones(2, device=d)
    ),
    "unfold": lambda d: torch.arange(6.0, device=d).unfold(0, 3, 1).sum(-1),
    "where": lambda d: torch.where(
        torch.tensor([True, False], device=d), 1.0, torch.zeros(2, device=d)
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_equal_the_cpu(name):
    expected, got = both(OPERATORS[name])
    assert torch.equal(expected, got)


def under_default_device(where):
    with torch.device(where):
        return torch.ones(3)


FACTORIES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "ones": lambda d: torch.ones(2, dtype=torch.bfloat16, device=d),
    "full": lambda d: torch.full((2, 2), 7, device=d),
    "arange": lambda d: torch.arange(1, 9, 3, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "tensor": lambda d: torch.tensor([[1.5, 2.0], [3.0, 4.0]], device=d),
    "like": lambda d: torch.zeros_like(torch.ones(3, dtype=torch.int32, device=d)),
    "new": lambda d: torch.ones(1, device=d).new_full((2,), 3),
    "default_device": under_default_device,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_equal_the_cpu(name):
    expected, got = both(FACTORIES[name])
    assert torch.equal(expected, got) and expected.dtype is got.dtype


def test_arrays_come_in_through_the_cpu():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(4, dtype=numpy.int16)
    there = torch.from_numpy(array).to("hpu")
    array[0] = 9
    assert there.tolist() == [0, 1, 2, 3] and there.dtype is torch.int16
    assert torch.as_tensor(array, device="hpu").tolist() == [9, 1, 2, 3]


def test_a_tensor_there_is_a_plain_tensor():
    x = torch.ones(2, device="hpu")
    assert type(x) is torch.Tensor and type(x + 1) is torch.Tensor
    assert not x.is_cpu and x.device == torch.device("hpu:0")


def test_gradients_accumulate_and_can_be_dropped():
    def grads(where):
        w = torch.linspace(-1, 1, 6, device=where).requires_grad_()
        (w.sin() * 3).sum().backward()
        first = w.grad.clone()
        (w**2).sum().backward()
        both_steps = w.grad.clone()
        w.grad = None
        return torch.stack([first, both_steps])

    expected, got = both(grads)
    assert torch.equal(expected, got)


def test_views_share_memory_and_writes_show():
    x = torch.zeros(4, 4, device="hpu")
    x[1].add_(1)
    x.t()[0, 2] = 5
    view = x.as_strided((2,), (5,))
    view.fill_(7)
    assert x.tolist() == [[7, 0, 0, 0], [1, 7, 1, 1], [5, 0, 0, 0], [0, 0, 0, 0]]
    assert view._base is x and x.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()


def test_outputs_that_are_inputs_come_back_as_themselves():
    x = torch.ones(3, device="hpu")
    out = torch.empty(3, device="hpu")
    assert torch.add(x, 1, out=out) is out
    assert x.mul_(2) is x
    assert out.tolist() == [2, 2, 2] and x.tolist() == [2, 2, 2]


def test_out_is_resized_like_on_the_cpu():
    out = torch.empty(0, device="hpu")
    torch.cat([torch.ones(2, device="hpu"), torch.zeros(1, device="hpu")], out=out)
    assert out.tolist() == [1, 1, 0]
    assert out.untyped_storage().device.type == "hpu"


def test_version_counter_catches_a_write_between_forward_and_backward():
    x = torch.ones(3, device="hpu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_pointwise_results_are_contiguous_as_torch_assumes_of_hpu():
    x = torch.arange(6.0, device="hpu").view(2, 3).t()
    assert not x.is_contiguous()
    y = x * 2
    assert y.is_contiguous() and torch.equal(y.cpu(), x.cpu() * 2)


def test_data_assignment_and_set_move_a_tensor_to_other_memory():
    x = torch.zeros(2, device="hpu")
    y = torch.ones(3, device="hpu")
    x.data = y
    y.fill_(4)
    assert x.tolist() == [4, 4, 4]
    z = torch.empty(0, device="hpu").set_(y)
    assert z.data_ptr() == y.data_ptr()
    z.resize_(5)
    assert z.shape == (5,) and z.untyped_storage().nbytes() == 20


def test_storage_can_be_emptied_and_given_back():
    x = torch.ones(4, device="hpu")
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(16)
    x.fill_(3)
    assert x.sum().item() == 12


def test_copies_cross_the_boundary_by_value():
    host = torch.arange(3.0)
    there = host.to("hpu")
    host.add_(10)
    assert there.tolist() == [0, 1, 2]
    back = there.cpu()
    there.zero_()
    assert back.tolist() == [0, 1, 2]
    assert there.to("hpu") is there
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        there.numpy()


def test_tensors_of_two_devices_do_not_mix_but_a_cpu_scalar_may():
    x = torch.ones(2, device="hpu")
    assert (x + torch.tensor(2.0)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"same device.*hpu:0 and cpu"):
        x + torch.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2)[torch.tensor([0], device="hpu")]


def test_one_device_index():
    # the bridge warns, and takes its one card
    for made in (torch.ones(1, device="hpu:1"), torch.ones(1).to("hpu:3")):
        assert made.device == torch.device("hpu:0")
    assert torch.ones(1, device="hpu:0").device.index == 0


def test_save_and_load_keep_or_move_the_device():
    shared = torch.arange(4.0, device="hpu")
    buffer = io.BytesIO()
    torch.save({"a": shared, "b": shared[1:]}, buffer)
    loaded = torch.load(io.BytesIO(buffer.getvalue()))
    assert loaded["a"].device.type == "hpu"
    loaded["a"].zero_()
    assert loaded["b"].sum().item() == 0, "tensors that share memory share it after loading too"
    on_cpu = torch.load(io.BytesIO(buffer.getvalue()), map_location="cpu")
    assert on_cpu["b"].tolist() == [1, 2, 3]
    torch.save({"a": torch.ones(2)}, buffer := io.BytesIO())
    for where in ("hpu", "hpu:0", torch.device("hpu"), {"cpu": "hpu:0"}):
        got = torch.load(io.BytesIO(buffer.getvalue()), map_location=where)["a"]
        assert got.device == torch.device("hpu", 0) and got.tolist() == [1, 1]


def test_pickle_and_deepcopy():
    x = torch.arange(3.0, device="hpu").requires_grad_()
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert twin.device.type == "hpu" and twin.requires_grad and twin.tolist() == [0, 1, 2]
        assert twin.data_ptr() != x.data_ptr()


def test_modules_and_optimizer_states_are_copied_and_pickled():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("hpu")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(12.0, device="hpu").view(4, 3)).square().sum().backward()
    optimizer.step()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for name, value in model.state_dict().items():
            other = twin.state_dict()[name]
            assert other.device.type == "hpu" and torch.equal(other, value)
            assert other.data_ptr() != value.data_ptr()
    state = optimizer.state_dict()
    kept = copy.deepcopy(state)
    model.zero_grad()
    model(torch.ones(4, 3, device="hpu")).sum().backward()
    optimizer.step()
    for key, values in kept["state"].items():
        assert values["exp_avg"].device.type == "hpu"
        assert not torch.equal(values["exp_avg"], state["state"][key]["exp_avg"]), (
            "a copy, not a view"
        )


def test_conj_and_neg_bits_survive_the_kernels():
    z = torch.tensor([1 + 2j, 3 - 1j], device="hpu")
    assert z.conj().is_conj()
    assert torch.equal((z.conj() * 2).cpu(), z.cpu().conj() * 2)
    assert torch.equal(z.conj().imag.cpu(), -z.cpu().imag)


def test_threads_draw_and_compute():
    import threading

    found = []

    def work():
        x = torch.ones(4, device="hpu", requires_grad=True)
        (x * 3).sum().backward()
        found.append(x.grad.sum().item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [12.0] * 4
