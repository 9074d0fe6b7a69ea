"""What is an optimizer, a scaler, a step: by whatever way a value comes, and whatever class of the project it is made with."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_imports import migrated
from test_marks import HEAD, project_marks

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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", MADE)
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
