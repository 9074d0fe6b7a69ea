"""The vendor's own operators: their results, their place on the device, and their use in compiled code."""

from __future__ import annotations

import importlib

import pytest
import torch

E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn


def ops():
    return torch.ops.hpu


def randn(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [E5M2, E4M3], ids=str)
@pytest.mark.parametrize("scale", [None, 1.3, [0.5, 2.0, 1.5], "tensor"], ids=str)
def test_there_and_back_in_eight_bits(dtype, scale):
    x = randn(4, 3)
    factor = (
        torch.tensor(2.0) if scale == "tensor" else torch.tensor(1.0 if scale is None else scale)
    )
    there = factor.to("hpu") if scale == "tensor" else scale
    back = (1 / factor).tolist() if isinstance(scale, list) else 1 / float(factor)
    casted, amax = ops().cast_to_fp8_v2(x.to("hpu"), there, False, True, dtype)
    assert casted.dtype == dtype and casted.device.type == "hpu"
    assert torch.equal(casted.cpu().float(), (x * factor).to(dtype).float())
    assert amax.shape == () and amax.item() == x.abs().max().item()
    again = ops().cast_from_fp8(casted, back, torch.float32)
    assert torch.allclose(again.cpu(), x, rtol=0.2, atol=1e-2)


def test_eight_bits_saturate_and_name_their_refusals():
    x = torch.tensor([1e6, -1e6, 1.0], device="hpu")
    assert ops().cast_to_fp8_v2(x)[0].float().tolist() == [57344.0, -57344.0, 1.0]
    assert ops().cast_to_fp8_v2(x)[1].numel() == 0
    eight = x.clamp(-1, 1).to(E5M2)
    with pytest.raises(RuntimeError, match="no amax for float8"):
        ops().cast_to_fp8_v2(eight, None, False, True, E5M2)
    with pytest.raises(RuntimeError, match="Float8_e5m2 and Float8_e4m3fn"):
        ops().cast_to_fp8_v2(eight, None, False, False, E4M3)


def test_rounding_at_random_is_right_on_average_and_follows_the_devices_seed():
    x = torch.full((20000,), 1.1, device="hpu")
    torch.hpu.manual_seed(5)
    first = ops().cast_to_fp8_v2(x, None, True, False, E5M2)[0].float()
    assert sorted(first.unique().tolist()) == [1.0, 1.25]
    assert abs(first.mean().item() - 1.1) < 0.01
    torch.hpu.manual_seed(5)
    assert torch.equal(first, ops().cast_to_fp8_v2(x, None, True, False, E5M2)[0].float())
    cpu = torch.get_rng_state()
    ops().cast_to_fp8_v2(x, None, True, False, E5M2)
    assert torch.equal(cpu, torch.get_rng_state())


def test_matrix_products_of_eight_bits():
    a, b = randn(6, 4), randn(6, 5, seed=4)
    a8, b8 = a.to(E4M3), b.to(E4M3)
    wide = a8.float().t() @ b8.float()
    bias = randn(4, 5, seed=5)
    out = ops().fp8_gemm_v2(
        a8.to("hpu"), True, b8.to("hpu"), False, bias.to("hpu"), torch.float32, 2.0, 0.5, bias.to("hpu"), True
    )  # fmt: skip
    assert torch.allclose(out.cpu(), wide + 2 * bias, atol=1e-5)
    channel = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    out = ops().fp8_gemm_v2(
        a8.to("hpu"), True, b8.to("hpu"), False, None, torch.bfloat16, None, channel.to("hpu")
    )
    assert out.dtype == torch.bfloat16
    assert torch.allclose(out.cpu().float(), wide * channel, rtol=1e-2, atol=1e-2)
    into = torch.zeros(4, 5, device="hpu")
    ops().fp8_gemm(
        a8.to("hpu"), True, b8.to("hpu"), False, into, torch.float32, None, None, None, False, into
    )
    assert torch.allclose(into.cpu(), wide, atol=1e-5)


def test_convolution_softmax_and_sum_of_eight_bits():
    x, weight = randn(2, 3, 8, 8).to(E5M2), randn(4, 3, 3, 3, seed=4).to(E5M2)
    wanted = torch.nn.functional.conv2d(x.float(), weight.float()) * 6 + 1
    bias = torch.ones(4, device="hpu")
    out = ops().conv2d_fp8(
        x.to("hpu"), weight.to("hpu"), bias, [1, 1], [0, 0], [1, 1], 1, torch.float32, 2.0, 3.0
    )
    assert torch.allclose(out.cpu(), wanted, atol=1e-4)
    scores = randn(2, 4, 6)
    soft = ops().softmax_fp8(scores.to("hpu"), -1, 0.5, 2.0)
    assert soft.dtype == E4M3
    assert torch.allclose(
        soft.cpu().float(), torch.softmax(scores * 0.5, -1) * 2, rtol=0.13, atol=1e-2
    )
    total = ops().sum_fp8(x.to("hpu"), [0, 1], False, torch.float32)
    assert torch.equal(total.cpu(), x.float().sum((0, 1)))


def test_softmax_with_masks():
    scores, mask = randn(2, 3, 4), (randn(2, 3, 4, seed=4) > 0).float()
    out = ops().scaled_masked_softmax(scores.to("hpu"), mask.to("hpu"), 0.2)
    assert torch.allclose(out.cpu(), torch.softmax(scores * 0.2 + mask, -1))
    square = randn(2, 4, 4)
    hidden = square.masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    out, reciprocal, largest = ops().scaled_triangular_softmax_retain(square.to("hpu"), 1.5)
    assert torch.allclose(out.cpu(), torch.softmax(hidden * 1.5, -1))
    again = ops().scaled_triangular_softmax(square.to("hpu"), 1.5, reciprocal, largest)
    assert torch.equal(again, out)
    bounds = torch.tensor([1, 3])
    out = ops().scaled_masked_triangular_softmax(
        square.to("hpu"), bounds.to("hpu"), 1.0, 2, True, 0
    )
    assert out[:, 0].eq(0).all().item() and out[:, 3, 1:3].sum(-1).allclose(
        torch.ones(2, device="hpu")
    )


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("permuted", [True, False])
def test_mixture_of_experts(fused, permuted):
    tokens, hidden, inner, experts = 5, 4, 6, 3
    x = randn(tokens, hidden)
    w1, w2, w3 = (
        [randn(*shape, seed=10 * k + e) for e in range(experts)]
        for k, shape in enumerate([(hidden, inner), (hidden, inner), (inner, hidden)])
    )
    weights, table = torch.topk(randn(tokens, experts, seed=9), 2)
    wanted = torch.zeros_like(x)
    for token in range(tokens):
        for share, e in zip(weights[token], table[token].tolist(), strict=True):
            gate = torch.nn.functional.silu(x[token] @ w1[e]) * (x[token] @ w2[e])
            wanted[token] += share * (gate @ w3[e])

    def there(matrices):
        return [(m.t().contiguous() if permuted else m).to("hpu") for m in matrices]

    lists = (
        (there([torch.cat([a, b], 1) for a, b in zip(w1, w2, strict=True)]), there(w3))
        if fused
        else (there(w1), there(w2), there(w3))
    )
    common = (permuted, "silu", 0, experts - 1)
    out = ops().mixture_of_experts(x.to("hpu"), table.to("hpu"), weights.to("hpu"), *lists, *common)
    assert torch.allclose(out.cpu(), wanted, atol=1e-4)


def test_reordering_and_indexing():
    cache = torch.arange(2 * 4 * 6 * 2.0).reshape(2, 4, 6, 2)
    start, end, beams = (
        torch.tensor([1, 0]),
        torch.tensor([3, 2]),
        torch.tensor([[3, 2, 1, 0], [0, 0, 1, 1]]),
    )
    packed = (beams * torch.tensor([64, 16, 4, 1])).sum(-1).to(torch.uint8)
    wanted = cache.clone()
    for b in range(2):
        wanted[b, :, start[b] : end[b]] = cache[b, beams[b], start[b] : end[b]]
    arguments = (start.to("hpu"), end.to("hpu"), packed.to("hpu"))
    device = cache.to("hpu")
    assert torch.equal(ops().kv_reorder(device, *arguments).cpu(), wanted)
    assert torch.equal(device.cpu(), cache)
    ops().kv_reorder_(device, *arguments)
    assert torch.equal(device.cpu(), wanted)
    rows = torch.arange(8.0).reshape(8, 1).to("hpu")
    ops().in_place_interleave_(rows)
    assert rows.flatten().tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    x = randn(4, 5, 6).to("hpu")
    i, j = torch.tensor([0, 3], device="hpu"), torch.tensor([2, 1], device="hpu")
    assert torch.equal(ops().plain_index(x, [i, j]), x[i, j])


def test_the_steps_of_lamb_are_those_of_the_optimizer():
    grads, weights = [randn(3, 2)], [randn(3, 2, seed=4)]
    clip = ops().optimizer_lamb_fused_norm([g.to("hpu") for g in grads], 0.5)
    assert clip.shape == (1,) and torch.allclose(clip.cpu(), grads[0].norm().reshape(1) / 0.5)
    device = [w.to("hpu") for w in weights]
    average, square = ([torch.zeros(3, 2, device="hpu")] for _ in range(2))
    own, adam = ([torch.zeros(1, device="hpu")] for _ in range(2))
    step = [torch.zeros(3, 2, device="hpu")]
    one = torch.tensor(1.0, device="hpu")
    ops().optimizer_lamb_phase1(
        [g.to("hpu") for g in grads], device, average, square, own, adam, step, one, 1, 0.9, 0.99, 1e-6, one * 0.1, one * 0.01, 0.0
    )  # fmt: skip
    assert torch.allclose(step[0].cpu(), grads[0].sign(), atol=1e-3)
    assert torch.allclose(own[0].cpu(), weights[0].norm().reshape(1))
    ops().optimizer_lamb_phase2(device, adam, own, step, one * -0.1, 0.0, True)
    ratio = weights[0].norm() / step[0].cpu().norm()
    assert torch.allclose(device[0].cpu(), weights[0] - 0.1 * ratio * step[0].cpu(), atol=1e-5)


def test_jagged_data():
    kernels = importlib.import_module("habana_frameworks.torch.hpex.kernels.fbgemm")
    lengths, values = torch.tensor([2, 1, 3]), torch.tensor([10, 11, 20, 30, 31, 32])
    order = torch.tensor([2, 0, 1])
    moved, indices, weights = kernels.permute_1D_sparse_data(
        order.to("hpu"), lengths.to("hpu"), values.to("hpu"), None
    )
    assert (moved.tolist(), indices.tolist(), weights) == (
        [3, 2, 1],
        [30, 31, 32, 10, 11, 20],
        None,
    )
    *_, weights = kernels.permute_2D_sparse_data(
        order.to("hpu"), lengths.reshape(3, 1).to("hpu"), values.to("hpu"), values.float().to("hpu")
    )
    assert weights.tolist() == [30, 31, 32, 10, 11, 20]
    offsets = torch.tensor([0, 2, 3, 6])
    expanded = kernels.expand_into_jagged_permute(
        order.to("hpu"), offsets.to("hpu"), offsets.to("hpu"), 6
    )
    assert expanded.tolist() == [3, 4, 5, 0, 1, 2]
    wrong, warning = (
        torch.tensor([0, 9, 1]).to("hpu"),
        torch.zeros(1, dtype=torch.long, device="hpu"),
    )
    kernels.bounds_check_indices(
        torch.tensor([2]).to("hpu"), wrong, torch.tensor([0, 3]).to("hpu"), 1, warning, None
    )
    assert (wrong.tolist(), warning.tolist()) == ([0, 0, 1], [1])
    rows = torch.arange(6.0).reshape(1, 6).to("hpu")
    turned = kernels.split_permute_cat(rows, torch.tensor([1, 0]).to("hpu"), 1, 2, 3)
    assert turned.tolist() == [[3, 4, 5, 0, 1, 2]]


@pytest.mark.parametrize("recompute", [True, False])
def test_attention_of_eight_bits(recompute):
    attention = importlib.import_module("habana_frameworks.torch.hpex.kernels").fp8_fused_sdpa
    q, k, v = (randn(1, 2, 5, 8, seed=s).to(torch.bfloat16) for s in (1, 2, 3))
    wanted = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    eight = [ops().cast_to_fp8_v2(t.to("hpu"), 1.0, False, False, E4M3)[0] for t in (q, k, v)]
    out, amax_s, _amax_o = attention(*eight, is_amax_s=True, recompute=recompute)
    assert out.dtype == torch.bfloat16 and 0 < amax_s.item() <= 1
    assert torch.allclose(out.cpu().float(), wanted, atol=0.15)
    if recompute:
        out, *_ = attention(*eight, q_scale_o=torch.tensor(2.0, device="hpu"), recompute=True)
        assert out.dtype == E4M3
        assert torch.allclose(out.cpu().float() / 2, wanted, atol=0.2)


def test_attention_of_eight_bits_has_gradients_for_causal_training():
    attention = importlib.import_module("habana_frameworks.torch.hpex.kernels").fp8_fused_sdpa
    leaves = [randn(1, 2, 5, 8, seed=s).to("hpu").requires_grad_() for s in (1, 2, 3)]
    with pytest.raises(AssertionError, match="is_causal=True alone"):
        attention(*leaves)
    attention(*leaves, is_causal=True)[0].sum().backward()
    plain = [leaf.detach().cpu().requires_grad_() for leaf in leaves]
    torch.nn.functional.scaled_dot_product_attention(*plain, is_causal=True).sum().backward()
    for leaf, other in zip(leaves, plain, strict=True):
        assert torch.allclose(leaf.grad.cpu(), other.grad, atol=1e-5)


def test_on_the_device_alone_and_counted_once():
    hpushim = importlib.import_module("hpushim")
    with pytest.raises(NotImplementedError, match="hpu tensors alone"):
        ops().cast_to_fp8_v2(torch.ones(2))
    x = torch.ones(2, 2, device="hpu")
    before = hpushim.ledger()["operators"]
    ops().scaled_masked_softmax(x, x, 1.0)
    assert hpushim.ledger()["operators"] == before + 1


def test_in_compiled_code_it_is_one_node():
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    x = randn(4, 4).to("hpu")

    @torch.compile(backend=backend, fullgraph=True)
    def step(t):
        return torch.ops.hpu.cast_to_fp8_v2(t, 2.0, False, False, E5M2)[0].float()

    assert torch.equal(step(x).cpu(), (x.cpu() * 2).to(E5M2).float())
    assert any("cast_to_fp8_v2" in name for name in seen), seen


def test_four_bits_exist_in_lazy_mode_alone(run):
    code = """
    import torch, habana_frameworks.torch
    words = torch.tensor([[0x76543210]], dtype=torch.int32, device="hpu")
    one = torch.ones(1, 8, device="hpu")
    print(torch.ops.hpu.convert_from_uint4(words, one, None, torch.float32).tolist())
    print(torch.ops.hpu.convert_from_int4(words * 0 - 1, one * 2, None, torch.float32).tolist())
    print(torch.ops.hpu.convert_from_uint4(words, one, words, torch.float32).abs().sum().item())
    """
    done = run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE="1")
    assert done.stdout.splitlines() == [
        str([[float(n) for n in range(8)]]),
        str([[-2.0] * 8]),
        "0.0",
    ]
    done = run(code, check=False, HPUSHIM="emulate", PT_HPU_LAZY_MODE="0")
    assert "convert_from_uint4" in done.stderr and "AttributeError" in done.stderr
