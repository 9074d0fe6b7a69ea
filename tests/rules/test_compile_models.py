"""Where compile mode puts `torch.compile`: every way of making, moving, wrapping and training a model."""

from __future__ import annotations

import pytest
from crossed import crossed
from test_imports import migrated

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

HEAD = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\nfrom nets import Net, build\n\n"
OPTIMIZERS = (
    "optimizer = torch.optim.SGD({m}.parameters(), lr=0.1)",
    "optimizer = torch.optim.AdamW([p for p in {m}.parameters() if p.requires_grad])",
    "optimizer = torch.optim.Adam([{{'params': {m}.parameters()}}])",
    "params = list({m}.named_parameters())\n    optimizer = torch.optim.Adam([p for _, p in params])",
    "{m}.train()\n    optimizer = build_optimizer({m}, 0.1)",
    "{m}.train()\n    optimizer = {m}.configure_optimizers(0.1)",
    "torch.nn.utils.clip_grad_norm_({m}.parameters(), 1.0)",
    "params = list({m}.parameters())\n    optimizer = torch.optim.SGD(params, lr=0.1)",
    "optimizer = torch.optim.SGD(list({m}.parameters()), lr=0.1)",
    "groups = [{{'params': {m}.parameters(), 'lr': 0.1}}]\n    optimizer = torch.optim.SGD(groups)",
    "groups = {{}}\n    groups['all'] = {m}.parameters()\n    optimizer = torch.optim.SGD(groups['all'])",
    "params = []\n    for p in {m}.parameters():\n        params.append(p)\n    optimizer = torch.optim.SGD(params)",
    "params = []\n    for _, p in {m}.named_parameters():\n        params += [{{'params': [p]}}]\n    optimizer = torch.optim.SGD(params)",
    "params = filter(lambda p: p.requires_grad, {m}.parameters())\n    optimizer = torch.optim.SGD(params)",
    "weights = (p for p in {m}.parameters())\n    optimizer = torch.optim.SGD(weights)",
    "def groups_of(net):\n        return [p for p in net.parameters()]\n    optimizer = torch.optim.SGD(groups_of({m}))",
    "def make(net):\n        return torch.optim.SGD(net.parameters(), lr=0.1)\n    optimizer = make({m})",
    "def make(ps):\n        return torch.optim.SGD(ps, lr=0.1)\n    optimizer = make({m}.parameters())",
    "import functools\n    make = functools.partial(torch.optim.SGD, lr=0.1)\n    optimizer = make({m}.parameters())",
    "optimizer = getattr(torch.optim, name)({m}.parameters(), lr=0.1)",
    "known = {{'sgd': torch.optim.SGD, 'adam': torch.optim.Adam}}\n    optimizer = known['sgd']({m}.parameters())",
    "optimizer = torch.optim.SGD([p for net in [{m}] for p in net.parameters()])",
)
MOVES = (
    "{m} = Net().to(device)",
    "{m} = Net().cuda()",
    "{m} = Net()\n    {m}.to(device)",
    "{m} = Net()\n    {m} = {m}.to(device=device)",
    "{m} = build('a')\n    {m}.cuda().train()",
    "{m} = Net().train().to(device, non_blocking=True)",
)


def compiled(body: str) -> list[str]:
    """The statements, stripped, in front of those that compile something."""
    text = HEAD + "def main(self, device, many):\n    device = torch.device('cuda')\n    " + body
    found = migrated(text + "\n    return 0\n", mode="compile").splitlines()
    return [found[i - 1].strip() for i, line in enumerate(found) if "hpu_backend" in line]


@pytest.mark.parametrize(
    ("move", "optimizer", "name"), crossed(MOVES, OPTIMIZERS, ["model", "self.net"], rounds=2)
)
def test_once_behind_the_move(move: str, optimizer: str, name: str) -> None:
    written = compiled(f"{move}\n    {optimizer}".format(m=name))
    assert len(written) == 1, written
    assert written[0].startswith(name)
    assert ".to(" in written[0]


@pytest.mark.parametrize(
    "wrap",
    [
        "model = DDP(model)",
        "model = DDP(model, device_ids=[0])",
        "if many:\n        model = DDP(model)",
        "ddp = DDP(model)\n    ddp.train()",
        "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)\n    model = DDP(model)",
    ],
)
def test_the_inner_module_is_compiled_before_a_wrapper_takes_it(wrap: str) -> None:
    trained = "ddp" if "ddp" in wrap else "model"
    body = f"model = Net().to(device)\n    {wrap}\n    {OPTIMIZERS[0].format(m=trained)}"
    assert compiled(body) == ["model = Net().to(device)"]


@pytest.mark.parametrize(
    "body",
    [
        "model = DDP(Net().to(device))",
        "model = Net()\n    model = DDP(model.to(device))",
        "model = Net()\n    model = DDP(model)\n    model.to(device)",
        "model = Net().to(device)\n    model, other = build(model)",
        "model = Net().to(device)\n    model = build(model)",
        "model = Net().to(device)\n    model = torch.compile(model, backend='eager')",
        "model = Net()\n    if many:\n        model.cuda()\n    model = model.to(device)",
        "model = Net()\n    for _ in range(2):\n        model.to(device)",
        "model = Net().to('cpu')",
        "model = Net().to(torch.bfloat16)",
    ],
)
def test_nothing_where_the_place_is_not_proved(body: str) -> None:
    assert compiled(f"{body}\n    {OPTIMIZERS[0].format(m='model')}") == []


def test_models_that_do_not_train_are_left() -> None:
    body = f"teacher = Net().to(device)\n    model = Net().to(device)\n    {OPTIMIZERS[0].format(m='model')}"
    assert compiled(body) == ["model = Net().to(device)"]


@pytest.mark.parametrize(
    "body",
    [
        "opt = Net().to(device)\n    build.optimize(opt)",
        "torch.nn.utils.clip_grad_norm_(self.modules.parameters(), 1.0)",
        "optimizer = torch.optim.Adam(self.inner.parameters())",
    ],
)
def test_what_others_own_is_not_spoken_of(body: str) -> None:
    text = f"{HEAD}def main(self, device):\n    device = torch.device('hpu')\n    {body}\n"
    context = Context(Target(mode="compile"), load(), unsafe=False)
    codes = [f.code for f in settle(text, "python", "train.py", context).findings]
    assert "HPU530" not in codes


@pytest.mark.parametrize(
    ("moved", "optimizer"),
    crossed(
        [
            "optimizer_to(optimizer, device)",
            "load_optimizer(optimizer, device=device)",
            "optim_state_to_device(optimizer, where)",
        ],
        OPTIMIZERS,
        rounds=1,
    ),
)
def test_a_device_is_no_model(moved: str, optimizer: str) -> None:
    body = f"where = torch.device('cuda', 0)\n    model = Net()\n    model.to(device)\n    {optimizer.format(m='model')}\n    {moved}\n    print(device.type, where.index)"
    assert compiled(body) == ["model.to(device)"]


@pytest.mark.parametrize(
    ("optimizer", "made"),
    crossed(
        OPTIMIZERS,
        [
            "if many:\n        model = Net().to(device)\n    else:\n        model = build('a').to(device)",
            "if many:\n        model = Net().cuda()\n    elif device:\n        model = build('a').cuda()\n    else:\n        model = build('b').cuda()",
        ],
        rounds=1,
    ),
)
def test_a_model_that_is_built_in_branches_is_compiled_in_each(made: str, optimizer: str) -> None:
    assert len(compiled(f"{made}\n    {optimizer.format(m='model')}")) == made.count("model = ")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_model_that_is_built_in_branches_and_moved_behind_them_is_compiled_once(
    optimizer: str,
) -> None:
    made = "if many:\n        model = Net()\n    else:\n        model = build('a')\n    model = model.to(device)"
    assert compiled(f"{made}\n    {optimizer.format(m='model')}") == ["model = model.to(device)"]


def test_a_package_of_the_same_name_is_no_model() -> None:
    text = (
        "import torch\nimport model\n\ndevice = torch.device('cuda')\nmodel = model.Net().to(device)\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
    )
    assert "model = torch.compile(model, backend='hpu_backend')" in migrated(text, mode="compile")


def test_each_branch_that_moves_is_compiled() -> None:
    body = "model = Net()\n    if many:\n        model.cuda()\n    else:\n        model.to(device)\n    "
    assert len(compiled(body + OPTIMIZERS[0].format(m="model"))) == 2


def test_one_of_several_in_a_container_is_reported() -> None:
    text = f"{HEAD}def main(many):\n    nets = {{'a': Net().cuda()}}\n    torch.optim.SGD(nets['a'].parameters())\n"
    found = settle(text, "python", "train.py", Context(Target(mode="compile"), load())).findings
    assert [(f.line, f.fix) for f in found if f.code == "HPU530"] == [(7, None)]
