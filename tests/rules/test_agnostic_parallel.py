"""The agnostic style: what DataParallel moves, and what fails where CUDA is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agnostic import HEAD, body, written, written_for

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

#: Ways to a batch that DataParallel scatters; ``{0}`` is how the batch is made a tensor's for sure, ``{1}`` the call.
SPREAD = {
    "the loop": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = (model(x) - y).mean()\n        loss.backward()",
    "a function": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = step(model, x, y)\n        loss.backward()",
    "a function by keyword": "for x, y in loader:\n        {0}y = y.cuda()\n        loss = step(model, target=y, data=x)\n        loss.backward()",
}


STEP = (
    "def step(net, data, target):\n    {0}out = net(data)\n    return (out - target).mean()\n\n\n"
)


#: How the model is wrapped, and whether that is DataParallel of torch.
WRAPPED = {"torch.nn.DataParallel(net).cuda()": True, "nn.DataParallel(net.cuda(), device_ids=[0, 1])": True, "net.cuda()": False}  # fmt: skip


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize(("sure", "moves"), [("", ""), ("n = x.size(0)\n        ", ""), ("", "data = data.cuda()\n    ")])  # fmt: skip
@pytest.mark.parametrize("way", SPREAD)
def test_what_data_parallel_moves_is_moved_or_the_file_stays(way: str, sure: str, moves: str, wrapped: str) -> None:  # fmt: skip
    """On CUDA alone the wrapper moves what the model is called with."""
    text = f"{HEAD}{STEP.format(moves)}def main(net, loader):\n    model = {wrapped}\n    {SPREAD[way].format(sure)}\n"
    after = written(text).text
    left = WRAPPED[wrapped] and not (moves and "function" in way)
    if left and not sure:
        assert after == text
        unsafe = Context(Target(style="agnostic", mode="eager"), load(), unsafe=True)
        after = settle(text, "python", "train.py", unsafe).text
    assert after != text and ".cuda(" not in after
    assert ("x.to(device)" in after) is left or wrapped == "net.cuda()"


#: Moves of a part beside a batch, and whether the batch is moved by a statement like it: nothing else is done with it.
BESIDE = {
    "y = y.cuda(non_blocking=True)\n        {0}": ("x = x.to(device, non_blocking=True)", True),
    "y = y.cuda()\n        n = x.size(0)\n        {0}": ("x = x.to(device)", True),
    "y = y.cuda()\n        if many:\n            {0}\n        else:\n            {0}": (
        "x = x.to(device)",
        True,
    ),
    "y = y.cuda()\n        {0}\n        {0}": ("x = x.to(device)", True),
    "y = y.cuda()\n        n = numpy.sum(x)\n        {0}": ("x = x.to(device)", False),
    "y = y.cuda()\n        n = x.mean()\n        {0}": ("x = x.to(device)", False),
}


@pytest.mark.parametrize("call", ["loss = model(x) - y", "loss = step(model, x, y)"])
@pytest.mark.parametrize("way", BESIDE)
def test_a_batch_is_moved_beside_its_other_part(way: str, call: str) -> None:
    moved, beside = BESIDE[way]
    text = f"{HEAD}{STEP.format('')}def main(net, loader, many, numpy):\n    model = nn.DataParallel(net).cuda()\n    for x, y in loader:\n        {way.format(call)}\n"
    unsafe = Context(Target(style="agnostic", mode="eager"), load(), unsafe=True)
    after = settle(text, "python", "train.py", unsafe).text
    assert after.count(f"        {moved}\n        y = y.to(device") == beside
    assert after.count("x.to(device") == (1 if beside else way.count("{0}"))


ALL = {
    "range(torch.cuda.device_count())": True,
    "list(range(torch.cuda.device_count()))": True,
    "[i for i in range(torch.cuda.device_count())]": True,
    "range(2)": False,
    "[0, 1]": False,
    "[i for i in range(torch.cuda.device_count()) if i]": False,
    "[i + 1 for i in range(torch.cuda.device_count())]": False,
}


@pytest.mark.parametrize("given", ["nn.DataParallel(m, device_ids={0})", "torch.nn.DataParallel(m, {0})", "nn.DataParallel(m, dim=0, device_ids={0})"])  # fmt: skip
@pytest.mark.parametrize("ids", ALL)
def test_all_devices_are_what_data_parallel_takes_by_itself(ids: str, given: str) -> None:
    after = body(f"m = {given.format(ids)}\nm.cuda()")
    bare = given.replace(", device_ids={0}", "").replace(", {0}", "")
    assert (f"m = {bare}" in after) is ALL[ids]


@pytest.mark.parametrize("made", ["nn.parallel.replicate(m, [0, 1])", "nn.parallel.scatter(x, [torch.cuda.current_device()])", "nn.parallel.scatter_gather.scatter_kwargs((x,), {}, [0])", "nn.parallel.gather([x], 0)", "nn.parallel.comm.broadcast(x, [0])"])  # fmt: skip
@pytest.mark.parametrize("beside", ["n = torch.cuda.device_count()", "x = x.cuda()", "use = torch.cuda.is_available()"])  # fmt: skip
def test_a_file_that_spreads_over_devices_itself_stays(made: str, beside: str) -> None:
    text = f"{HEAD}def f(m, x):\n    {beside}\n    y = {made}\n    return y\n"
    assert written(text).text == text


@pytest.mark.parametrize("made", ["nn.parallel.data_parallel(m, x, range(n))", "torch.nn.parallel.replicate(m, [0, 1])"])  # fmt: skip
@pytest.mark.parametrize("asked", ["x.is_cuda and n > 1", "x.is_cuda", "torch.cuda.is_available() and n > 1"])  # fmt: skip
def test_a_check_before_what_spreads_over_devices_stays(asked: str, made: str) -> None:
    text = f"{HEAD}def f(m, x, n):\n    if {asked}:\n        return {made}\n    return m(x)\n\n\ndef g(x):\n    return x.cuda()\n"
    after = written(text).text
    assert f"    if {asked}:\n" in after and ".cuda()" not in after


@pytest.mark.parametrize("name", ["ipc_collect", "reset_peak_memory_stats", "cudart"])
@pytest.mark.parametrize("around", ["{0}", "for x in xs:\n    {0}", "if many:\n    {0}", "try:\n    {0}\nfinally:\n    pass"])  # fmt: skip
def test_what_fails_without_cuda_is_called_where_cuda_is(around: str, name: str) -> None:
    call = f"torch.cuda.{name}()"
    after = written(f"{HEAD}x = x.cuda()\n{around.format(call)}\n").text
    assert re.search(rf"if torch\.cuda\.is_available\(\):\n +{re.escape(call)}", after)


@pytest.mark.parametrize("use", ['torch.distributed.init_process_group("nccl")', "with torch.autocast('cuda'):\n    pass"])  # fmt: skip
def test_a_file_that_does_not_name_cuda_stays_as_well(tmp_path: Path, use: str) -> None:
    text = f"import torch\n\n{use}\n"
    assert written_for(tmp_path, {"requirements.txt": "torch==1.9.1\n"}, text) == text
