"""Fused kernels and norms against their plain formulas, with every argument, forward and backward."""

from __future__ import annotations

import importlib
import math

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def _kernels():
    return importlib.import_module("habana_frameworks.torch.hpex.kernels")


def _norms():
    return importlib.import_module("habana_frameworks.torch.hpex.normalization")


def _leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).to("hpu").requires_grad_()


def _same(ours, expected, inputs, tolerance=2e-6):
    """Results equal, and the gradients for ``inputs`` of a random direction equal."""
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)
    direction = torch.randn_like(expected)
    got = torch.autograd.grad(ours, inputs, direction)
    want = torch.autograd.grad(expected, inputs, direction)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(11)


MASKS = {
    "none": lambda b, h, s, t: None,
    "bool, one head": lambda b, h, s, t: torch.rand(b, 1, s, t, device="hpu") > 0.3,
    "bool, all heads": lambda b, h, s, t: torch.rand(b, h, s, t, device="hpu") > 0.3,
    "added": lambda b, h, s, t: torch.randn(b, 1, s, t, device="hpu"),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("scale", [None, 0.37])
@pytest.mark.parametrize("recompute", [True, False])
def test_attention(mask, heads, scale, recompute):
    query_heads, kv_heads = heads
    q = _leaf(2, query_heads, 5, 8)
    k, v = _leaf(2, kv_heads, 7, 8), _leaf(2, kv_heads, 7, 8)
    attn_mask = MASKS[mask](2, query_heads, 5, 7)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask[..., 0] = True  # torch gives NaN for rows that see nothing
    ours = _kernels().FusedSDPA.apply(q, k, v, attn_mask, 0.0, False, scale, "None", recompute)
    repeated = [t.repeat_interleave(query_heads // kv_heads, dim=1) for t in (k, v)]
    expected = functional.scaled_dot_product_attention(q, *repeated, attn_mask, scale=scale)
    _same(ours, expected, (q, k, v))


@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
@pytest.mark.parametrize("softmax_mode", ["None", "fast"])
def test_causal_attention(heads, softmax_mode):
    q, k, v = _leaf(2, heads[0], 6, 8), _leaf(2, heads[1], 6, 8), _leaf(2, heads[1], 6, 8)
    ours = _kernels().FusedSDPA.apply(q, k, v, None, 0.0, True, None, softmax_mode)
    repeated = [t.repeat_interleave(heads[0] // heads[1], dim=1) for t in (k, v)]
    _same(ours, functional.scaled_dot_product_attention(q, *repeated, is_causal=True), (q, k, v))


@pytest.mark.parametrize("side", ["left", "right"])
def test_attention_ignores_padding(side):
    q, k, v = (torch.randn(3, 2, 6, 8, device="hpu") for _ in range(3))
    lengths = torch.tensor([6, 4, 3], device="hpu")
    arguments = (None, 0.0, True, None, "fast", None, lengths, side)
    ours = _kernels().FusedSDPA.apply(q, k, v, *arguments)
    for row, length in enumerate((6, 4, 3)):
        valid = slice(0, length) if side == "right" else slice(6 - length, 6)
        part = [t[row : row + 1, :, valid] for t in (q, k, v)]
        expected = functional.scaled_dot_product_attention(*part, is_causal=True)
        torch.testing.assert_close(ours[row : row + 1, :, valid], expected)


def test_attention_with_dropout_agrees_with_its_own_mask():
    q, k, v = (_leaf(2, 4, 6, 8) for _ in range(3))
    out, kept = _kernels().FusedSDPA.apply(
        q, k, v, None, 0.4, False, None, "None", False, None, "left", True
    )
    assert kept.dtype == torch.int8 and kept.unique().tolist() == [0, 1]
    probs = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1)
    _same(out, (probs * kept / 0.6) @ v, (q, k, v))


def test_attention_returns_probabilities():
    q, k, v = (torch.randn(2, 4, 6, 8, device="hpu") for _ in range(3))
    out, probs = _kernels().FusedSDPA.apply(
        q, k, v, None, 0.0, False, None, "None", False, None, "left", False, True
    )
    torch.testing.assert_close(probs @ v, out)
    torch.testing.assert_close(probs.sum(-1), torch.ones(2, 4, 6, device="hpu"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 0.0, False, None, "fast", True), "is_causal"),
        ((None, 0.0, True, None, "None", True, None, "left", True), "return_dropout_mask"),
        ((None, 0.0, True, None, "None", False, torch.ones(2)), "valid_seq_len"),
        ((None, 0.0, True, None, "None", False, None, "left", False, True), "return_attn_probs"),
    ],
)
def test_attention_refuses_what_the_package_refuses(arguments, message):
    q, k, v = (_leaf(2, 4, 6, 8) for _ in range(3))
    with pytest.raises(AssertionError, match=message):
        _kernels().FusedSDPA.apply(q, k, v, *arguments)


def test_attention_under_autocast_runs_in_bfloat16():
    q, k, v = (_leaf(2, 4, 6, 8) for _ in range(3))
    with torch.autocast("hpu", torch.bfloat16):
        out = _kernels().FusedSDPA.apply(q, k, v)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)


def _rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def _rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def _tables(length, size):
    angle = torch.randn(length, size, device="hpu")
    return angle.cos(), angle.sin()


@pytest.mark.parametrize("form", ["2-d", "3-d", "4-d"])
@pytest.mark.parametrize("ids", ["per row", "shared"])
def test_rotary_with_position_ids(form, ids):
    p = _leaf(2, 4, 5, 8)
    cos, sin = _tables(16, 8)
    position_ids = torch.randint(0, 16, (2, 5) if ids == "per row" else (1, 5), device="hpu")
    shape = {"2-d": (16, 8), "3-d": (1, 16, 8), "4-d": (1, 1, 16, 8)}[form]
    ours = _kernels().RotaryPosEmbeddingHelperV2.apply(
        p, cos.reshape(shape), sin.reshape(shape), position_ids
    )
    picked_cos, picked_sin = (t[position_ids].unsqueeze(1) for t in (cos, sin))
    _same(ours, p * picked_cos + _rotate_half(p) * picked_sin, (p,))


@pytest.mark.parametrize("offset", [0, 3])
def test_rotary_with_offset(offset):
    p = _leaf(2, 4, 5, 8)
    cos, sin = _tables(16, 8)
    ours = _kernels().RotaryPosEmbeddingHelperV1.apply(p, cos, sin, offset)
    rows = slice(offset, offset + 5)
    _same(ours, p * cos[rows] + _rotate_half(p) * sin[rows], (p,))


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 1, 5, 8), (1, 1, 5, 8)])
@pytest.mark.parametrize("pairwise", [False, True])
def test_rotary_with_tables_of_the_right_rows(shape, pairwise):
    kernels = _kernels()
    p = _leaf(2, 4, 5, 8)
    angle = torch.randn(*shape, device="hpu")
    cos, sin = angle.cos(), angle.sin()
    mode = (
        kernels.RotaryPosEmbeddingMode.PAIRWISE
        if pairwise
        else kernels.RotaryPosEmbeddingMode.BLOCKWISE
    )
    ours = kernels.apply_rotary_pos_emb(p, cos, sin, None, 0, mode)
    wide_cos, wide_sin = (t.unsqueeze(1) if t.dim() == 3 else t for t in (cos, sin))
    rotate = _rotate_every_two if pairwise else _rotate_half
    _same(ours, p * wide_cos + rotate(p) * wide_sin, (p,))


def test_rotary_with_heads_before_the_last_dimension():
    p = _leaf(2, 5, 4, 8)  # (batch, length, heads, size)
    angle = torch.randn(2, 5, 1, 8, device="hpu")
    ours = _kernels().apply_rotary_pos_emb(p, angle.cos(), angle.sin())
    _same(ours, p * angle.cos() + _rotate_half(p) * angle.sin(), (p,))


def test_rotary_with_a_cache_of_both():
    p = _leaf(5, 2, 4, 8)  # (length, batch, heads, size); the last four stay as they are
    cache = torch.randn(7, 1, 2, 2, device="hpu")
    ours = _kernels().apply_rotary_pos_emb(p, cache)
    cos, sin = (cache[:5, :, None, :, i] for i in (0, 1))
    even, odd = p[..., 0:4:2], p[..., 1:4:2]
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)
    _same(ours, torch.cat((turned, p[..., 4:]), dim=-1), (p,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fast", [False, True])
def test_rms_norm(dtype, fast):
    x, gamma = _leaf(3, 5, 16, dtype=dtype), _leaf(16, dtype=dtype)
    ours = _norms().FusedRMSNorm.apply(x, gamma, 1e-5, True, 0, fast)
    assert ours.dtype == dtype
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    _same(ours, functional.rms_norm(x, (16,), gamma, 1e-5), (x, gamma), tolerance)


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clip_norm(max_norm):
    ours, theirs = ([_leaf(4, 3), _leaf(7), _leaf(2)] for _ in range(2))
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        one.grad = torch.randn_like(one)
        other.grad = one.grad.clone()
    total = _norms().FusedClipNorm(ours, max_norm).clip_norm(ours)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    torch.testing.assert_close(total, expected.reshape(1))
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 4])
def test_ctc_loss(reduction, blank):
    log_probs = torch.randn(12, 3, 5).log_softmax(-1).to("hpu").requires_grad_()
    targets = torch.randint(1, 4, (3, 4), device="hpu")
    lengths = (torch.tensor([12, 11, 9]), torch.tensor([4, 3, 2]))
    ours = _kernels().CTCLoss.apply(log_probs, targets, *lengths, blank, reduction, True)
    expected = functional.ctc_loss(log_probs, targets, *lengths, blank, reduction, True)
    _same(ours, expected, (log_probs,))


def test_custom_softmax():
    x = _leaf(3, 9, dtype=torch.bfloat16)
    _same(_kernels().CustomSoftmax.apply(x, 0), torch.softmax(x, dim=-1), (x,), 1e-3)
    with pytest.raises(RuntimeError, match="bfloat16"):
        _kernels().CustomSoftmax.apply(x.float(), 0)


@pytest.mark.parametrize("name", ["PySDPA", "PySDPAHinted"])
@pytest.mark.parametrize("causal", [False, True])
def test_python_attention(name, causal):
    q, k, v = (_leaf(2, 4, 6, 8) for _ in range(3))
    ours = getattr(_kernels(), name).apply(q, k, v, causal, True)
    _same(ours, functional.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v))
