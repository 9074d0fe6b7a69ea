"""No word of CUDA's or NCCL's in a code position is passed over in silence, whatever stands around it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpushim.engine.assess import interesting
from hpushim.engine.base.kind import Kind
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.engine.project import analyse, migrate
from hpushim.matrix import load
from hpushim.model import Finding, Target
from hpushim.report import summarise

CONTEXT = Context(Target(), load())
WORDS = ("cuda", "cuda:0", "cuda:1", "nccl")
#: What takes a value, by every way that Python has to hand one on. ``{}`` is the value as it is written.
TAKEN = (
    "make({})", "make(1, {})", "make(where={})", "make(*[{}])", "make(**{{'where': {}}})",
    "self.make(where={})", "other.make({}, 2)", "partial(make, {})", "partial(make, where={})",
    "methodcaller({})", "methodcaller('move', {})", "getattr(thing, {})", "setattr(thing, 'where', {})",
    "args.get('where', {})", "args.pop('where', {})", "args.setdefault('where', {})", "args.get({})",
    "os.environ.get('WHERE', {})", "os.getenv('WHERE', {})", "Where({})", "make(other({}))",
    "make(lambda: {})", "make([{}, 'cpu'])", "make(({},))", "make({{{}: 1}})", "make({{'a': {}}})",
    "make({} if fast else 'cpu')", "make(where or {})", "make(fast and {})", "functools.reduce(make, [{}])",
    "subprocess.run(['python', 'train.py', '--where', {}])", "make(await_({}))", "make(x[{}])",
    "make(**dict(where={}))", "make(a := {})", "map(make, [{}])",
    "log.info({})", "file.write({})", "report.title({})", "make(label={})", "make(name={})",
)  # fmt: skip
#: The statements that hold such an expression.
HOLDERS = (
    "{}", "a = {}", "self.a = {}", "a: object = {}", "a += {}", "a, b = {}, 1", "for a in {}:\n    pass",
    "with {} as a:\n    pass", "if {}:\n    pass", "while {}:\n    break", "def f(a={}):\n    pass",
    "def f():\n    return {}", "class A(B, a={}):\n    pass", "@decorate({})\ndef f():\n    pass", "assert {}",
    "del a[{}]", "lambda: {}", "[{} for a in b]", "async def f():\n    await {}",
)  # fmt: skip
#: What only looks like a device.
LOOKS = (
    "print({})", "log.info({})", "logger.warning({})", "raise ValueError({})", "os.path.join(root, {})",
    "open({} + '.png')", "path = root + '/' + {}", "warnings.warn({})", "parser.add_argument('--x', help={})",
    "{}", "sys.stderr.write({})", "assert fast, {}",
)  # fmt: skip


def found(text: str, kind: Kind = "python", path: str = "train.py") -> tuple[Finding, ...]:
    if not interesting(text.encode(), kind, path):
        return ()
    return examine(text, kind, path, CONTEXT)


def told(findings: tuple[Finding, ...], line: int) -> bool:
    return any(f.line <= line <= f.end_line for f in findings if not f.code.startswith("HPU5"))


@settings(max_examples=300)
@given(st.sampled_from(WORDS), st.sampled_from(TAKEN), st.sampled_from(HOLDERS), st.booleans())
def test_a_value_is_told_of_wherever_it_is_given(
    word: str, taken: str, holder: str, torch: bool
) -> None:
    value = f'"{word}"'
    code = holder.format(taken.format(value))
    text = ("import torch\n" if torch else "") + code + "\n"
    line = next(number for number, row in enumerate(text.splitlines(), 1) if value in row)
    assert told(found(text), line), text


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nmake(torch.cuda)",
        "import torch as th\nmake(th.cuda.some_name)",
        "from torch import cuda\nmake(cuda)",
        "from torch import cuda as c\nx = c.what_is_this()",
        "import torch.cuda as tc\ntc.what_is_this()",
        "move = model.cuda",
        "parts = map(model.cuda, parts)",
        "model.apply(Net.cuda)",
        "queue.put(batch.cuda)",
        "x = thing.cuda()",
        'env = dict(os.environ, CUDA_VISIBLE_DEVICES="0")',
        'env = {"CUDA_VISIBLE_DEVICES": "0"}',
        'if "NCCL_DEBUG" in os.environ:\n    pass',
        'os.system("CUDA_VISIBLE_DEVICES=0 python train.py")',
        'os.system("python train.py --where cuda")',
        'main(["train.py", "where=cuda"])',
        'patch("torch.cuda.what_is_this")',
        'queue.put(f"cuda:{rank}")',
        'queue.put("cuda:{}".format(rank))',
        'queue.put("cuda:%d" % rank)',
    ],
)
def test_other_words_are_told_of(code: str) -> None:
    text = code + "\n"
    assert [f for f in found(text) if not f.code.startswith("HPU5")], text


#: Ways to make a longer text, and what only shows one. ``{}`` is a variable's name or a word.
MADE = ("'{}=%s' % x", "'{}=%s and %s' % (x, y)", "f'{}={{x}}'", "'{}=' + x", "'{}=all'")
SHOWN = ("print({})", "logging.info({})", "logger.info({})", "self.log.warning({})", "raise ValueError({})")  # fmt: skip


@pytest.mark.parametrize(("made", "shown"), list(itertools.product(MADE, SHOWN)))
def test_a_text_around_a_variable_that_is_only_shown_stays_out(made: str, shown: str) -> None:
    text = made.format("CUDA_VISIBLE_DEVICES")
    code = f"import torch, logging\n\n\ndef f(self, logger, x, y):\n    {shown.format(text)}\n    x.cuda()\n"
    assert not told(found(code), 5)
    assert told(found(code.replace(shown.format(text), f"run({text})")), 5)


@pytest.mark.parametrize(("look", "word"), list(itertools.product(LOOKS, ("cuda", "nccl"))))
def test_what_only_looks_like_one_stays_out(look: str, word: str) -> None:
    begin = "import logging, sys, warnings\nlog = logger = logging.getLogger()\n"
    text = f"{begin}def f(args):\n    {look.format(chr(34) + word + chr(34))}\n"
    assert not [f for f in found(text) if f.code == "HPU010"], text


VALUES: list[tuple[Kind, str, str]] = [
    ("yaml", "a.yaml", "where: {}\n"),
    ("yaml", "a.yaml", "where: '{}'\n"),
    ("yaml", "a.yaml", "where: [{}, cpu]\n"),
    ("yaml", "a.yaml", "- {}\n"),
    ("yaml", "a.yaml", "where: ${{oc.env:WHERE,{}}}\n"),
    ("yaml", "a.yaml", "where: ${{WHERE:-{}}}\n"),
    ("yaml", "a.yaml", "run: python train.py --where {}\n"),
    ("yaml", "a.yaml", "args: ['--where={}']\n"),
    ("json", "a.json", '{{"where": "{}"}}\n'),
    ("json", "a.json", '{{"args": ["--where", "{}"]}}\n'),
    ("toml", "a.toml", 'where = "{}"\n'),
    ("ini", "a.cfg", "[a]\nwhere = {}\n"),
    ("shell", "a.sh", "WHERE={}\n"),
    ("shell", "a.sh", "export WHERE=${{WHERE:-{}}}\n"),
    ("shell", "a.sh", "WHERE=${{1:-{}}}\n"),
    ("shell", "a.sh", "train --where {}\n"),
    ("shell", "a.sh", "train --where={}\n"),
    ("shell", "a.sh", 'train where="{}"\n'),
    ("shell", "a.sh", 'OPTIONS="--where {}"\n'),
    ("shell", "a.sh", "ALL=({} cpu)\n"),
    ("shell", "a.sh", 'if [ "$WHERE" = {} ]; then\n  true\nfi\n'),
    ("shell", "a.sh", "for where in {} cpu; do\n  true\ndone\n"),
    ("dockerfile", "Dockerfile", "FROM a\nENV WHERE={}\n"),
    ("dockerfile", "Dockerfile", "FROM a\nRUN train --where {}\n"),
    ("dockerfile", "Dockerfile", 'FROM a\nCMD ["train", "--where", "{}"]\n'),
    ("makefile", "Makefile", "WHERE ?= {}\n"),
    ("makefile", "Makefile", "all:\n\ttrain --where {}\n"),
]


@pytest.mark.parametrize(("setting", "word"), list(itertools.product(VALUES, ("cuda", "nccl"))))
def test_a_value_in_settings_and_scripts_is_told_of(
    setting: tuple[Kind, str, str], word: str
) -> None:
    kind, path, form = setting
    text = form.format(word)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if word in row)
    assert told(found(text, kind, path), line), text


@pytest.mark.parametrize("word", ["CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME"])
@pytest.mark.parametrize(
    ("kind", "path", "form"),
    [
        ("yaml", "a.yaml", "env:\n  {}: x\n"),
        ("yaml", "a.yaml", "env:\n  - name: {}\n"),
        ("yaml", "a.yaml", "env: ['{}=x']\n"),
        ("json", "a.json", '{{"env": {{"{}": "x"}}}}\n'),
        ("toml", "a.toml", '[env]\n{} = "x"\n'),
        ("shell", "a.sh", "unset {}\n"),
        ("shell", "a.sh", 'if [ -z "${}" ]; then\n  true\nfi\n'),
        ("shell", "a.sh", "env {}=0 train\n"),
        ("makefile", "Makefile", "{} = 0\n"),
    ],
)
def test_a_variable_in_settings_and_scripts_is_told_of(
    kind: Kind, path: str, form: str, word: str
) -> None:
    assert found(form.format(word), kind, path), form.format(word)


def test_a_cell_of_a_notebook_is_told_of() -> None:
    cell = {"cell_type": "code", "source": ['x = make("cuda")\n'], "metadata": {}, "outputs": []}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert [f for f in found(text, "notebook", "a.ipynb") if f.code == "HPU010"]


# -- the verdict ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        'make("cuda")\n',
        'import torch\nx = torch.zeros(2, device="cuda")\nmake("cuda")\n',
        "import torch\nmove = model.cuda\n",
        'def f(a="cuda", no_hpu=True):\n    pass\n\n\nf()\n',
        'import torch\n\nif is_hpu_available():\n    go("hpu")\nelse:\n    go("cuda")\nstay("cuda")\n',
    ],
)
def test_the_verdict_is_not_clean_while_a_word_remains(tmp_path: Path, code: str) -> None:
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    report = migrate([tmp_path], Target(), jobs=1)
    summary = summarise(report)
    assert summary.verdict == "needs work", summary.sentence
    assert summary.unknown
    again = summarise(analyse([tmp_path], Target(), jobs=1))
    assert again.verdict == "needs work", again.sentence


LOOP = "import torch\n\nfor x in data:\n    loss = model(x).sum()\n    loss.backward()\n    step.step()\n"


@pytest.mark.parametrize(
    ("other", "on_cpu"),
    [
        ("", True),
        ("# device cuda\n", True),
        ('device = torch.device("cpu")\nmodel.to(device)\n', True),
        ('model.to("hpu")\n', False),
        ("model.to(device_of(args))\n", False),
        ("import accelerate\n", False),
        ("from ignite.engine import Engine\n", True),
        ("import ignite.distributed as idist\nmodel = idist.auto_model(model)\n", False),
    ],
)
def test_training_that_stays_on_the_cpu_is_told_of(
    tmp_path: Path, other: str, on_cpu: bool
) -> None:
    """Whichever file of the project names the device."""
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "place.py").write_text(other, encoding="utf-8")
    report = analyse([tmp_path], Target(), jobs=1)
    codes = {f.code for file in report.files for f in file.findings}
    assert ("HPU503" in codes) is on_cpu
    assert not on_cpu or summarise(report).verdict == "needs work"
