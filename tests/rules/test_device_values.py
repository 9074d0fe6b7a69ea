"""What holds a device, and where its text goes, by the ways of values: load-time rewriting and ``migrate`` agree."""

from __future__ import annotations

import ast
from itertools import product

import pytest
from crossed import crossed
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
    for way, reading, compared in crossed(WAYS, READINGS, COMPARED, rounds=4):
        subject = SUBJECTS.get(way, "kind").format(reading)
        found.append(WAYS[way].format(reading, compared.format(subject)) + "\n")
    return found


@pytest.mark.parametrize("code", programs())
def test_a_reading_is_compared_with_hpu(code: str) -> None:
    assert migrated(code) == code.replace('"cuda"', '"hpu"')


OTHERS = ["given", "n.type()", '"cuda_time"', "load(x)", "len(xs)"]


@pytest.mark.parametrize(("way", "other"), crossed(WAYS, OTHERS, rounds=2))
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


#: How a file may get torch other than by an import at its top; each binds ``th``.
HANDED = {
    "returned": "def load():\n    import torch as t\n    return t\nth = load()",
    "of two": "def load():\n    import torch\n    return torch, torch.nn\nth, nn = load()",
    "where it is there": "def load():\n    try:\n        import torch\n    except ImportError:\n        return None, None\n    return torch, 1\nth, n = load()",
    "by number": "def load():\n    import torch as t\n    return 1, t\nth = load()[1]",
    "in a table": 'def load():\n    import torch as t\n    return {"t": t}\nth = load()["t"]',
    "of an object": "import types\ndef load():\n    import torch as t\n    return types.SimpleNamespace(t=t)\nth = load().t",
    "by a method": "class Box:\n    def __init__(self):\n        import torch\n        self.t = torch\n    def get(self):\n        return self.t\nth = Box().get()",
    "as a global": "th = None\ndef load():\n    global th\n    import torch\n    th = torch\nload()",
    "by name": 'import importlib\ndef load():\n    return importlib.import_module("torch"), 1\nth, n = load()',
    "as an argument": "import torch as tt\ndef same(t):\n    return t\nth = same(tt)",
}
USED = {
    "check": 'd = th.device("cuda" if th.cuda.is_available() else "cpu")',
    "call": "th.cuda.synchronize()",
    "function": "n = {0: th.cuda.device_count}",
}  # fmt: skip


@pytest.mark.parametrize(("handed", "used"), list(product(HANDED, USED)))
def test_torch_that_is_handed_on(handed: str, used: str) -> None:
    assert "cuda" not in migrated(f"{HANDED[handed]}\n{USED[used]}\n")


@pytest.mark.parametrize("looked", ["", "if hasattr(torch, 'compile'):\n    x = getattr(torch, 'compile')\n"])  # fmt: skip
def test_a_part_of_torch_that_getattr_may_give(looked: str) -> None:
    """What only looks at torch makes no difference."""
    code = f"import torch\n{looked}def f(kind):\n    m = getattr(torch, kind, torch.cuda)\n    m.synchronize()\n"
    assert "torch.hpu.synchronize()" in migrated(code)


def test_what_may_be_another_package_is_not_torch() -> None:
    code = "import torch, numpy\ndef same(t):\n    return t\nth = same(torch)\nth = same(numpy)\nth.cuda.synchronize()\n"
    assert "th.cuda" in migrated(code)


#: A device's text, and what programs do with it; ``{0}`` is the text, and every word of CUDA's turns.
HELD = {"a reading": "str(x.device)", "a text": "device", "an argument": "f(x, 'cuda:0')"}
DONE = {
    "split": 'kind, n = {0}.split(":")\nask(kind == "cuda")',
    "partition": 'kind, _, n = {0}.partition(":")\nask(kind == "cuda")',
    "begins": 'ask({0}.startswith("cuda:"), {0}.removeprefix("cuda:"), {0}.replace("cuda:", ""))',
    "begins by a name": 'START = "cuda:"\nask({0}.startswith(START), {0}[len(START):])',
    "letters": 'ask({0}.upper() == "CUDA", {0}.title() == "Cuda")',
    "a match": 'm = re.match(r"(cuda):(\\d+)", {0})\nask(m.group(1) == "cuda")',
    "a pattern": 'P = re.compile(r"cuda:(\\d+)")\nask(P.fullmatch({0}))',
    "an enumeration": 'class K(str, enum.Enum):\n    CUDA = "cuda"\n    CPU = "cpu"\nask(K({0}) is K.CUDA)',
    "a larger text": 'ask(f"run-{{{0}}}" == "run-cuda")',
    "labels": 'LABELS = {{"cuda": "A", "cpu": "B"}}\nask(LABELS[{0}])',
    "a register": 'TABLE = {{}}\ndef register(kind):\n    def add(f):\n        TABLE[kind] = f\n        return f\n    return add\n'
    '@register("cuda")\ndef g(x):\n    return x\nTABLE[{0}](x)',
    "a count": 'ask(collections.Counter([{0}]).most_common(1)[0][0] == "cuda", [{0}].count("cuda"))',
    "groups": 'groups = {{k: list(g) for k, g in itertools.groupby(xs, key=lambda x: {0})}}\nask(groups["cuda"])',
    "sets": 'ask({{{0}}} & {{"cuda"}}, {{"cuda"}}.issubset([{0}]))',
    "a guard": 'match {0}.split(":"):\n    case ["cuda", n]:\n        ask(n)',
}  # fmt: skip


@pytest.mark.parametrize(("held", "done"), list(product(HELD, DONE)))
def test_what_is_done_with_a_device_text_turns_with_it(held: str, done: str) -> None:
    head = "import re, enum, collections, itertools\ndef f(x, device):\n    torch.zeros(1, device=device)\n    return device\n"
    head += 'device = "cuda:0"\ny = torch.zeros(1, device=device)\n' if held == "a text" else ""
    code = head + DONE[done].format(HELD[held]) + "\n"
    after = code.replace("cuda", "hpu").replace("CUDA", "HPU").replace("Cuda", "Hpu")
    assert migrated(code) == after.replace("HPU = ", "CUDA = ").replace("K.HPU", "K.CUDA")


@pytest.mark.parametrize(
    "code",
    [
        *programs(),
        *(case.code for case in SPELLED),
        *(DONE[done].format("str(x.device)") for done in DONE),
    ],
)
def test_where_run_is_sure_migrate_turns_or_tells(code: str) -> None:
    """At the place, or at the text that is compared there by a name."""
    text = f"import torch\n{code}"
    sure = [one for one in find(Source(text)) if one.sure and not one.handled]
    assert sure
    told = {found.line for found in settled(text).findings}
    for one in sure:
        lines = set(range(one.line, (one.node.end_lineno or 0) + 1))
        assert lines & told or (not one.texts and told), ast.unparse(one.node)


WORDS = ["read()", "impl", "cfg['lang']", "e.kind"]
LIKE = {"split", "begins", "letters", "a match", "a larger text", "labels", "a count", "a guard"}


@pytest.mark.parametrize(("word", "done"), list(product(WORDS, sorted(LIKE))))
def test_what_is_done_with_another_text_stays(word: str, done: str) -> None:
    code = DONE[done].format(word) + "\n"
    assert migrated(code) == code


@pytest.mark.parametrize("text", ["cpu,cuda", "cuda cpu", "cpu, cuda:0"])
def test_devices_in_one_text(text: str) -> None:
    code = f'ys = [torch.zeros(1, device=d) for d in "{text}".split(",")]\n'
    assert migrated(code) == code.replace("cuda", "hpu")


@pytest.mark.parametrize(
    "code",
    [
        "info['CUDA available'] = 1\ninfo['GPU ' + ','.join(devices)] = 2\nask(info['CUDA home'])",
        "name = f'{x.device}-run'\nask(name == 'CUDA version', name in ('CUDA home',), name.startswith('cuda/'))",
        "ask(re.match('CUDA error: (.*)', str(x.device)))",
        "table = {f'GPU {x.device}': 1, 'CUDA home': 2}\nask(table['CUDA home'])",
    ],
)  # fmt: skip
def test_a_text_that_merely_contains_cuda_stays(code: str) -> None:
    assert migrated(f"import re\n{code}\n") == f"import re\n{code}\n"


PARSED = [
    "cfg = yaml.safe_load({0})",
    "cfg = json.loads({0})",
    "TEXT = {0}\ncfg = yaml.safe_load(TEXT)",
    "a = p.parse_args({0}.split())",
    "a = p.parse_args(shlex.split({0}))",
]
SET = ["'--device cuda --name cuda-x'", "'{\"device\": \"cuda\", \"name\": \"cuda\"}'", '"""\ndevice: cuda\nname: cuda\n"""']  # fmt: skip


@pytest.mark.parametrize(("form", "text"), list(product(PARSED, SET)))
def test_a_device_in_a_text_that_is_parsed(form: str, text: str) -> None:
    code = "import json, shlex, yaml\n" + form.format(text) + "\n"
    assert migrated(code) == code.replace("cuda", "hpu", 1)
    shown = f"import yaml\nprint({text})\n"
    assert migrated(shown) == shown


MOVES = {
    "move = {0}.cuda if c else {0}.cpu": "move = functools.partial({0}.to, 'hpu') if c else {0}.cpu",
    "moves = [{0}.cuda, {0}.cpu]": "moves = [functools.partial({0}.to, 'hpu'), {0}.cpu]",
    'getattr({0}, "cuda")()': "functools.partial({0}.to, 'hpu')()",
    'go = operator.methodcaller("cuda")': "go = operator.methodcaller('to', 'hpu')",
    "ys = map(torch.Tensor.cuda, [{0}])": "ys = map(operator.methodcaller('to', 'hpu'), [{0}])",
}


@pytest.mark.parametrize(("move", "made"), list(product(MOVES, ["torch.ones(2)", "torch.nn.Linear(2, 2)"])))  # fmt: skip
def test_the_method_cuda_as_a_value(move: str, made: str) -> None:
    head = f"import functools, operator\nz = {made}\n"
    after = head + MOVES[move].format("z").replace("'", '"') + "\n"
    assert migrated(head + move.format("z") + "\n") == after


@pytest.mark.parametrize(
    "code",
    [
        "class N(torch.nn.Module):\n    def __init__(self, cuda):\n        super().__init__()\n        self.cuda = cuda\n    def f(self, x):\n        g(self.cuda)\n",
        "class N(torch.nn.Module):\n    def f(self, x):\n        if self.cuda:\n            return x\n",
        "net = torch.nn.Linear(2, 2)\nnet.cuda = wrap(net.cuda, net)\n",
        "net = torch.nn.Linear(2, 2)\non = not net.cuda\n",
    ],
)  # fmt: skip
def test_a_switch_named_cuda_stays(code: str) -> None:
    assert migrated(code) == code


@pytest.mark.parametrize("read", ['getattr(self, f"run_{0}")', 'globals()["run_" + {0}]', 'getattr(self, "run_" + {0})'])  # fmt: skip
def test_names_are_looked_up_as_on_cuda(read: str) -> None:
    code = f"class A:\n    def run_cuda(self):\n        pass\n    def run(self, x):\n        return {read}\n"
    kind = "{x.device.type}" if "{0}" in read and 'f"' in read else "x.device.type"
    mark = "'" if 'f"' in read else '"'
    after = code.replace("{0}", kind).replace("x.device.type", f"x.device.type.replace({mark}hpu{mark}, {mark}cuda{mark})")  # fmt: skip
    assert migrated(code.replace("{0}", kind)) == after
