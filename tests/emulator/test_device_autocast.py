"""torch.autocast("hpu") casts as the compatibility matrix says."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from hpushim.matrix import load

X = lambda: torch.ones(4, 8, device="hpu")  # noqa: E731
W = lambda: torch.ones(8, 8, device="hpu")  # noqa: E731

LOWER = {
    "linear": lambda: F.linear(X(), W()),
    "mm": lambda: X() @ W(),
    "bmm": lambda: torch.bmm(X()[None], W()[None]),
    "conv2d": lambda: F.conv2d(
        torch.ones(1, 2, 4, 4, device="hpu"), torch.ones(3, 2, 3, 3, device="hpu")
    ),
    "softmax": lambda: X().softmax(-1),
    "layer_norm": lambda: F.layer_norm(
        X(), (8,), torch.ones(8, device="hpu"), torch.zeros(8, device="hpu")
    ),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
        X()[None], X()[None], X()[None]
    ),
}
FLOAT32 = {
    "exp": lambda: X().bfloat16().exp(),
    "pow": lambda: X().bfloat16().pow(2),
    "cross_entropy_loss": lambda: F.cross_entropy(
        X().bfloat16(), torch.zeros(4, dtype=torch.long, device="hpu")
    ),
    "mse_loss": lambda: F.mse_loss(X().bfloat16(), X().bfloat16()),
}


def listed(name: str, names: str) -> bool:
    return name in names.split()


@pytest.mark.parametrize("name", LOWER)
def test_lower_precision_operators(name):
    assert listed(name, load().autocast.lower)
    with torch.autocast("hpu"):
        assert LOWER[name]().dtype is torch.bfloat16
    with torch.autocast("hpu", torch.float16):
        assert LOWER[name]().dtype is torch.float16
    with torch.autocast("hpu", enabled=False):
        assert LOWER[name]().dtype is torch.float32


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_operators(name):
    assert listed(name, load().autocast.fp32)
    with torch.autocast("hpu"):
        assert FLOAT32[name]().dtype is torch.float32


def test_widest_type_wins_in_promoting_operators():
    with torch.autocast("hpu"):
        assert torch.cat([X(), X().bfloat16()]).dtype is torch.float32
        assert torch.cat([X().bfloat16(), X().bfloat16()]).dtype is torch.bfloat16


def test_cpu_autocast_and_cpu_tensors_are_left_alone():
    with torch.autocast("hpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast("cpu"):
        assert F.linear(X(), W()).dtype is torch.float32


def test_gradients_arrive_in_the_parameters_type():
    layer = torch.nn.Linear(8, 4).to("hpu")
    with torch.autocast("hpu"):
        out = layer(X())
        loss = out.float().sum()
    loss.backward()
    assert out.dtype is torch.bfloat16 and layer.weight.grad.dtype is torch.float32
    assert layer.weight.grad.tolist() == [[4.0] * 8] * 4
