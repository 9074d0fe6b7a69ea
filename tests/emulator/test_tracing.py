"""torch.jit.trace over hpu tensors: what it records is what runs, and no constant."""

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: nn.Conv1d(4, 6, 3), (2, 4, 9)),
        (lambda: nn.Conv1d(4, 6, 3), (4, 9)),
        (lambda: nn.Conv2d(4, 6, 3, groups=2, bias=False), (2, 4, 9, 9)),
        (lambda: nn.Conv3d(4, 6, 3, padding=1), (2, 4, 5, 5, 5)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5)),
        (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()), (2, 4, 9, 9)),
        (lambda: nn.LSTM(4, 6), (5, 2, 4)),
        (lambda: nn.MultiheadAttention(4, 2).forward, (5, 4)),
    ],
)
def test_a_trace_answers_other_inputs_as_its_module_does(make, shape):
    torch.manual_seed(0)
    made = make()
    module = getattr(made, "__self__", made).to("hpu").eval()
    inputs = (torch.randn(shape, device="hpu"),) * (1 if made is module else 3)
    other = tuple(one + torch.randn(shape, device="hpu") for one in inputs)
    traced = torch.jit.trace(module, inputs)
    got, expected = traced(*other), module(*other)
    got, expected = (x[0] if isinstance(x, tuple) else x for x in (got, expected))
    assert got.equal(expected)
    weight = next(module.parameters())
    for result in (got, expected):
        assert result.device.type == "hpu"
    one, two = (torch.autograd.grad(x.square().sum(), weight)[0] for x in (got, expected))
    torch.testing.assert_close(one, two)
