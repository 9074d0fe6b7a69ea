"""The work on a file grows with what is in it: counted in calls, which a busy machine does not change."""

from __future__ import annotations

import sys
import time

import pytest

from hpushim.codemods.edits.floor import documented
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

#: What a file begins with, and what comes again and again: ``{n}`` is its number, ``{m}`` the next.
FORMS = {
    "one attribute": ("class C:\n  def f(self, x):\n", "    self.device = 'cuda'\n    x.to(self.device)\n"),
    "attributes, each of the last": ("class C:\n  def f(self, x):\n    self.a0 = 'cuda'\n", "    self.a{m} = self.a{n}\n    x.to(self.a{m})\n"),
    "attributes of other objects": ("def f(o, x):\n", "    o.device = x.device\n    x = x.to(o.device)\n    if o.device.type == 'cuda': x.item()\n"),
    "an attribute of its own value": ("class C:\n  def f(self, x):\n", "    self.x = self.x.cuda() + x\n"),
    "classes of one base each": ("class C0:\n  def __init__(self): self.device = 'cuda'\n", "class C{m}(C{n}):\n  def f(self, x): return x.to(self.device)\n"),
    "methods": ("class C:\n  def __init__(self): self.device = 'cuda'\n", "  def f{n}(self, x):\n    self.y{n} = x.to(self.device)\n"),
    "names, each of the last": ("x_0 = 'cuda'\n", "x_{m} = x_{n}\ny.to(x_{m})\n"),
    "keys of one table": ("t = {}\n", "t['k{n}'] = 'cuda'\nx.to(t['k{n}'])\n"),
    "one key": ("t = {}\n", "t['k'] = 'cuda'\nx.to(t['k'])\n"),
    "tables in one attribute": ("class C:\n  def f(self, x):\n", "    self.t = {{'device': 'cuda'}}\n    x.to(self.t['device'])\n"),
    "loops": ("", "for x in range({n}):\n    y = y.cuda()\n    if y.device.type == 'cuda': y.item()\n"),
    "calls": ("def f(x, device): return x.to(device)\n", "y{n} = f(x, 'cuda')\n"),
    "programs in a list": ("P = [\n", "    [python, '-c', 'import torch; x{n} = torch.ones(2).cuda()'],\n"),
    "texts in a list": ("P = [\n", "    'import torch; x{n} = torch.ones(2).cuda()',\n"),
    "a sum of texts": ("P = (\n", "    'import torch; x{n} = torch.ones(2).cuda()' +\n"),
    "moves, each of the last": ("def f(y):\n", "    y = y.cuda()\n    if y.is_cuda:\n        y = y + 1\n"),
    "functions": ("", "def f{n}(x, y):\n    for i in range(3): x = x[i > 0].cuda() + y.item()\n    return x\n"),
}  # fmt: skip


#: Each asks for all before it. A sum is as deep as it is long, which Python bounds at some hundred parts.
_SQUARES = ("a sum of texts",)
_ENDS = {"P = [\n": "]\n", "P = (\n": "'')\n"}


@pytest.mark.parametrize("form", FORMS)
def test_four_times_as_much_is_four_times_the_work(form: str) -> None:
    head, part = FORMS[form]
    context = Context(Target(), load())

    def calls(count: int) -> int:
        text = f"import torch\n{head}" + "".join(part.format(n=n, m=n + 1) for n in range(count))
        text += _ENDS.get(head, "")
        found = 0

        def note(_frame: object, event: str, _argument: object) -> None:
            nonlocal found
            found += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            assert examine(text, "python", "a.py", context)
        finally:
            sys.setprofile(before)
        return found

    calls(3)  # what is kept for all files
    assert calls(160) < (17 if form in _SQUARES else 4.4) * calls(40)


@pytest.mark.parametrize("size", [1, 2, 3, 600])
@pytest.mark.parametrize("form", ["{}.f()", "{}.y", "{}.f().y[0]", "f({})", "{}[0]", "({}, 1)", "{} + 1", "lambda: {}"])  # fmt: skip
@pytest.mark.parametrize("asked", ["{}.is_cuda", "{}.cuda()", "{}.half()", "{}.to('cuda')", "f(device={})", "{}.device == 'cuda'"])  # fmt: skip
def test_values_made_of_each_other_in_a_circle(size: int, form: str, asked: str) -> None:
    """Also in a circle longer than Python recurses."""
    circle = "".join(f"x{n} = {form.format(f'x{(n + 1) % size}')}\n" for n in range(size))
    text = f"import torch\n{circle}if {asked.format('x0')}: pass\n"
    found = examine(text, "python", "a.py", Context(Target(), load()))
    assert not [each.message for each in found if each.code == "HPU004"]


@pytest.mark.parametrize(
    "line",
    [
        "_",
        "a,",
        "a ",
        "[`*_",
        "1.",
        "a 1.1,",
        "- ",
        "*_",
        " ",
        "\t ",
        "python ",
        "torch",
        " versions ",
    ],
)
@pytest.mark.parametrize("name", ["torch", "python", "python version", "torchvision 0.9"])
def test_a_long_line_of_a_document_is_read_at_once(line: str, name: str) -> None:
    before = time.process_time()
    assert len([*documented(f"torch\n{line * 20_000}\n{name}{line * 20_000}|\n")]) < 2
    assert time.process_time() - before < 3
