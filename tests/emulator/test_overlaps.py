"""Operators that write into memory that they also read through another tensor: lazy mode reads the old values."""

from __future__ import annotations


def test_lazy_mode_reads_the_old_values(run) -> None:
    code = """
    import torch
    index = torch.tensor([2], device="hpu")
    x = torch.arange(4.0, device="hpu")
    assert x.index_copy_(0, index, x[1:2]).tolist() == [0, 1, 1, 3]
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 2, 4]
    x.mul_(x[:])
    assert x.tolist() == [0, 1, 4, 16]
    """
    run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE="1")


def test_eager_mode_refuses(run) -> None:
    code = "import torch\nx = torch.arange(4.0, device='hpu')\nx[1:].add_(x[:-1])"
    done = run(code, check=False, HPUSHIM="emulate", PT_HPU_LAZY_MODE="0")
    assert "refer to a single memory location" in done.stderr
