"""Lines that rules take out of notebooks leave no empty string in the cell's list."""

from __future__ import annotations

import json

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Style, Target


def _notebook(source: list[str]) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    first = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n"]}
    whole = {"cells": [first, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["x = 1\n", "torch.backends.cudnn.benchmark = True"], ["x = 1"]),
        (["x = 1\n", "torch.cuda.empty_cache()\n", "torch.cuda.empty_cache()"], ["x = 1"]),
        (["x = 1\n", "torch.cuda.empty_cache()\n"], ["x = 1\n"]),
        (["torch.cuda.empty_cache()\n", "x = 1"], ["x = 1"]),
        (["x = 1\n", ""], ["x = 1\n", ""]),
    ],
)
def test_a_deleted_line_leaves_no_empty_string(before: list[str], after: list[str]) -> None:
    context = Context(Target(), load())
    settled = settle(_notebook(before), "notebook", "a.ipynb", context).text
    assert settled == _notebook(after)
    assert settle(settled, "notebook", "a.ipynb", context).text == settled


@pytest.mark.parametrize("magics", range(1, 24))
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_what_a_later_pass_changes_is_looked_up_in_the_first_text(
    magics: int, style: Style
) -> None:
    """The cells move while passes go on: a place may then have the number that a line of no Python had."""
    cells = [
        ["import torch\n"],
        ["net = make()\n", "net.cuda()\n", "x = torch.ones(2).cuda()"],
        ["".join(f"!ls {'a' * magics}\n"), "y = 1\n", "!ls"],
        ["batch = stack(x).cuda()\n", "net(batch).sum().backward()"],
    ]
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in cells
    ]
    whole = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    context = Context(Target(style=style), load())
    after = settle(json.dumps(whole, indent=1) + "\n", "notebook", "a.ipynb", context).text
    text = "\n".join("".join(cell["source"]) for cell in json.loads(after)["cells"])
    assert ".cuda()" not in text
    assert "default_device()" not in text or "def default_device" in text
    assert "(ACCELERATOR)" not in text or "ACCELERATOR = " in text
    assert settle(after, "notebook", "a.ipynb", context).text == after


WRITES = ["%%writefile {0}", "%%writefile -a {0}", "%%file {0}", "# the settings\n%%writefile {0}", '\n%%writefile "{0}"  ']  # fmt: skip
BODIES = {
    '_C = Node()\n_C.DEVICE = "cuda"\n': '_C = Node()\n_C.DEVICE = "hpu"\n',
    "import torch\n\nx = torch.ones(2).cuda()": 'import torch\n\nx = torch.ones(2).to("hpu")',
    "import torch\n\ntorch.cuda.empty_cache()\nx = torch.ones(2)\n": "import torch\n\nx = torch.ones(2)\n",
    "from __future__ import annotations\n\nimport torch\n\nnet = torch.nn.Linear(2, 2).cuda()\nnet(x).sum().backward()\noptimizer.step()": None,
    "x = (\n": "x = (\n",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("magic", WRITES)
@pytest.mark.parametrize("listed", [True, False])
def test_a_python_file_that_a_cell_writes_is_a_module_by_itself(magic: str, body: str, listed: bool) -> None:  # fmt: skip
    sources = ["import torch\n\nprint(DEVICE)\n", f"{magic.format('lib/conf.py')}\n{body}", "x = torch.ones(2).cuda()"]  # fmt: skip

    def made(sources: list[str]) -> str:
        cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True) if listed else text} for text in sources]  # fmt: skip
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"  # fmt: skip

    context = Context(Target(), load())
    done = settle(made(sources), "notebook", "a.ipynb", context)
    expected = BODIES[body] or settle(body, "python", "lib/conf.py", context).text
    sources[1:] = [f"{magic.format('lib/conf.py')}\n{expected}", 'x = torch.ones(2).to("hpu")']
    assert done.text == made(sources)
    assert settle(done.text, "notebook", "a.ipynb", context).text == done.text
    told = [each for each in done.findings if each.message.endswith("(cell 2)")]
    assert bool(told) == (body != "x = (\n")
    other = made(["import torch\n", f"{magic.format('notes.txt')}\n{body}"])
    assert settle(other, "notebook", "a.ipynb", context).text == other
