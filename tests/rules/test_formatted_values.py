"""A tensor that is written as a number in each step, or read by a method, is read there."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

WRITTEN = ["'%10.4g' % {0}", "('%10s' * 2 + '%.4g' * 6) % ('a', *{0}, 3)", "f'{{{0}:.4f}} a'", "'{{:.3f}} {{}}'.format({0}, 2)", "'%.2e %d' % ({0}, 3)", "f'{{{0}:>8.2f}}'"]  # fmt: skip
VALUES = {
    "mean = torch.zeros(4, device=device)": True,
    "mean = (mean * 2 + loss.detach()) / 3": True,
    "mean = torch.stack([loss.detach(), loss.detach()]).mean(0)": True,
    "mean = 0.5": False,
    "mean = i / 3": False,
    "mean = len(loader) * 1e-3": False,
}


@pytest.mark.parametrize(("written", "value"), crossed(WRITTEN, list(VALUES), rounds=4))
@pytest.mark.parametrize("inside", [True, False])
def test_a_tensor_that_is_formatted(written: str, value: str, inside: bool) -> None:
    first = "torch.ones(4, device=device)" if VALUES[value] else "0.0"
    text = (
        f"import torch\n\n\ndef train(net, loader, optimizer, device, mean):\n    mean = {first}\n    for i, x in enumerate(loader):\n"
        f"        loss = net(x.cuda()).sum()\n        {value}\n        loss.backward()\n        optimizer.step()\n"
        f"        optimizer.zero_grad()\n{'    ' if inside else ''}    bar(set={written.format('mean')})\n"
    )
    found = examine(text, "python", "train.py", Context(Target(), load()))
    assert ("HPU513" in {f.code for f in found}) == (VALUES[value] and inside)


READ = {"loss": True, "out.loss": True, "state.step": True, "out.shape.loss": True, "out.queue.loss": True, "x.shape": False, "out.loss.shape": False, "out.queue": False}  # fmt: skip


@pytest.mark.parametrize("value", READ)
@pytest.mark.parametrize("method", ["item", "cpu", "numpy"])
@pytest.mark.parametrize("bare", [True, False])
def test_a_tensor_that_is_read_by_a_method(value: str, method: str, bare: bool) -> None:
    """Shapes are of the host, and a queue has methods of the same names."""
    read = f"{value}.{method}()"
    text = (
        f"import torch\n\n\ndef train(net, loader, optimizer, state):\n    for x in loader:\n        out = net(x.cuda())\n        loss = out.loss\n"
        f"        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n        {read if bare else f'bar.set({read})'}\n"
    )
    found = examine(text, "python", "train.py", Context(Target(), load()))
    assert ("HPU513" in {f.code for f in found}) == READ[value]
