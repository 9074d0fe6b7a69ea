"""Every CUDA token of a file ends in one entry: rewritten, found, inert with a reason, or unknown and reported."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpushim.cli import cli
from hpushim.engine.assess import accounted, examine_module, parse
from hpushim.engine.base.accounted import Accounted
from hpushim.engine.context import Context
from hpushim.engine.rules import page as pages
from hpushim.matrix import load
from hpushim.model import Target

CONTEXT = Context(Target(), load())
#: By the reason: what does nothing with a value. ``{}`` is the value.
INERT = {
    "only shown": (
        "print({})", "print(1, {})", "print(sep={})", "a = {}\nprint(a)", "a = b = {}\nprint(a, b)",
        "for a in [{}]:\n    print(a)", "print(f'runs on {{{}}}')", "print('runs on ' + {})", "print('%s' % {})",
        "def show(a):\n    print(a)\nshow({})", "def show(a={}):\n    print(a)",
        "import logging\nlogging.info({})", "import logging\nlog = logging.getLogger()\nlog.info({})",
        "import logging\nclass A:\n    def __init__(self):\n        self.out = logging.getLogger()\n    def go(self):\n        self.out.info({})",
        "import warnings\nwarnings.warn({})", "print(versions[{}])", "a = versions[{}]\nprint(a)", "import sys\nsys.stderr.write({})",
    ),
    "only in the message": (
        "raise ValueError({})", "raise ours({})", "assert a, {}", "a = {}\nraise ValueError(a)", "error = RuntimeError({})",
    ),
    "never runs": ("import sys\nif sys.version_info < (3, 8):\n    make({})", "if False:\n    make({})"),
    "not used": ("{}",),
    "nothing reads": ("def f():\n    a = {}",),
    "the help of an option": ("add('--where', help={})", "add('-w', '--where', type=str, help={})", "TABLE = dict(where=own('--where', help='run it with --device ' + {}))"),
    "annotation": ("a: {} = 1", "def f(a: {}):\n    pass"),
}  # fmt: skip
#: What may do something with it.
USED = (
    "make({})", "a = {}\nmake(a)\nprint(a)", "a = {}\nprint(a)\nmake(where=a)", "def f(a={}):\n    print(a)\n    make(a)",
    "a = [{}]\nprint(a[0])\nmake(*a)", "def show(a):\n    print(a)\n    make(a)\nshow({})", "def f():\n    return {}",
    "for a in [{}]:\n    print(a)\n    make(a)", "info = make\ninfo({})", "a = {}", "a = versions[{}]\nmake(a)", "versions[{}] = 1", "add('--where', {})", "add('where', help={})", "class A:\n    a = {}",
)  # fmt: skip
WORDS = ("cuda", "nccl", "cuda:0")


def entries(text: str) -> list[Accounted]:
    return accounted(parse(text, "train.py", CONTEXT))


@pytest.mark.parametrize(
    ("reason", "form", "word"),
    [(r, form, w) for r, forms in INERT.items() for form in forms for w in WORDS],
)
def test_what_only_reads_a_value_is_the_reason(reason: str, form: str, word: str) -> None:
    text = "import torch\n" + form.format(f'"{word}"') + "\n"
    (entry,) = entries(text)
    if entry.outcome == "inert":
        assert reason in entry.reason, text
    else:  # a rule has told of it by what it is, such as a device with its number
        assert entry.outcome in ("unknown", "rewritten"), text
        assert examine_module(parse(text, "train.py", CONTEXT), CONTEXT).findings


@pytest.mark.parametrize(("form", "word"), list(itertools.product(USED, WORDS)))
def test_a_value_that_goes_to_more_places_is_not_inert(form: str, word: str) -> None:
    (entry,) = entries("import torch\n" + form.format(f'"{word}"') + "\n")
    assert entry.outcome != "inert", entry.reason


def test_a_text_that_is_taken_apart_is_not_inert() -> None:
    (whole,) = entries('make("on cpu or cuda".upper())\n')
    assert whole.outcome == "inert"
    for form in ('a = "cpu,cuda"\nmake(a.split(","))', 'for a in "cuda cpu".split():\n    make(a)'):
        (entry,) = entries(form + "\n")
        assert entry == entry._replace(outcome="unknown", reason="")


def _examples() -> list[str]:
    found = [pages.read(file) for path in pages.pages().values() for file in pages.with_cases(path)]
    blocks = [b for page in found for b in page.blocks if b.language in ("python", "py")]
    return list(dict.fromkeys(block.text for block in blocks))


def test_every_token_of_the_pages_is_accounted_for_once() -> None:
    outcomes: Counter[str] = Counter()
    for text in _examples():
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        found = entries(text)
        places = [(entry.line, entry.column) for entry in found]
        assert len(set(places)) == len(places), text
        for entry in found:
            assert bool(entry.reason) is (entry.outcome == "inert"), (entry, text)
            outcomes[entry.outcome] += 1
    assert set(outcomes) == {"rewritten", "found", "inert", "unknown"}


def test_the_option_lists_the_inert_ones(tmp_path: Path) -> None:
    code = '"""For CUDA."""\nimport torch\nx = x.to("cuda")\nprint("cuda")\nmake("cuda")\ntorch.cuda.what()\n'
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    result = CliRunner().invoke(cli, ["check", "--explain-silence", str(tmp_path)])
    assert result.output.splitlines() == [
        'train.py:1:1: """For CUDA.""": not used, such as a docstring',
        'train.py:4:7: "cuda": only shown, by print',
        "1 rewritten, 1 found, 2 inert, 1 unknown",
    ]
