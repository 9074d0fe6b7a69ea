"""Branches that a run does not take unless somebody asks for it, and functions that nothing names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target

STOP = 'torch.jit.load("x")'
OPTIONS = {
    "args.fast": 'parser.add_argument("--fast", action="store_true")',
    "args.very_fast": 'parser.add_argument("-v", "--very-fast", action="store_true", help="fast")',
    "not args.slow": 'parser.add_argument("--slow", action="store_false")',
    'args.kind == "fast"': 'parser.add_argument("--kind", default="slow", choices=["slow", "fast"])',
    'args.kind in ("fast", "faster")': 'parser.add_argument("--kind", default="slow")',
    "args.kind is not None": 'parser.add_argument("--kind", type=str)',
    "args.kind": 'parser.add_argument("--kind", type=str)',
    "args.level > 1": 'parser.add_argument("--level", type=int, default=0)',
    'os.getenv("FAST") == "1"': "",
    'os.environ.get("FAST", "0") == "1"': "",
    "FAST": "FAST = False",
    'config.get("fast", False)': "",
    'args.config.get("kind", "slow") == "fast"': "",
    "fast": "fast = train_config.get('fast', False)",
    "options['fast']": "options = {'fast': cfg.get('fast', False)}",
}
PLACES = {
    "if": f"if {{test}}:\n    {STOP}\n",
    "else": f"if not ({{test}}):\n    pass\nelse:\n    {STOP}\n",
    "inner": f"for i in x:\n    if {{test}}:\n        with y:\n            {STOP}\n",
    "and": f"if {{test}} and x:\n    {STOP}\n",
}


def found(folder: Path, code: str, **others: str) -> list[bool]:
    for name, text in {"run": code, **others}.items():
        (folder / f"{name}.py").write_text("import argparse, os\nimport torch\nparser = argparse.ArgumentParser()\n" + text)  # fmt: skip
    report = analyse([folder], Target())
    (file,) = [file for file in report.files if file.path.endswith("run.py")]
    return [f.unchosen for f in file.findings if f.code == "HPU512"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("test", OPTIONS)
def test_a_branch_that_defaults_do_not_take(tmp_path: Path, test: str, place: str) -> None:
    code = f"{OPTIONS[test]}\nargs = parser.parse_args()\n{PLACES[place].format(test=test)}"
    assert found(tmp_path, code) == [True]


@pytest.mark.parametrize(
    ("test", "option"),
    [
        ("not args.fast", 'parser.add_argument("--fast", action="store_true")'),
        ('args.kind == "fast"', 'parser.add_argument("--kind", default="fast")'),
        ('args.kind == "fast"', 'parser.add_argument("--kind", required=True)'),
        ('args.kind == "fast"', 'parser.add_argument("kind")'),
        ("args.cuda", 'parser.add_argument("--cuda", action="store_true")'),
        ("args.use_gpu", 'parser.add_argument("--use-gpu", action="store_true")'),
        ('args.device == "cuda"', 'parser.add_argument("--device", default="cpu")'),
        ("torch.cuda.is_available()", ""),
        ("mask is not None", "def step(mask=None):\n    pass"),
        ("fast", "fast = False\nfast = x"),
        ("True", ""),
        ('config.get("fast")', ""),
        ('config.get("fast", True)', ""),
        ('config.get("fast", x)', ""),
    ],
)
def test_a_branch_that_they_take_or_that_is_open(tmp_path: Path, test: str, option: str) -> None:
    code = f"{option}\nargs = parser.parse_args()\nif {test}:\n    {STOP}\n"
    assert found(tmp_path, code) == [False]


def test_what_an_object_sets_of_its_own_is_open(tmp_path: Path) -> None:
    code = f"class Net:\n    def go(self):\n        self.fast = x\n        if self.fast:\n            {STOP}\n"
    assert found(tmp_path, code, options="class Settings:\n    fast: bool = False\n") == [False]


@pytest.mark.parametrize("container", ["args", "cfg", "train_args", "self.config"])
@pytest.mark.parametrize(
    ("options", "off"),
    [
        ('parser.add_argument("--fast", action="store_true")\n', True),
        ("class Settings:\n    fast: bool = False  # or not\n    slow: bool = True\n", True),
        ("class Settings:\n    fast: bool = True\n", False),
        ("def go(\n    fast: bool = False,\n):\n    pass\n", False),
    ],
)
def test_an_option_that_another_file_declares(tmp_path: Path, options: str, off: bool, container: str) -> None:  # fmt: skip
    code = f"def go(self, args, cfg, train_args, x):\n    if {container}.fast:\n        {STOP}\n    if x.fast:\n        {STOP}\n"
    assert found(tmp_path, code) == [False, False]
    assert found(tmp_path, code, options=options) == [off, False]


@pytest.mark.parametrize(
    ("call", "off"),
    [
        ("", True),
        ("load(fast=False)", True),
        ("load(\n    name,\n    fast=None,\n)", True),
        ("load(fast=args.fast)", True),
        ("load(fast=fast)", True),
        ("def other(x, fast=True):\n    pass", True),
        ("load(x, fast=args.slow)", False),
        ("load(fast=True)", False),
        ("load(\n    fast = name == 'x',\n)", False),
        ("fast = True", True),
    ],
)
@pytest.mark.parametrize("default", ["fast=False", "*, fast: bool = False", "fast=True", "fast=None", "fast"])  # fmt: skip
def test_a_parameter_that_is_off_wherever_it_is_given(tmp_path: Path, default: str, call: str, off: bool) -> None:  # fmt: skip
    code = f"def load({default}):\n    if fast:\n        {STOP}\n"
    switch = 'parser.add_argument("--fast", action="store_true")\n'
    told = "False" in default or (default == "fast" and "args.fast" in call)  # all that is given
    assert found(tmp_path, code, options=switch, other=call) == [off and told]


@pytest.mark.parametrize("asked", ['kind == "{}"', 'kind.lower() in ("{}", "x")', 'kind.endswith("{}".lower()) and y'])  # fmt: skip
@pytest.mark.parametrize("many", [2, 3, 5])
def test_one_of_many_names(tmp_path: Path, asked: str, many: int) -> None:
    lines = [f"{'el' if n else ''}if {asked.format(f'a{n}')}:\n    {STOP}\n" for n in range(many)]
    code = f"def make(kind):\n    {''.join(lines).replace(chr(10), chr(10) + '    ')}else:\n        {STOP}\n"
    assert found(tmp_path, code) == [many > 2] * many + [False]


@pytest.mark.parametrize("declared", ['"--stage", required=True', '"stage"', '"--stage", type=str'])
@pytest.mark.parametrize("form", ["chain", "stages", "returns"])
def test_stages_of_a_program(tmp_path: Path, form: str, declared: str) -> None:
    lines = [f"{'el' if n and form == 'chain' else ''}if args.stage == 'a{n}':\n    {STOP}\n" + "    return\n" * (form == "returns") for n in range(4)]  # fmt: skip
    code = f"parser.add_argument({declared})\nargs = parser.parse_args()\ndef main():\n    {''.join(lines).replace(chr(10), chr(10) + '    ')}\nmain()\n"
    # An option that nobody gives is None: no stage runs by default.
    assert found(tmp_path, code) == [declared.endswith("str")] * 4


@pytest.mark.parametrize("form", ["chain", "stages", "returns"])
def test_a_name_that_anybody_may_give(tmp_path: Path, form: str) -> None:
    lines = [f"{'el' if n and form == 'chain' else ''}if kind == 'a{n}':\n    {STOP}\n" + "    return\n" * (form == "returns") for n in range(4)]  # fmt: skip
    code = f"def make(kind):\n    {''.join(lines).replace(chr(10), chr(10) + '    ')}\n"
    assert found(tmp_path, code) == [form != "stages"] * 4


@pytest.mark.parametrize(
    ("use", "unused"),
    [
        ("", True),
        ("from run import help_load\nhelp_load()", False),
        ("help_load()", True),
        ("from run import help_load", True),
        ("from run import (  # names\n    other,\n    help_load,\n)", True),
        ('__all__ = [\n    "other",\n    "help_load",\n]', True),
        ("from run import help_load\nx = [help_load]", False),
        ("x = dict(type='help_load')", False),
        ("import run\nrun.help_load()", False),
        ("# help_load\nraise ValueError('give help_load a path')", True),
        ("from run import help_load\ndef other():\n    return help_load()", True),
        ("from run import help_load\ndef other():\n    return help_load()\nother()", False),
        ("from run import help_load\nclass Other(help_load):\n    pass", True),
        (
            "from run import help_load\n@registry.register_model\nclass Other(help_load):\n    pass",
            True,
        ),
        ("from run import help_load\n@made\nclass Other(help_load):\n    pass", False),
    ],
)
@pytest.mark.parametrize("front", ["", "x = 1\n\n\n", "@register\n", "@MODELS.register_module()\n", "@made\n", "@register(\n    1\n)\n"])  # fmt: skip
@pytest.mark.parametrize("body", ["def help_load(path):\n", "class help_load(Base):\n    def make(self):\n    "])  # fmt: skip
def test_what_nothing_uses(tmp_path: Path, use: str, front: str, body: str, unused: bool) -> None:
    (tmp_path / "run.py").write_text(
        f"import torch\n{front}{body}    return torch.jit.load(path)\n"
    )
    (tmp_path / "use.py").write_text(use)
    report = analyse([tmp_path], Target())
    made = front in ("@made\n", "@register(\n    1\n)\n")
    assert report.unused == ({"run.py:help_load"} if unused and not made else set())


TABLES = {
    "return {{{0}}}[kind]": True,
    "return {{{0}}}.get(kind)": True,
    "table = {{{0}}}\n    return table[kind]": True,
    "table = {{{0}}}\n    if kind not in table:\n        return 1\n    return table.get(kind, None)": True,
    "return {{{0}}}": False,
    "return {{{0}}}['product']": False,
    "table = {{{0}}}\n    return run(table)": False,
}
PRODUCT = {"'product': dist.ReduceOp.PRODUCT": 1, "kind.PRODUCT: PRODUCT": 1, "'product': make(PRODUCT)": 0}  # fmt: skip


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("entry", PRODUCT)
def test_one_of_many_names_in_a_table(tmp_path: Path, form: str, entry: str) -> None:
    entries = f"'sum': dist.ReduceOp.SUM, {entry}, 'max': dist.ReduceOp.MAX"
    for given, many in ((entries, True), (entry, False)):
        text = f"import torch.distributed as dist\nfrom torch.distributed.ReduceOp import PRODUCT\n\n\ndef f(kind, x, run, make):\n    {form.format(given)}\n"
        (tmp_path / "run.py").write_text(text)
        (file,) = analyse([tmp_path], Target()).files
        told = {f.unchosen for f in file.findings if f.code == "HPU313"}
        assert told == {TABLES[form] and bool(PRODUCT[entry]) and many}


CALLED = {
    "class A:\n    def step(self):\n        {test}\n            self._fast()\n\n    def _fast(self):\n        {stop}\n": True,
    "def step(x):\n    {test}\n        _fast()\n\n\ndef _fast():\n    {stop}\n": True,
    "def step(x):\n    {test}\n        _fast()\n\n\ndef _fast():\n    _faster()\n\n\ndef _faster():\n    {stop}\n": True,
    "def step(x):\n    {test}\n        fast()\n\n\ndef fast():\n    {stop}\n": False,  # other files may call it
    "def step(x):\n    {test}\n        _fast()\n    _fast()\n\n\ndef _fast():\n    {stop}\n": False,
    "def step(x):\n    {test}\n        _fast()\n    hook(_fast)\n\n\ndef _fast():\n    {stop}\n": False,
    "def step(x):\n    _fast(x)\n\n\ndef _fast(x):\n    _other(x)\n    {stop}\n\n\ndef _other(x):\n    _fast(x)\n": False,
}


@pytest.mark.parametrize("code", CALLED)
@pytest.mark.parametrize("option", ["args.fast", "args.kind is not None"])
def test_a_function_is_called_where_the_branch_is_not_taken(tmp_path: Path, code: str, option: str) -> None:  # fmt: skip
    options = f"{OPTIONS[option]}\nargs = parser.parse_args()\n"
    text = code.replace("{test}", f"if {option}:").replace("{stop}", STOP)
    assert found(tmp_path, options + text) == [CALLED[code]]
