"""Strides: a pointwise operator's result lies in rows on hpu; with the CPU's random numbers it keeps the CPU's strides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from hpushim.emulator import device


@pytest.fixture
def cpu_random() -> Iterator[None]:
    device.share_cpu_random(True)
    yield
    device.share_cpu_random(False)


def _masks(where: str) -> list[torch.Tensor]:
    torch.manual_seed(3)
    x = torch.arange(24.0, device=where).reshape(2, 3, 4) + 1
    y = torch.relu(x.transpose(1, 2))
    z = torch.relu(y.permute(2, 0, 1)) * 2
    drawn = [F.dropout(y, 0.5), F.dropout(z.softmax(0), 0.5), torch.bernoulli(y / 99)]
    drawn += [torch.rand_like(z), torch.native_dropout(y, 0.5, True)[0], y.clone().normal_()]
    return [one.cpu() for one in drawn]


@pytest.mark.usefixtures("cpu_random")
def test_random_numbers_are_the_cpu_s_whatever_the_strides():
    for hpu, cpu in zip(_masks("hpu"), _masks("cpu"), strict=True):
        assert hpu.equal(cpu)


VIEWS = {
    "the CPU's rows": lambda x: torch.relu(x.transpose(1, 2)).transpose(1, 2).view(-1, 4),
    "channels last": lambda x: torch.relu(x[None].to(memory_format=torch.channels_last)).permute(0, 2, 3, 1).view(-1),
}  # fmt: skip


class _Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


#: What looks at the strides before it asks for a view, so that it works on hpu too.
LOOKING = {
    "reshape": lambda x: x.reshape(-1, 12),
    "torch.reshape": lambda x: torch.reshape(x, (-1,)),
    "flatten": lambda x: x.flatten(1),
    "contiguous": lambda x: x.contiguous().view(-1),
    "contiguous by name": lambda x: x.contiguous(memory_format=torch.contiguous_format).view(-1),
    "is_contiguous": lambda x: (x if x.is_contiguous() else x.clone(memory_format=torch.contiguous_format)).view(-1),
    "linear": lambda x: F.linear(x, torch.eye(4, device=x.device), torch.ones(4, device=x.device)),
    "instance_norm": F.instance_norm,
    "matmul": lambda x: x @ torch.eye(4, device=x.device),
    "einsum": lambda x: torch.einsum("...i,ij->...j", x, torch.eye(4, device=x.device)),
}  # fmt: skip

LAYOUTS = {
    "3 dimensions": lambda x: torch.relu(x.transpose(1, 2)).transpose(1, 2),
    "4 dimensions": lambda x: (x[None].permute(0, 3, 1, 2) * 2).permute(0, 2, 3, 1)[0],
    "of two": lambda x: (x.transpose(0, 2) + x.transpose(0, 2)).transpose(0, 2),
    "with a gradient": lambda x: torch.relu(x.requires_grad_().transpose(1, 2)).transpose(1, 2),
}


@pytest.mark.usefixtures("cpu_random")
@pytest.mark.parametrize("mode", [contextlib.nullcontext, _Seen])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("looking", LOOKING)
def test_what_looks_at_the_strides_works_where_a_view_fails_under_a_dispatch_mode_too(looking, layout, mode):  # fmt: skip
    x = torch.rand(2, 3, 4)
    there, here = LAYOUTS[layout](x.to("hpu")), LAYOUTS[layout](x.clone())
    with mode():
        torch.testing.assert_close(LOOKING[looking](there).cpu(), LOOKING[looking](here))
        for view in (there.view, lambda *size: there.view_as(torch.empty(size, device="hpu")), lambda *size: there.unflatten(2, (2, 2)).view(size)):  # fmt: skip
            with pytest.raises(RuntimeError, match="HPU519"):
                view(2, 12)


@pytest.mark.usefixtures("cpu_random")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_contiguous_tells_the_truth_of_hpu(layout):
    x = LAYOUTS[layout](torch.rand(2, 3, 4, device="hpu"))
    assert not x.is_contiguous()
    assert x.contiguous().is_contiguous()
    assert x.cpu().is_contiguous()
    rows = torch.rand(2, 3, 4, device="hpu")
    assert rows.is_contiguous()
    assert rows.contiguous() is rows


@pytest.mark.parametrize("random", ["own", "cpu"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_only_the_cpu_s_strides_allow_fails(view, random, request):
    if random == "cpu":
        request.getfixturevalue("cpu_random")
    x = torch.randn(2, 3, 4)
    VIEWS[view](x)
    with pytest.raises(RuntimeError, match=r"Use \.reshape.*HPU519"):
        VIEWS[view](x.to("hpu"))


@pytest.mark.parametrize("random", ["own", "cpu"])
def test_a_view_that_fails_everywhere_is_not_blamed_on_hpu(random, request):
    if random == "cpu":
        request.getfixturevalue("cpu_random")
    with pytest.raises(RuntimeError, match=r"Use \.reshape") as raised:
        torch.relu(torch.randn(2, 3, 4, device="hpu")).transpose(1, 2).view(-1)
    assert "HPU519" not in str(raised.value)


@pytest.mark.usefixtures("cpu_random")
def test_views_that_rows_allow_pass():
    x = torch.randn(2, 3, 4, device="hpu")
    y = torch.relu(x.permute(2, 0, 1))
    for view in (y[:, :, 1:].unsqueeze(0), y.view(4, 2, 3, 1), y[1:].view(3, 2, 3)):
        assert view.device.type == "hpu"
    assert torch.relu(x).view(-1).shape == (24,)
    assert x.transpose(1, 2).relu().reshape(-1).equal(x.transpose(1, 2).reshape(-1).relu())
