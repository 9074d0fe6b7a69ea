"""What the device refuses or narrows: sparse and quantised tensors, DLPack, sharing, dtypes, under each policy."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from environments import plain_environment

from hpushim.matrix import load

POLICIES = ("observe", "faithful", "strict")


def code(name: str) -> str:
    """The rule of a matrix row."""
    row = load().row(name)
    assert row is not None and row.rule
    return row.rule


SPARSE = {
    "to_sparse": lambda: torch.ones(2, 2, device="hpu").to_sparse(),
    "to_sparse_csr": lambda: torch.ones(2, 2, device="hpu").to_sparse_csr(),
    "coo_to": lambda: torch.eye(2).to_sparse().to("hpu"),
    "csr_to": lambda: torch.eye(2).to_sparse_csr().to("hpu"),
    "coo_factory": lambda: torch.sparse_coo_tensor(
        torch.zeros(1, 1, dtype=torch.long), torch.ones(1), (3,), device="hpu"
    ),
    "csr_factory": lambda: torch.sparse_csr_tensor(
        torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 3), device="hpu"
    ),
    "sparse.mm": lambda: torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2, device="hpu")),
    "zeros": lambda: torch.zeros(2, layout=torch.sparse_coo, device="hpu"),
    "embedding_gradient": lambda: (
        torch.nn.functional.embedding(
            torch.tensor([1], device="hpu"),
            torch.ones(3, 2, device="hpu", requires_grad=True),
            sparse=True,
        )
        .sum()
        .backward()
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_are_refused_with_their_code(name):
    with pytest.raises(NotImplementedError, match="emulated HPU") as raised:
        SPARSE[name]()
    text = str(raised.value)
    assert (
        code("torch.sparse_coo_tensor") in text and "dense" in text and "test_refusals.py" in text
    )


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_cpu_optimizer_may_have_sparse_tensors():
    """What stays on the CPU is none of the device's business."""
    layer = torch.nn.Embedding(4, 2, sparse=True)
    layer(torch.tensor([1])).sum().backward()
    assert layer.weight.grad.is_sparse and torch.ones(2, device="hpu").sum().item() == 2


QUANTISED = {
    "quantize": lambda: torch.quantize_per_tensor(torch.ones(2, device="hpu"), 0.1, 0, torch.qint8),
    "print": lambda: print(
        torch.quantize_per_tensor(torch.ones(2, device="hpu"), 0.1, 0, torch.qint8)
    ),
    "to": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("hpu"),
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_tensors_are_refused_with_their_code(name):
    with pytest.raises(NotImplementedError, match="emulated HPU") as raised:
        QUANTISED[name]()
    assert code("torch.quantize_per_tensor") in str(raised.value)


def test_tensors_of_every_dtype_print(hpu):
    x = torch.arange(3, device="hpu")
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool):
        text = repr(x.to(dtype))
        assert "device='hpu:0'" in text and text.startswith("tensor([")
    assert "device='hpu:0'" in repr(x.to(torch.float8_e5m2))
    assert "requires_grad=True" in repr(torch.ones(1, device="hpu", requires_grad=True))


def test_named_tensors(hpu):
    if not hasattr(torch.Tensor, "refine_names"):
        pytest.skip(f"torch {torch.__version__} has no named tensors")
    try:
        x = torch.ones(2, 3, device="hpu").refine_names("a", "b")
    except RuntimeError as error:
        if "named tensors only support" not in str(error):
            raise
        pytest.skip(f"torch {torch.__version__} itself refuses: {error}")
    assert x.sum("a").names == ("b",) and x.sum("a").device.type == "hpu"


EXPORTS = {
    "to_dlpack": (BufferError, lambda x: [torch.utils.dlpack.to_dlpack(x)]),
    "__dlpack__": (BufferError, lambda x: x.__dlpack__()),
    "__dlpack_device__": (ValueError, lambda x: x.__dlpack_device__()),
    "from_dlpack": (ValueError, lambda x: [torch.from_dlpack(x)]),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_dlpack_is_refused_with_the_way_out(name):
    error, export = EXPORTS[name]
    with pytest.raises(error, match="emulated HPU") as raised:
        export(torch.ones(2, device="hpu"))
    text = str(raised.value)
    assert (
        code("torch.utils.dlpack.to_dlpack") in text
        and "x.cpu()" in text
        and "nothing is known" in text
    )


def test_dlpack_through_the_cpu():
    numpy = pytest.importorskip("numpy")
    there = torch.from_dlpack(numpy.arange(3.0)).to("hpu")
    assert numpy.from_dlpack(there.cpu()).tolist() == [0.0, 1.0, 2.0]
    x = torch.ones(2)
    alias = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    alias.zero_()
    assert x.tolist() == [0, 0], "CPU tensors go as ever"


NARROWING = """
import torch, hpushim.emulator
hpushim.emulator.enable({gaudi!r})
def told(make):
    try: make()
    except Exception as error: return type(error).__name__ + ": " + str(error)
    return "accepted"
third = torch.tensor([1 / 3], dtype=torch.float64)
def double():
    kept = third.to("hpu").cpu()
    assert kept.dtype is torch.float64
    print("float64", torch.equal(kept, third), torch.equal(kept, third.float().double()))
print("double", told(double))
print("complex", told(lambda: torch.zeros(2, dtype=torch.complex64, device="hpu")))
print("complex_to", told(lambda: torch.zeros(2, dtype=torch.complex64).to("hpu")))
print("complex_view", told(lambda: torch.ones(2, device="hpu").view(torch.complex64)))
print("view_as_complex", told(lambda: torch.view_as_complex(torch.ones(2, 2, device="hpu"))))
print("unsigned_view", told(lambda: torch.ones(2, dtype=torch.int16, device="hpu").view(torch.uint16)))
print("sparse", told(lambda: torch.ones(2, 2, device="hpu").to_sparse()))
print("quantised", told(lambda: torch.quantize_per_tensor(torch.ones(2, device="hpu"), 0.1, 0, torch.qint8)))
"""
COMPLEX = ("complex", "complex_to", "complex_view", "view_as_complex")


@pytest.mark.parametrize("gaudi", ["gaudi1", "gaudi2", "gaudi3"])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_on_each_generation(run, policy, gaudi):
    """float64 is narrowed when faithful, complex refused; sparse and quantised tensors are refused in any case."""
    out = run(NARROWING.format(gaudi=gaudi), HPUSHIM_POLICY=policy).stdout
    told = dict(line.split(" ", 1) for line in out.splitlines())
    for name in ("sparse", "quantised"):
        assert told[name].startswith("NotImplementedError") and "emulated HPU" in told[name], told
    if policy == "observe":
        assert told["float64"] == "True False" and told["double"] == "accepted"
        assert {told[name] for name in (*COMPLEX, "unsigned_view")} == {"accepted"}
    else:
        for name in COMPLEX:
            assert "complex64 tensors are refused on " + gaudi in told[name]
        assert "uint16 tensors are refused on " + gaudi in told["unsigned_view"]
    if policy == "faithful":
        assert told["float64"] == "False True" and told["double"] == "accepted"
    if policy == "strict":
        assert "float64 is kept as float32 on " + gaudi in told["double"]


def test_a_strided_nested_tensor_s_operators_are_refused_with_the_code():
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device="hpu")
    with pytest.raises(NotImplementedError, match=r"to_padded_tensor met a nested tensor.*HPU118"):
        nested.to_padded_tensor(0.0)


def test_a_generator_s_offset_is_refused_with_the_code():
    generator = torch.Generator("hpu")
    with pytest.raises(NotImplementedError, match=r"offset.*HPU409.*get_state"):
        generator.set_offset(4)


@pytest.mark.parametrize("made", ["x.repeat(2, 2)", "x.tile((2, 1))", "torch.tile(x, (3,))", "x.repeat(2, 1).repeat(1, 2)"])  # fmt: skip
def test_what_torch_makes_with_unfold_and_gaudi_with_a_kernel_is_not_refused(made: str) -> None:
    """Lazy mode has no ``unfold``, and a kernel for ``repeat``."""
    code = (
        "import habana_frameworks.torch.core, torch\nx = torch.arange(6.0, device='hpu').view(2, 3)\n"
        f"print(({made}).cpu().equal((lambda x: {made})(x.cpu())))\n"
        "try:\n    x.unfold(1, 2, 1)\nexcept NotImplementedError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=plain_environment(HPUSHIM="emulate", HPUSHIM_POLICY="faithful", PT_HPU_LAZY_MODE="1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert first == "True", done.stderr[-2000:]
    assert "aten::unfold does not work" in second


@pytest.mark.parametrize(
    ("policy", "lazy"), [("observe", "1"), ("faithful", "1"), ("observe", "0")]
)
def test_torch_complex_leaves_its_result_on_the_cpu_in_lazy_mode(run, policy, lazy):
    code = """
    import torch, hpushim
    part = torch.ones(2, device="hpu")
    made = 2 * torch.complex(part, part) + 1
    print(made.device, made.tolist(), hpushim.ledger()["device_to_host"])
    """
    done = run(code, HPUSHIM="emulate", HPUSHIM_POLICY=policy, PT_HPU_LAZY_MODE=lazy)
    place, values = done.stdout.split(" ", 1)
    assert place == ("cpu" if lazy == "1" else "hpu:0") and values.startswith("[(3+2j), (3+2j)]")


FUSED = """
import torch, habana_frameworks.torch
from habana_frameworks.torch.hpex import optimizers
weight = torch.nn.Parameter(torch.ones(2, device="hpu"))
{gradient}
try: optimizers.{name}([weight], lr=0.1).step()
except NotImplementedError as error: print(error)
else: print("accepted")
"""


@pytest.mark.parametrize(
    ("name", "gradient", "release", "lazy", "said"),
    [
        ("FusedAdagrad", "weight.grad = torch.ones_like(weight)", "1.19", "0", "FusedAdagrad does not work on gaudi2: Its step raises"),
        ("FusedAdagrad", "weight.grad = torch.ones_like(weight)", "1.19", "1", "accepted"),
        ("FusedAdagrad", "weight.grad = torch.ones_like(weight)", "1.20", "0", "accepted"),
        ("FusedSGD", "", "1.19", "0", "FusedSGD raises on a group that is empty"),
        ("FusedSGD", "", "1.19", "1", "accepted"),
        ("FusedSGD", "weight.grad = torch.ones_like(weight)", "1.19", "0", "accepted"),
    ],
)  # fmt: skip
def test_what_a_fused_optimizer_refuses_outside_lazy_mode(run, name, gradient, release, lazy, said):
    code = FUSED.format(name=name, gradient=gradient)
    settings = {"HPUSHIM_POLICY": "faithful", "HPUSHIM_STACK": release, "PT_HPU_LAZY_MODE": lazy}
    assert said in run(code, HPUSHIM="emulate", **settings).stdout


def test_device_of_a_tensor_elsewhere_raises_where_a_launcher_chose_the_device(monkeypatch):
    from habana_frameworks.torch import hpu

    monkeypatch.delenv("HLS_MODULE_ID", raising=False)
    with hpu.device_of(torch.ones(1)):
        monkeypatch.setenv("HLS_MODULE_ID", "0")
    with pytest.raises(AssertionError, match="names a device"):
        hpu.device_of(torch.ones(1))


SHARDED = """
import torch, habana_frameworks.torch, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
dist.init_process_group("hccl", rank=0, world_size=1, store=dist.HashStore())
model = FullyShardedDataParallel(torch.nn.Linear(2, 2).to("hpu"), device_id=torch.device("hpu"))
try: model(torch.ones(1, 2, device="hpu")).sum().backward()
except NotImplementedError as error: print(error)
else: print("accepted")
"""


@pytest.mark.parametrize(("lazy", "said"), [("1", "HPU309"), ("0", "accepted")])
def test_fsdp_is_refused_in_lazy_mode(start, lazy, said):
    done = start(SHARDED, HPUSHIM="emulate", HPUSHIM_POLICY="faithful", PT_HPU_LAZY_MODE=lazy)
    assert said in done.stdout and ("Not available in lazy mode" in done.stdout) is (lazy == "1")


SPREAD = """
import torch, hpushim.emulator
from hpushim.emulator import ledger
hpushim.emulator.enable()
{before}
net = torch.nn.Linear(2, 2).to("hpu")
model = {made}
model(torch.ones(3, 2, device="hpu")).sum().backward()
print(net.weight.grad is not None, ledger.refusals(), *ledger._objections)
"""
MADE = ["torch.nn.DataParallel(net)", "torch.nn.DataParallel(net, device_ids=[0])", "wrap(net, [0, 1])", "torch.nn.parallel.DataParallel(torch.nn.Sequential(net))"]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("made", MADE)
def test_data_parallel_is_told_and_not_refused(run, policy, made):
    before = "from torch.nn import DataParallel as wrap" if made.startswith("wrap") else ""
    done = run(SPREAD.format(before=before, made=made), HPUSHIM_POLICY=policy)
    assert done.stdout.startswith("True [] ('HPU308'")
    assert "has no effect" in done.stdout
