"""Boolean masks, however the mask is made and whatever it is called."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

MADE = {
    "{0} = x > 0": True,
    "{0} = x.max(1)[0] < self.limit": True,
    "{0} = (x == 2)": True,
    "{0} = torch.stack((x > 1, x > 2))": True,
    "{0} = torch.cat([x > 1, torch.ones_like(x > 1)])": True,
    "{0} = (x > 1).repeat(3)": True,
    "{0}, other = ((x % 1 < 2) & (x > 1)).T": True,
    "{0} = x.argmax(1)": False,
    "{0} = 3": False,
    "{0} = torch.stack((x, x))": False,
    "{0} = self.limit > 3": False,
}
NAMES = ["j", "k", "idx", "index", "picked", "i"]
TAKEN = ["y = y[{0}]", "y, z = y[{0}], z[{0}]", "y = y.repeat((5, 1, 1))[{0}]", "y[{0}] = z[{0}]"]


def told(body: str) -> bool:
    """Is there a finding of a size that the data decide in a step of a module?"""
    text = f"import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, y, z, batch):\n        x, y, z = x * torch.ones(2), y * torch.ones(3), z * torch.ones(2)\n{body}        return y\n"
    return "HPU515" in {
        f.code for f in examine(text, "python", "net.py", Context(Target(), load()))
    }


@pytest.mark.parametrize(("made", "name", "taken"), crossed(list(MADE), NAMES, TAKEN, rounds=4))
def test_a_mask_by_how_it_is_made(made: str, name: str, taken: str) -> None:
    if made == "{0} = torch.stack((x, x))" and "repeat" in taken:
        return
    body = f"        {made.format(name)}\n        {taken.format(name)}\n"
    assert told(body) == MADE[made]


@pytest.mark.parametrize("inner", ['batch["valid"] > 0', "batch['reg'] == 1", "x[0] > 2", "~(x[:, 1] < 3)", "x[0].argmax()", 'batch["at"]'])  # fmt: skip
@pytest.mark.parametrize("taken", ["y = y[{0}]", "z = y.float()[{0}].contiguous()", "y[{0}] = 0"])
def test_a_mask_that_is_made_of_a_part(inner: str, taken: str) -> None:
    assert told(f"        {taken.format(inner)}\n") == any(sign in inner for sign in "<>=")


@pytest.mark.parametrize("given", ["self.make({0})", "make({0})", "self.parts['mask']({0}.shape)", "self.make.random({0}.shape)"])  # fmt: skip
@pytest.mark.parametrize("name", ["mask", "condition_mask", "masks", "order"])
def test_a_mask_that_a_function_gives(given: str, name: str) -> None:
    body = f"        {name} = {given.format('x')}\n        y = y[{name}]\n"
    assert told(body) == ("mask" in name)
    assert not told(body.replace(given.format("x"), "len(x)"))
