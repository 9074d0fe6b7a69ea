"""SyncBatchNorm's kernels over two parts of a batch equal BatchNorm over the whole."""

from __future__ import annotations

import pytest
from test_hccl import launch

torch = pytest.importorskip("torch")

EPS = 1e-5


def loss(y):
    return y.square().sum() * 0.1 + y[:, 0].sum()


def whole(x, weight, bias):
    norm = torch.nn.BatchNorm2d(3)
    norm.weight.data, norm.bias.data = weight.clone(), bias.clone()
    x = x.clone().requires_grad_()
    y = norm(x)
    loss(y).backward()
    grads = x.grad, norm.weight.grad, norm.bias.grad
    return y.detach(), *grads, norm.running_mean, norm.running_var


def parted(parts, weight, bias):
    counts = torch.tensor([part[:, 0].numel() for part in parts], device="hpu")
    found = [torch.batch_norm_stats(part, EPS) for part in parts]
    means, invstds = (torch.stack(side) for side in zip(*found, strict=True))
    running = torch.zeros(3, device="hpu"), torch.ones(3, device="hpu")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], means, invstds, *running, 0.1, EPS, counts
    )
    outs, sums, grads = [], [], []
    for part in parts:
        out = torch.batch_norm_elemt(part, weight, bias, mean, invstd, EPS).requires_grad_()
        loss(out).backward()
        outs.append(out.detach())
        grads.append(out.grad)
        sums.append(
            torch.batch_norm_backward_reduce(out.grad, part, mean, invstd, weight, True, True, True)
        )
    dy, dy_xmu, weights, biases = (sum(side) for side in zip(*sums, strict=True))
    back = [
        torch.batch_norm_backward_elemt(grad, part, mean, invstd, weight, dy, dy_xmu, counts)
        for grad, part in zip(grads, parts, strict=True)
    ]
    return torch.cat(outs), torch.cat(back), weights, biases, *running


def test_two_parts_equal_the_whole() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(8, 3, 5, 5), torch.rand(3) + 0.5, torch.randn(3)
    parts = [x[:5].to("hpu"), x[5:].to("hpu")]
    ours = parted(parts, weight.to("hpu"), bias.to("hpu"))
    for mine, theirs in zip(ours, whole(x, weight, bias), strict=True):
        assert mine.device.type == "hpu"
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-5, atol=2e-5)


def test_half_input_has_wide_statistics() -> None:
    x = torch.randn(4, 3, 6, device="hpu", dtype=torch.bfloat16)
    mean, invstd = torch.batch_norm_stats(x, EPS)
    assert mean.dtype == invstd.dtype == torch.float32
    assert torch.batch_norm_elemt(x, None, None, mean, invstd, EPS).dtype == torch.bfloat16


def test_two_processes_equal_one() -> None:
    assert "equal" in launch(2, "sync_norm_training.py")
