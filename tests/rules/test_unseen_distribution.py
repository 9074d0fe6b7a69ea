"""Several devices and processes in forms that unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled, severities

from hpushim.engine.project import analyse, migrate
from hpushim.model import Target

PARTS = {
    "cur = {key: batch[key][rows] for key in batch}": "cur",
    "cur = {k: v[:2] for k, v in batch.items()}": "cur",
    "cur = [each[rows] for each in batch]": "cur",
    "cur = tuple(each.float() for each in batch)": "*cur",
    "cur = dict(batch)": "cur",
    "cur = [batch[k] for k in ('x', 'y')]": "cur",
    "cur = [part for group in batch for part in group]": "cur",
}
WRAPPED = ["DistributedDataParallel(model, device_ids=[rank])", "DataParallel(model)"]


@pytest.mark.parametrize("wrapper", WRAPPED)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("moved", [False, True])
def test_parts_of_a_batch_are_as_little_moved_as_the_batch(wrapper: str, part: str, moved: bool) -> None:  # fmt: skip
    before = "batch = move_to_device(batch)" if moved else "pass"
    text = (
        f"import torch\n\n\ndef f(model, loader, rank, rows):\n    model = torch.nn.parallel.{wrapper}\n    for batch in loader:\n"
        f"        {before}\n        {part}\n        model({PARTS[part]})\n"
    )
    assert ("HPU321" in settled(text)[1]) == (not moved)


#: What is made of a part of the batch, and whether it is left on the host as the part is.
DERIVED = {"x.flip(3)": True, "x.float().flip(3)": True, "x[:, :1]": True, "torch.autograd.Variable(x)": True, "torch.autograd.Variable(x.float())": True, "torch.autograd.Variable(x.cuda())": False, "x.cuda().flip(3)": False, "x.flip(3).cuda()": False, "x.size(0)": False, "find(x)": False}  # fmt: skip


@pytest.mark.parametrize("made", DERIVED)
@pytest.mark.parametrize("turn", ["", "if flip:\n            "])
def test_what_is_made_of_a_part_that_a_call_moves(made: str, turn: str) -> None:
    text = f"import torch\n\n\ndef f(model, loader, flip):\n    model = torch.nn.DataParallel(model).cuda()\n    for x, y in loader:\n        a = model(x) + x.mean()\n        {turn}z = {made}\n        {turn}b = model(z)\n"
    done, codes = settled(text)
    assert "model(x.to(next(model.parameters()).device))" in done
    assert ("model(z.to(next(model.parameters()).device))" in done) is DERIVED[made]
    assert codes.count("HPU321") == 1 + DERIVED[made]


MADE = ["torch.zeros(2)", "torch.ones((2, n))", "torch.rand(n)", "torch.arange(n)", "torch.tensor([1, 2])"]  # fmt: skip
WRAPPING = ["torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])", "torch.nn.DataParallel(net)"]  # fmt: skip


@pytest.mark.parametrize(("made", "wrapper"), crossed(MADE, WRAPPING, rounds=2))
@pytest.mark.parametrize("given", ["x.cuda(), h", "x.cuda(), hidden=h"])
def test_what_is_made_on_the_host_is_moved_to_a_wrapped_model(made: str, wrapper: str, given: str) -> None:  # fmt: skip
    text = f"import torch\n\n\ndef f(net, x, n, rank):\n    net = {wrapper}\n    h = {made}\n    with torch.no_grad():\n        return net({given})\n"
    moved = given.replace("x.cuda()", 'x.to("hpu")').replace("h", "h", 1)
    done, codes = settled(text)
    assert "HPU321" in codes
    assert ".to(next(net.parameters()).device)" in done
    assert moved.partition(",")[0] in done
    for other in (f"{made[:-1]}, device=x.device)", "build(n)", f"{made}.to(x.device)"):
        assert "HPU321" not in settled(text.replace(made, other))[1], other
    assert "HPU321" not in settled(text.replace("    with", "    h = h.cuda()\n    with"))[1]
    assert "HPU321" not in settled(text.replace(wrapper, "Net()"))[1]


@pytest.mark.parametrize("how", ["from functools import partial", "import functools", "import functools as f", "import os"])  # fmt: skip
def test_partial_is_written_as_the_file_has_it(how: str) -> None:
    text = f"import torch\n{how}\n\nif amp:\n    cast = torch.cuda.amp.autocast\nelse:\n    cast = build\n"
    done = settled(text)[0]
    short = {"from functools import partial": "partial", "import functools as f": "f.partial"}
    written = short.get(how, "functools.partial")
    assert f"cast = {written}(torch.autocast, " in done
    assert done.count("import functools") == ("from" not in how)


@pytest.mark.parametrize("moved", ['batch["x"] = batch["x"].cuda()', "batch = to_device(batch)", "batch = batch.to(rank)"])  # fmt: skip
def test_parts_that_a_function_cuts_of_what_is_moved(moved: str) -> None:
    text = (
        "import torch\n\n\ndef f(net, loader, rank, cut):\n    net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])\n"
        f"    batch = next(iter(loader))\n    {moved}\n    for part in cut(batch, 3):\n        net(part)\n"
    )
    assert "HPU321" not in settled(text)[1]
    assert "HPU321" in settled(text.replace(f"    {moved}\n", ""))[1]


@pytest.mark.parametrize("given", ["'spawn'", "'forkserver'", "method='spawn'", "how"])
@pytest.mark.parametrize("word", ["set_start_method({0})", "set_start_method({0}, force=True)", "get_context({0})"])  # fmt: skip
def test_a_start_method_other_than_fork_is_right(given: str, word: str) -> None:
    written = word.format(given)
    if given.startswith("method=") and "force" not in written:
        written = written.replace(", force", "")
    text = f"import torch\nimport torch.multiprocessing as mp\n\nhow = 'spawn'\nmp.{written}\ntorch.ones(2).cuda()\n"
    assert "HPU316" not in settled(text)[1]
    assert "HPU316" in settled(text.replace(f"({given}", "('fork'"))[1]


@pytest.mark.parametrize("spread", ["data_parallel(m, x, ids)", "replicate(m, ids)", "parallel_apply([m], [x])"])  # fmt: skip
@pytest.mark.parametrize("owner", ["torch.nn.parallel", "nn.parallel", "torch.nn.parallel.data_parallel"])  # fmt: skip
def test_functions_that_spread_a_model_are_told(spread: str, owner: str) -> None:
    if owner.endswith("data_parallel"):
        owner = f"torch.nn.parallel.{spread.partition('(')[0]}"
    text = (
        f"import torch\nfrom torch import nn\n\n\ndef f(m, x, ids):\n    return {owner}.{spread}\n"
    )
    assert "HPU308" in settled(text)[1]


#: Tables that ask Ray for devices, and how they come to it.
ASKING = [
    "{'CPU': 1, 'GPU': 1}",
    "{'CPU': 1, 'GPU': 1} if gpu else {'CPU': 1}",
    "{**other, 'GPU': 1}",
]
TAKEN = [
    "placement_group([{0}])",
    "placement_group(bundles=[{0} for _ in range(n)])",
    "table = {0}\n    placement_group(bundles=[table])",
    "lists = [[{0} for _ in range(n)] for n in range(2)]\n    return [placement_group(bundles=each) for each in lists]",
    "lists = []\n    lists.append({0})\n    placement_group(bundles=lists)",
    "pick = dict(bundles=[{0}])\n    placement_group(**pick)",
]
RAY = "import torch, ray\nfrom ray.util.placement_group import placement_group\n\n\ndef f(gpu, n, other, Actor, given):\n    {0}\n\n\ntorch.ones(2).cuda()\n"


@pytest.mark.parametrize(("table", "taken"), crossed(ASKING, TAKEN, rounds=2))
def test_a_table_of_resources_that_comes_to_ray_is_told(table: str, taken: str) -> None:
    text = RAY.format(taken.format(table))
    done, codes = settled(text)
    assert "HPU716" in codes
    assert done.count("'HPU': 1") == 1
    elsewhere = settled(text.replace("placement_group(", "print("))
    assert "HPU716" not in elsewhere[1]


@pytest.mark.parametrize("put", ["options['num_gpus'] = given", "options['num_gpus'] = 1", "if gpu:\n        options['num_gpus'] = given / n"])  # fmt: skip
@pytest.mark.parametrize("use", ["Actor.options(**options).remote()", "ray.remote(**options)(Actor)", "made = options\n    Actor.options(**made)"])  # fmt: skip
def test_what_is_put_into_options_for_ray_is_told(put: str, use: str) -> None:
    text = RAY.format(f"options = {{'name': n}}\n    {put}\n    {use}")
    assert "HPU716" in settled(text)[1]
    assert "HPU716" not in settled(text.replace("num_gpus", "num_cpus"))[1]
    assert "HPU716" not in settled(text.replace(use, "print(options)"))[1]


#: How a device is written with its number.
WITH_NUMBER = ["f'cuda:{{{0}}}'", "'cuda:%d' % {0}", "'cuda:{{}}'.format({0})", "'cuda:' + str({0})", "torch.device('cuda', {0})", "torch.device('cuda', index={0})", "torch.device(f'cuda:{{{0}}}')"]  # fmt: skip
SET = ["torch.cuda.set_device({0})", "device = {0}\n    torch.cuda.set_device(device)", "self.device = {0}\n    torch.cuda.set_device(self.device)"]  # fmt: skip


@pytest.mark.parametrize(("device", "call", "number"), crossed(WITH_NUMBER, SET, ["rank", "args.local_rank"], rounds=3))  # fmt: skip
def test_a_device_that_is_set_keeps_its_number(device: str, call: str, number: str) -> None:
    body = call.format(device.format(number))
    text = (
        f"import torch\n\n\ndef f(self, rank, args):\n    {body}\n    return torch.ones(2).cuda()\n"
    )
    assert f"torch.hpu.set_device({number})" in settled(text)[0]
    assert f"set_device({number})" not in settled(text, style="agnostic")[0]
    again = text.replace("    return", "    rank = 3\n    return")
    assert (f"set_device({number})" in settled(again)[0]) == ("." in number)


FLOATING = ["loss = m(x)", "y = m(x).mean()\n    loss = y", "loss = torch.zeros(2, device='cuda')", "loss = torch.tensor(0.5).cuda()", "z = m(x).mean()\n    loss = z.detach()"]  # fmt: skip
WHOLE = ["n = torch.zeros(2, dtype=torch.long).cuda()", "n = m(x).argmax()", "n = count(x)", "n = torch.tensor(3)"]  # fmt: skip


@pytest.mark.parametrize("made", [*FLOATING, *WHOLE])
@pytest.mark.parametrize("call", ["dist.all_reduce({0}, op=dist.ReduceOp.AVG)", "dist.all_reduce({0}, dist.ReduceOp.AVG)"])  # fmt: skip
def test_an_average_of_floats_is_divided_plainly(made: str, call: str) -> None:
    name = "loss" if made in FLOATING else "n"
    text = f"import torch\nimport torch.distributed as dist\n\n\ndef f(m, x):\n    {made}\n    {call.format(name)}\n"
    assert ("rounding_mode" in settled(text)[0]) == (made in WHOLE)
    if made not in FLOATING[:1]:
        assert ("rounding_mode" in settled(text.replace("loss", "value"))[0]) == (made in WHOLE)


@pytest.mark.parametrize("call", ["Trainer({0}, rank)", "Trainer({0}, device=rank)", "engine.Trainer({0}, rank)", "move({0}, rank)", "move({0}, device=rank)"])  # fmt: skip
@pytest.mark.parametrize("given", ["model", "torch.ones(2)"])
def test_a_rank_that_another_file_takes_for_a_device_is_told(call: str, given: str, tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "engine.py").write_text(
        "class Other:\n    pass\n\n\nclass Trainer:\n    def __init__(self, model, device):\n        self.x = model.to(device)\n\n\ndef move(x, device):\n    return x.to(device)\n"
    )
    (tmp_path / "main.py").write_text(
        f"import torch\nimport engine\nfrom engine import Trainer, move\n\n\ndef run(rank, model):\n    torch.cuda.set_device(rank)\n    return {call.format(given)}\n"
    )
    found = migrate([tmp_path], Target(), write=False, jobs=1).files
    (main,) = [file for file in found if str(file.path).endswith("main.py")]
    assert [each.line for each in main.findings if each.code == "HPU105"] == [8]


@pytest.mark.parametrize("call", ["dist.all_gather({0}, x)", "dist.reduce_scatter(x, {0})"])
@pytest.mark.parametrize("part", ["params[i : i + n]", "params[i : min(i + n, 9)]"])
def test_a_parameter_for_each_rank_is_no_batch(call: str, part: str) -> None:
    text = f"import torch\nimport torch.distributed as dist\n\n\ndef f(params, n, x, device):\n    for i in range(0, 9, n):\n        x = x.to(device)\n        {call.format(part)}\n"
    assert not severities(text, "HPU526")
    assert severities(text.replace("dist.", "other."), "HPU526") == ["note"]


FORKS = ["if os.fork() == 0:\n            return r", "child = os.fork()\n        if child == 0:\n            return r", "children.append(fork())"]  # fmt: skip
GROUPS = {
    "torch.distributed.init_process_group('nccl', rank=rank, world_size=n)": True,
    "dist.init_process_group(backend='gloo', rank=rank)": True,
    "torch.cuda.set_device(0)": False,
    "server.init_process_group(rank)": False,
}


@pytest.mark.parametrize(("fork", "group"), crossed(FORKS, list(GROUPS), rounds=3))
def test_processes_for_devices_are_no_forks(fork: str, group: str) -> None:
    text = f"import os\nfrom os import fork\nimport torch\nimport torch.distributed as dist\n\n\ndef launch(n, children):\n    for r in range(n):\n        {fork}\n\n\ndef start(rank, n):\n    {group}\n    return torch.zeros(2).cuda()\n"
    assert ("HPU316" in settled(text)[1]) is GROUPS[group]


COUNTED = ["args.{0} = torch.cuda.device_count()", "cfg.{0} = torch.cuda.device_count() if gpu else 1", "{0} = max(1, torch.cuda.device_count())"]  # fmt: skip
FACTORS = ["batch = args.bs * args.{0}", "lr = args.lr / max(args.{0}, 1)", "loader(batch_size=args.batch_size * args.{0})"]  # fmt: skip


@pytest.mark.parametrize(("counted", "factor", "name"), crossed(COUNTED, FACTORS, ["ngpu", "n_gpu", "num_gpus"], rounds=3))  # fmt: skip
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_count_of_another_file_is_a_factor(
    tmp_path: Path, counted: str, factor: str, name: str, elsewhere: bool
) -> None:
    """Only where the project counts devices under that name."""
    given = name if elsewhere else "other"
    (tmp_path / "setup_run.py").write_text(f"import torch\n\n\ndef start(args, cfg, gpu):\n    {counted.format(given)}\n")  # fmt: skip
    (tmp_path / "data.py").write_text(f"def loaders(args, loader):\n    {factor.format(name)}\n")
    found = {file.path: [f.code for f in file.findings] for file in analyse([tmp_path], Target(), jobs=1).files}  # fmt: skip
    assert ("HPU323" in found.get("data.py", [])) is elsewhere


#: A condition under which a model is wrapped, and whether a run on one device wraps it as well, where nobody sets an option.
CONDITIONS = {
    "n_gpus > 1": False,
    "cfg.NUM_GPUS > 1": False,
    "torch.cuda.device_count() > 1 and cfg.parallel": False,
    "len(gpu_ids) >= 2": False,
    "world_size != 1": False,
    "args.distributed": False,
    "not args.distributed or n_gpus == 1": True,
    "torch.distributed.is_initialized()": False,
    "args.spread": False,
    "torch.cuda.is_available()": True,
    "args.gpu is not None": True,
    "len(names) > 1": True,
    "kind == 'large'": True,
}
PLACES = [
    "    if {condition}:\n        model = {wrapper}\n",
    "    model = {wrapper} if {condition} else model\n",
    "    if not ({condition}):\n        print()\n    else:\n        model = {wrapper}\n",
]


@pytest.mark.parametrize(("condition", "place"), crossed(list(CONDITIONS), PLACES, rounds=3))
@pytest.mark.parametrize("given", ["{}", "{}.float()"])
def test_what_the_model_takes_without_a_wrapper_it_takes_with_one(condition: str, place: str, given: str) -> None:  # fmt: skip
    head = "import argparse\nimport torch\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--spread', action='store_true')\n\n\ndef f(model, loader, args, cfg, kind, names, device):\n"
    made = place.format(condition=condition, wrapper="torch.nn.DataParallel(model)")
    loop = f"    for x, scale in loader:\n        x = x.to(device)\n        model(x, {given.format('scale')})\n"
    assert ("HPU321" in settled(head + made + loop)[1]) == CONDITIONS[condition]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_is_moved_for_a_model_without_a_wrapper_is_moved_for_one_with_it(condition: str) -> None:  # fmt: skip
    """Whoever moves it in the other case alone has seen to it that the wrapper moves it."""
    text = f"import torch\n\n\ndef f(model, loader, args, cfg, gpu):\n    if {condition}:\n        model = torch.nn.DataParallel(model)\n    for x, y in loader:\n        if gpu is not None:\n            x = x.cuda(gpu)\n        y = y.cuda()\n        model(x).backward(y)\n"
    assert "HPU321" in settled(text)[1]
