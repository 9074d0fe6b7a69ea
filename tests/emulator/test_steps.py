"""The hook behind the steps of a ledger changes no run, and its memory is bounded."""

from __future__ import annotations

import json

from hpushim.emulator.steps import COUNTED, MOST_ENTRIES, Timeline, joined

HOOKED = """
import hpushim.emulator
hpushim.emulator.enable()
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

called = []
model = torch.nn.Linear(2, 2).to("hpu")
other = torch.nn.Linear(2, 2).to("hpu")
first = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.Adam(other.parameters(), lr=0.1)
once = register_optimizer_step_pre_hook(lambda *_: (called.append("global once"), once.remove())[0])
register_optimizer_step_post_hook(lambda *_: called.append("global post"))
own = first.register_step_pre_hook(lambda *_: (called.append("own pre"), own.remove())[0])
first.register_step_post_hook(lambda *_: called.append("own post"))
second.register_step_pre_hook(lambda optimizer, args, kwargs: (args, kwargs))
for _ in range(3):
    (model(torch.ones(1, 2, device="hpu")).sum() + other(torch.ones(1, 2, device="hpu")).sum()).backward()
    first.step()
    second.step(closure=None)
    first.zero_grad(); second.zero_grad()
assert (called.count("own post"), called.count("global post")) == (3, 6), called
assert (called.count("own pre"), called.count("global once")) == (1, 1), called

class Wrapper(torch.optim.Optimizer):  # an optimizer that has another one step, and one that fails
    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner.param_groups, {})
    def step(self, closure=None):
        return self.inner.step(closure)

class Failing(torch.optim.SGD):
    def step(self, closure=None):
        raise KeyError("mine")

Wrapper(first).step()
try:
    Failing(model.parameters(), lr=0.1).step()
except KeyError:
    pass
compiled = torch.compile(first.step, backend="eager")
compiled()
torch.save(first.state_dict(), "{0}/first.pt")
import copy, pickle
copy.deepcopy(second); pickle.loads(pickle.dumps(second))
"""


def test_optimizers_with_hooks_run_as_they_do_without_a_ledger(run, tmp_path):
    """Hooks of the program's own, that remove themselves while torch goes through them; optimizers in optimizers."""
    path = tmp_path / "ledger.json"
    run(HOOKED.replace("{0}", str(tmp_path)))
    run(HOOKED.replace("{0}", str(tmp_path)), HPUSHIM_LEDGER=str(path))
    steps = json.loads(path.read_text())["steps"]
    assert steps["count"] in (7, 8), (
        "3 + 3, one by a wrapper and not two; the compiled one may be traced"
    )
    assert steps["optimizers"] == 2


def test_an_optimizer_of_another_make_is_left_alone(run, tmp_path):
    """Without param_groups, as some libraries have them: nothing is raised, the step is counted."""
    code = """
    import hpushim.emulator
    hpushim.emulator.enable()
    import torch
    class Odd(torch.optim.Optimizer):
        def __init__(self):
            super().__init__([torch.ones(1)], {})
            self.param_groups = None
        def step(self):
            return 5
    odd = Odd()
    assert odd.step() == 5
    """
    run(code, HPUSHIM_LEDGER=str(tmp_path / "ledger.json"))


def entry(step: int) -> dict[str, int]:
    return {
        "step": step,
        "steps": 1,
        "in_use_bytes": step,
        "peak_bytes": step % 7,
        **dict.fromkeys(COUNTED, 1),
    }


#: From which step on an entry holds how many; each time that there are too many, twice as many.
STRIDES = [(4082, 32), (2042, 16), (1022, 8), (512, 4), (257, 2), (1, 1)]


def test_a_long_run_is_kept_in_few_entries():
    line = Timeline()
    for step in range(1, 5001):
        line._add(entry(step))
        stride = next(stride for start, stride in STRIDES if step >= start)
        assert {one["steps"] for one in line.entries[1:-1]} <= {stride}, step
    assert len(line.entries) <= MOST_ENTRIES
    assert line.entries[0]["steps"] == 1, "the first step stays alone"
    assert sum(one["steps"] for one in line.entries) == 5000
    assert sum(one["operators"] for one in line.entries) == 5000
    starts = [one["step"] for one in line.entries]
    assert starts == sorted(set(starts)) and line.entries[-1]["in_use_bytes"] == 5000


def test_two_entries_as_one():
    both = joined(entry(6), entry(7))
    assert (both["step"], both["steps"], both["host_syncs"]) == (6, 2, 2)
    assert (both["peak_bytes"], both["in_use_bytes"]) == (6, 7)
