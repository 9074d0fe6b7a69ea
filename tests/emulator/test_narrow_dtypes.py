"""Narrow floating dtypes: kernels that the CPU lacks and the device has, and the range of eight bits by generation."""

from __future__ import annotations

import pytest
import torch

EIGHT_BITS = [torch.float8_e5m2, torch.float8_e4m3fn]


def values(dtype: torch.dtype, shape: tuple[int, ...] = (3, 4)) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(7)) * 4).to(dtype)


OPERATORS = {
    "add": lambda x: x + x,
    "mul by a number": lambda x: x * 2,
    "max": lambda x: x.max(),
    "max over a dimension": lambda x: x.max(1).values,
    "clamp": lambda x: x.clamp(-1, 2),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
    "sum": lambda x: x.sum(0),
    "pad": lambda x: torch.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "in place": lambda x: x.clone().mul_(2),
    "out": lambda x: torch.mul(x, 2, out=torch.empty_like(x)),
    "a list": lambda x: torch.cat([x, x]) + 1,
    "fill by index": lambda x: x.index_fill(0, torch.tensor([1], device=x.device), 3.0),
    "where": lambda x: torch.where(x.float() > 0, x, x * 2),
}


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_eight_bits_are_computed_in_float32_and_rounded(name: str, dtype: torch.dtype) -> None:
    x = values(dtype)
    expected = OPERATORS[name](x.float()).to(dtype)
    found = OPERATORS[name](x.to("hpu"))
    assert found.device.type == "hpu" and found.dtype == dtype
    assert torch.equal(found.cpu().float(), expected.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_kernels_that_the_cpu_has_in_float32_alone(dtype: torch.dtype) -> None:
    x = values(dtype)
    assert torch.equal(
        torch.cdist(x.to("hpu"), x.to("hpu")).cpu(), torch.cdist(x.float(), x.float()).to(dtype)
    )
    target = torch.tensor([[1, 0, -1, 2]])
    loss = torch.nn.functional.multilabel_margin_loss(x[:1].to("hpu"), target.to("hpu"))
    assert loss.dtype == dtype


def test_results_of_other_dtypes_stay_as_they_are() -> None:
    x = values(torch.float8_e5m2).to("hpu")
    assert x.argmax().dtype == torch.int64
    assert (x == x.clone()).dtype == torch.bool
    assert x.max(1).indices.dtype == torch.int64
    assert torch.sum(x, 0, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    "function", [torch.take, lambda x, i: torch.gather(x, 0, i)], ids=["take", "gather"]
)
def test_positions_may_have_32_bits(function) -> None:
    x, where = torch.randn(6), torch.tensor([4, 0, 2])
    found = function(x.to("hpu"), where.int().to("hpu"))
    assert torch.equal(found.cpu(), function(x, where))


def test_whole_numbers_beside_eight_bits_leave_them_what_they_are() -> None:
    x = values(torch.float8_e5m2).to("hpu")
    assert (x + torch.ones(4, dtype=torch.long, device="hpu")).dtype == torch.float8_e5m2


def test_what_nobody_computes_is_still_an_error() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        torch.softmax(torch.ones(3, dtype=torch.int32, device="hpu"), 0)


def test_a_gradient_through_a_widened_operator() -> None:
    x = values(torch.bfloat16).to("hpu").requires_grad_()
    torch.nn.functional.multilabel_margin_loss(x, x.detach().argsort()).backward()
    assert x.grad.dtype == torch.bfloat16 and x.grad.device.type == "hpu"


def test_a_result_scale_multiplies() -> None:
    a, b = values(torch.float8_e5m2, (16, 16)), values(torch.float8_e5m2, (16, 16))
    one = torch.tensor(1.0, device="hpu")
    scaled = torch._scaled_mm(
        a.to("hpu"), b.t().contiguous().t().to("hpu"), one, one,
        scale_result=one * 0.5, out_dtype=torch.float8_e5m2,
    )  # fmt: skip
    wanted = ((a.float() @ b.float()) * 0.5).to(torch.float8_e5m2)
    assert torch.allclose(scaled.cpu().float(), wanted.float(), rtol=0.26)


RANGE = """
import torch, habana_frameworks.torch
x = torch.tensor([300.0, -500.0, 100.0], device="hpu")
casted, _ = torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, torch.float8_e4m3fn)
print(casted.float().tolist())
print(x.clamp(-448, 448).to(torch.float8_e4m3fn).float().tolist())
"""


@pytest.mark.parametrize(
    ("gaudi", "policy", "cast", "plain"),
    [
        ("gaudi2", "observe", [240.0, -240.0, 96.0], [288.0, -448.0, 96.0]),
        ("gaudi2", "faithful", [240.0, -240.0, 96.0], [240.0, -240.0, 96.0]),
        ("gaudi3", "faithful", [288.0, -448.0, 96.0], [288.0, -448.0, 96.0]),
    ],
)
def test_the_range_of_e4m3_is_that_of_the_generation(run, gaudi, policy, cast, plain) -> None:
    done = run(
        RANGE, HPUSHIM="emulate", HPUSHIM_GAUDI=gaudi, HPUSHIM_POLICY=policy, HPUSHIM_LOG="summary"
    )
    assert done.stdout.splitlines() == [str(cast), str(plain)]
    assert ("HPU213" in done.stderr) is (gaudi == "gaudi2"), done.stderr


def test_strict_refuses_what_does_not_fit(run) -> None:
    done = run(
        "import torch\ntorch.full((1,), 300.0, device='hpu').to(torch.float8_e4m3fn)",
        check=False,
        HPUSHIM="emulate",
        HPUSHIM_POLICY="strict",
    )
    assert "HPU213 float8_e4m3fn holds at most 240" in done.stderr


def test_bytes_of_a_bool_travel_as_they_are() -> None:
    x = torch.randn(8)
    assert torch.equal(x.view(torch.bool).to("hpu").view(torch.float32).cpu(), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("given", ["tensor", "number"])
def test_add_relu_rounds_the_product_before_the_sum(dtype: torch.dtype, given: str) -> None:
    x, alpha = values(dtype, (200,)), torch.tensor(0.723, dtype=dtype).item()
    other = values(dtype, (200,)).flip(0) if given == "tensor" else 4.25
    product = (torch.as_tensor(other, dtype=torch.float32) * alpha).to(dtype)
    there = other.to("hpu") if isinstance(other, torch.Tensor) else other
    found = torch._add_relu(x.to("hpu"), there, alpha=alpha).cpu()
    assert found.dtype == dtype and torch.equal(found, torch.relu(x + product))


WHOLE = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("weight", ["tensor", "number"])
def test_lerp_of_whole_numbers_is_computed_in_float32_and_cut_off(dtype: torch.dtype, weight: str) -> None:  # fmt: skip
    start, end = torch.arange(0, 6).to(dtype), torch.arange(7, 1, -1).to(dtype)
    by = torch.arange(0, 6).to(dtype) if weight == "tensor" else 0.5
    wide = by.float() if isinstance(by, torch.Tensor) else by
    expected = torch.lerp(start.float(), end.float(), wide).to(dtype)
    there = by.to("hpu") if isinstance(by, torch.Tensor) else by
    found = torch.lerp(start.to("hpu"), end.to("hpu"), there)
    assert found.dtype == dtype and torch.equal(found.cpu(), expected)
    assert torch.equal(start.to("hpu").lerp_(end.to("hpu"), there).cpu(), expected)


def test_whole_numbers_of_other_operators_that_take_them() -> None:
    drawn = torch.empty(200, dtype=torch.int32, device="hpu").uniform_(-50, 10).cpu()
    assert drawn.dtype == torch.int32 and -50 <= drawn.min() < drawn.max() <= 10
    truth = torch.tensor([True, False])
    assert torch.equal(truth.to("hpu").trunc().cpu(), truth)


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [*EIGHT_BITS, torch.int8], ids=str)
def test_quantized_decomposed_computes_in_the_input_s_dtype(dtype: torch.dtype, source: torch.dtype) -> None:  # fmt: skip
    import torch.ao.quantization.fx._decomposed  # declares them

    operators = torch.ops.quantized_decomposed
    x = (values(source, (6, 20)) * 20).abs()
    kept = (lambda y: y.round()) if dtype == torch.int8 else (lambda y: y)
    one = operators.quantize_per_tensor(x.to("hpu"), 5.0, 10, 12, 60, dtype)
    assert torch.equal(one.cpu().float(), (kept(x / 5.0) + 10).clamp(12, 60).to(dtype).float())
    scales, zeros = torch.rand(6) + 2, torch.arange(6)
    many = operators.quantize_per_channel(
        x.to("hpu"), scales.to("hpu"), zeros.to("hpu"), 0, 2, 60, dtype
    )
    scaled = x * scales.to(source).reciprocal()[:, None]
    expected = (kept(scaled) + zeros[:, None]).clamp(2, 60).to(dtype)
    assert torch.equal(many.cpu().float(), expected.float())
    back = operators.dequantize_per_channel(
        many, scales.to("hpu"), zeros.to("hpu"), 0, 2, 60, dtype, out_dtype=source
    )
    wide = (expected.float() - zeros[:, None]) * scales[:, None]
    assert back.dtype == source and torch.equal(back.cpu(), wide.to(source))
