"""What is an optimizer, a scaler, a step: by whatever way a value comes, and whatever class of the project it is made with."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from test_imports import migrated
from test_marks import HEAD, marks, project_marks

#: What a thing is made with, and whether its step is one of training.
MADE = {
    "torch.optim.Adam(net.parameters())": True,
    "Mine(net.parameters())": True,
    "deepspeed.initialize(model=net)[0]": True,
    "torch.optim.lr_scheduler.StepLR(first, 3)": False,
    "torch.distributed.optim.DistributedOptimizer(Adam, remote)": False,
    "gym.make('CartPole-v1')": False,
    "profiler(3)": False,
}
#: Ways from there to the step.
WAYS = (
    "thing = {made}\n{step}",
    "thing, other = {made}, 3\n{step}",
    "things = [{made}]\nfor thing in things:\n    {step}",
    "things = {{'a': {made}}}\nfor name, thing in things.items():\n    {step}",
    "things = {{'a': {made}}}\nthing = things['a']\n{step}",
    "for thing, other in zip([{made}], [1]):\n    {step}",
    "def build():\n    return {made}, 3\nthing, _ = build()\n{step}",
    "def run(thing):\n    {step}\nrun({made})",
    "def run(*things):\n    for thing in things:\n        {step}\nrun({made})",
    "class Box:\n    def __init__(self):\n        self.thing = {made}\n    def go(self):\n        thing = self.thing\n        {step}",
    "thing = {made} if fast else None\n{step}",
    "build = lambda: {made}\nthing = build()\n{step}",
    "with enter({made}) as other, other:\n    thing = {made}\n    {step}",
)
_CLASSES = "import deepspeed\nclass Mine(torch.optim.SGD):\n    pass\nx.cuda()\n"


@pytest.mark.parametrize(("way", "made"), crossed(WAYS, MADE, rounds=3))
def test_what_a_thing_was_made_with_says_whether_its_step_is_marked(made: str, way: str) -> None:
    text = HEAD + _CLASSES + way.format(made=made, step="thing.step()") + "\n"
    assert migrated(text, mode="lazy").count("mark_step") == MADE[made]


#: Classes of another file, and whether ``step`` of their objects is an update that the caller marks.
BASES = {
    "torch.optim.Optimizer": True,
    "torch.optim.AdamW": True,
    "Middle": True,
    "object": False,
    "lr_scheduler.LRScheduler": False,
}


@pytest.mark.parametrize("base", BASES)
def test_a_class_of_the_project_is_what_its_bases_are(tmp_path: Path, base: str) -> None:
    files = {
        "middle.py": "import torch\nclass Middle(torch.optim.Optimizer):\n    pass\n",
        "own.py": f"import torch\nfrom middle import Middle\nclass Own({base}):\n    pass\n",
        "train.py": "import torch\nfrom own import Own\nthing = Own(net.cuda().parameters())\nthing.step()\n",
    }
    assert project_marks(tmp_path, files)["train.py"] == ["thing.step()"] * BASES[base]


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("a_optim.step()\nb_optim.step()\nc_optim.step()", ["c_optim.step()"]),
        ("a_optim.step()\na_optim.zero_grad()\nb_optim.step()", ["b_optim.step()"]),
        ("a_optim.step()\nx = f(x)\nb_optim.step()", ["a_optim.step()", "b_optim.step()"]),
        ("a_optim.step()\nloss.backward()", ["a_optim.step()", "loss.backward()"]),
        ("a_optim.step()\nif x:\n    b_optim.step()", ["a_optim.step()", "b_optim.step()"]),
    ],
)
def test_updates_in_a_row_share_the_mark_behind_the_last(body: str, marked: list[str]) -> None:
    assert marks(body) == marked


#: What is said of float16 where another place turns it, and what ``--unsafe`` makes of it.
FOLLOWS = {
    "y = x.dtype == torch.float16": "y = x.dtype == torch.bfloat16",
    "y = x.dtype in (torch.half, torch.float32)": "y = x.dtype in (torch.bfloat16, torch.float32)",
    "y = {torch.float16: 1}[x.dtype]": "y = {torch.bfloat16: 1}[x.dtype]",
    "y = torch.finfo(torch.float16).min": "y = torch.finfo(torch.bfloat16).min",
    "y = x.dtype in (torch.float16, torch.bfloat16)": "",
    "y = {torch.float16: 1, torch.bfloat16: 2}": "",
}


@pytest.mark.parametrize("asked", FOLLOWS)
@pytest.mark.parametrize("made", ["x = x.to(torch.float16)", "x = torch.ones(2, dtype=torch.half)"])
def test_what_asks_about_float16_turns_with_it(made: str, asked: str) -> None:
    text = f"import torch\n\nx = torch.ones(3, device='hpu')\n{made}\n{asked}\n"
    assert migrated(text) == text
    found = migrated(text, unsafe=True)
    assert "bfloat16" in found.splitlines()[3]
    assert found.splitlines()[4] == (FOLLOWS[asked] or asked)


@pytest.mark.parametrize("given", ["optimizer", "state.optimizer_d", "self.optims['g']", "torch.optim.SGD(net.parameters())"])  # fmt: skip
@pytest.mark.parametrize(
    "holder",
    ["accel = package.Accelerator(amp=True)", "accel = Engine()", "accel = get_trainer(3)", "accel = self.accelerator", "pass"],
)  # fmt: skip
def test_a_step_that_is_handed_an_optimizer_is_one(holder: str, given: str) -> None:
    step = f"accel.step({given})"
    assert marks(f"{holder}\n{step}") == [step]


#: Classes whose names hold a word for what steps and is no optimizer.
ODD = ("schedulefree.AdamWScheduleFree", "WarmupMuonWrapper", "AgentMomentum", "tools.AnnealedDescent", "SchedulerFreeMomentum")  # fmt: skip
CLEARING = (
    "optimizer = {made}\n{loop}",
    "def train(optimizer):\n    {loop}\ntrain({made})",
    "def train(net, optimizer):\n    {loop}\noptimizer = {made}\ntrain(net, optimizer)",
    "class Box:\n    def __init__(self):\n        self.optimizer = {made}\n    def go(self, optimizer):\n        {loop}\nBox().go({made})",
)


@pytest.mark.parametrize("way", CLEARING)
@pytest.mark.parametrize("made", ODD)
def test_what_is_called_an_optimizer_and_cleared_is_one_whatever_its_class_is_called(
    way: str, made: str
) -> None:
    def text(loop: str) -> str:
        lines = way.format(made=f"{made}(net.parameters())", loop="@")
        spaces = next(line for line in lines.splitlines() if "@" in line).partition("@")[0]
        return lines.replace("@", loop.replace("\n", f"\n{spaces}"))

    cleared = "optimizer.zero_grad()\nnet(x).sum().backward()\noptimizer.step()"
    assert marks(f"{_CLASSES}import schedulefree, tools\n{text(cleared)}\n") == [
        "net(x).sum().backward()",
        "optimizer.step()",
    ]
    alone = "net(x).sum().backward()\noptimizer.step()"
    assert marks(f"{_CLASSES}import schedulefree, tools\n{text(alone)}\n") == [
        "net(x).sum().backward()"
    ]
