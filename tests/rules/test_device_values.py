"""What holds a device, and where its text goes, by the ways of values: load-time rewriting and ``migrate`` agree."""

from __future__ import annotations

import ast
from itertools import product

import pytest
from test_comparisons import SPELLED

from hpushim.compare import find
from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.pycode.source import Source


def settled(text: str) -> Settled:
    context = Context(Target(mode="eager"), load(), ALONE)
    return settle(text, "python", "train.py", context)


def migrated(code: str) -> str:
    return settled(f"import torch\n{code}").text.removeprefix("import torch\n")


#: What a comparison is given, and the ways that it comes there: ``{0}`` is the value, ``ask({1})`` the comparison.
READINGS = ["x.device.type", "str(x.device)", "torch.zeros(1).device.type", 'getattr(x.device, "type")', "(x.device).type", "f'{x.device}'"]  # fmt: skip
WAYS = {
    "itself": "if {1}:\n    ask()",
    "a name": "kind = {0}\nif {1}:\n    ask()",
    "walrus": "if {1}:\n    ask(kind)",
    "an item": "kinds = [{0}]\nif {1}:\n    ask()",
    "a pair": "kind, n = {0}, 1\nif {1}:\n    ask()",
    "an entry": 'table = {{"kind": {0}}}\nif {1}:\n    ask()',
    "a loop": "for kind in [{0}]:\n    if {1}:\n        ask()",
    "a comprehension": "all([{1} for kind in [{0}]])",
    "a loop over a comprehension": "for kind in [{0} for x in xs]:\n    if {1}:\n        ask()",
    "a parameter": "def g(kind):\n    return {1}\ng({0})",
    "a parameter by name": "def g(*, kind=None):\n    return {1}\ng(kind={0})",
    "what a function returns": "def g():\n    return {0}\nif {1}:\n    ask()",
    "an attribute": "class A:\n    def f(self, x):\n        self.kind = {0}\n    def g(self):\n        return {1}",
    "a choice": "kind = {0} if c else {0}\nif {1}:\n    ask()",
    "a guard": "match n:\n    case 1 if {1}:\n        ask()",
    "a match": "match {0}:\n    case kind if {1}:\n        ask()",
    "a global": "def g():\n    global kind\n    kind = {0}\ndef f():\n    return {1}",
}
SUBJECTS = {
    "itself": "{0}", "walrus": "(kind := {0})", "an item": "kinds[0]", "an entry": 'table["kind"]', "an attribute": "self.kind",
    "what a function returns": "g()", "a guard": "{0}",
}  # fmt: skip
COMPARED = ['{0} == "cuda"', '"cuda" != {0}', '{0} in ("cuda", "cpu")', '{0}.startswith("cuda")']


def programs() -> list[str]:
    found = []
    for way, reading, compared in product(WAYS, READINGS, COMPARED):
        subject = SUBJECTS.get(way, "kind").format(reading)
        found.append(WAYS[way].format(reading, compared.format(subject)) + "\n")
    return found


@pytest.mark.parametrize("code", programs())
def test_a_reading_is_compared_with_hpu(code: str) -> None:
    assert migrated(code) == code.replace('"cuda"', '"hpu"')


@pytest.mark.parametrize("code", [*programs(), *(case.code for case in SPELLED)])
def test_where_run_is_sure_migrate_turns_or_tells(code: str) -> None:
    """At the place, or at the text that is compared there by a name."""
    text = f"import torch\n{code}"
    sure = [one for one in find(Source(text)) if one.sure and not one.handled]
    assert sure
    told = {found.line for found in settled(text).findings}
    for one in sure:
        lines = set(range(one.line, (one.node.end_lineno or 0) + 1))
        assert lines & told or (not one.texts and told), ast.unparse(one.node)


OTHERS = ["given", "n.type()", '"cuda_time"', "load(x)", "len(xs)"]


@pytest.mark.parametrize(("way", "other"), product(WAYS, OTHERS))
def test_a_word_that_is_no_device_stays(way: str, other: str) -> None:
    subject = SUBJECTS.get(way, "kind").format(other)
    code = WAYS[way].format(other, f'{subject} == "cuda"') + "\n"
    assert migrated(code) == code


#: Texts that go to a device and are compared on the way: both turn.
CHOSEN = {
    "a loop": 'for kind in ["cpu", "cuda"]:\n    y = torch.zeros(3, device=kind)\n    if kind == "cuda":\n        ask()\n',
    "a loop over a name": 'KINDS = ("cpu", "cuda")\nfor kind in KINDS:\n    y = torch.zeros(3, device=kind)\n    if kind == "cuda":\n        ask()\n',
    "an enumeration": 'import enum\nclass Kind(str, enum.Enum):\n    CUDA = "cuda"\n    CPU = "cpu"\ny = torch.zeros(3, device=Kind.CUDA.value)\n',
    "a parameter": 'def f(kind="cuda"):\n    if kind == "cuda":\n        ask()\n    return torch.zeros(3, device=kind)\n',
    "an entry": 'cfg = {"where": "cuda"}\ny = torch.zeros(3, device=cfg["where"])\nif cfg["where"] == "cuda":\n    ask()\n',
    "an item": 'where = ["cuda", "cpu"]\ny = torch.zeros(3, device=where[0])\n',
    "a field": 'class A:\n    place = "cuda"\n    def f(self):\n        return torch.zeros(3, device=self.place)\n',
    "what a function returns": 'def place():\n    return "cuda"\ny = torch.zeros(3, device=place())\n',
    "an option": 'p.add_argument("--place", default="cuda")\nargs = p.parse_args()\ny = torch.zeros(3, device=args.place)\n',
}  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_a_text_and_what_it_is_compared_with_turn_together(name: str) -> None:
    assert migrated(CHOSEN[name]) == CHOSEN[name].replace('"cuda"', '"hpu"')


SPELLINGS = ['"cuda" + ":" + str(i)', '"cuda:" + str(i)', '("cuda" + ":") + str(i)', 'f"cuda:{i}"', '"cuda:%d" % i']  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_texts_that_are_put_together(text: str) -> None:
    assert migrated(f"y = torch.device({text})\n") == 'y = torch.device("hpu")\n'


@pytest.mark.parametrize("name", ["device_id", "gpu", "rank", "gpu_id"])
@pytest.mark.parametrize("value", ["x.device", 'torch.device("cpu")', "model.device"])
def test_a_device_under_the_name_of_a_card_is_none(name: str, value: str) -> None:
    code = f"def f(x, y, model):\n    {name} = {value}\n    return y.to({name})\n"
    assert migrated(code) == code


@pytest.mark.parametrize("read", ["int({0}[-1])", '{0}.split(":")[1]', "{0}[5:]"])
def test_an_index_that_is_read_stays(read: str) -> None:
    code = f'device = "cuda:1"\ny = torch.zeros(3, device=device)\nn = {read.format("device")}\n'
    assert 'device = "hpu:0"' in migrated(code)


@pytest.mark.parametrize("call", ["Handle().cuda(1)", "h.cuda(2)", "self.h.cuda(3)"])
def test_a_method_of_the_project_stays(call: str) -> None:
    code = (
        "class Handle:\n    def cuda(self, n):\n        return n\nh = Handle()\nclass A:\n    def __init__(self):\n        self.h = Handle()\n"
        f"    def f(self):\n        return {call}\n"
    )
    assert migrated(code) == code


@pytest.mark.parametrize("code", ["move = x.cuda if c else x.cpu\n", "moves = [x.cuda, x.cpu]\n", "f(move=x.cuda)\n"])  # fmt: skip
def test_a_method_that_is_not_called_is_told(code: str) -> None:
    assert settled(f"import torch\n{code}").findings


@pytest.mark.parametrize(
    "head",
    ["from torch import *\n", "torch, nn = try_import_torch()\n", "torch = import_torch()\n"],
)
def test_torch_that_comes_otherwise(head: str) -> None:
    name = "" if "*" in head else "torch."
    code = f'{head}d = {name}device("cuda" if {name}cuda.is_available() else "cpu")\n'
    assert "cuda" not in settled(code).text
