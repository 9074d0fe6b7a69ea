"""A check turns with everything CUDA that it controls, or stays with it: every form of check before every form of region.

What is asserted is judged by the checker in ``regions.py``, which knows nothing of the rules.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from crossed import crossed
from regions import controlled
from regions_across import across

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target

IS = "torch.cuda.is_available()"
HEAD = "import sys\nimport argparse\nimport unittest\nimport pytest\nimport torch\n"


@dataclass(frozen=True)
class Check:
    """Code that comes first, and the condition; ``{}`` in ``around`` is where the region goes, inside a function."""

    name: str
    setup: str
    test: str
    around: str = "def run(args, x, model, items, device):\n{}"


def _method(name: str, init: str, test: str, more: str = "") -> Check:
    body = f"class Trainer:\n    def __init__(self, args):\n        {init}\n{more}\n    def run(self, args, x, model, items, device):\n{{}}"
    return Check(name, "", test, textwrap.dedent(body))


CHECKS = [
    Check("call", "", IS),
    Check("name", f"use_cuda = {IS}", "use_cuda"),
    Check("and", f"use_cuda = {IS} and not opt.no_cuda", "use_cuda"),
    Check("option", f"opt.cuda = not opt.no_cuda and {IS}", "opt.cuda"),
    Check("choice", f"use_cuda = True if {IS} else False", "use_cuda"),
    Check("raised", f"use_cuda = False\nif {IS}:\n    use_cuda = True", "use_cuda"),
    Check("reset", f"if not {IS}:\n    opt.cuda = False", "opt.cuda"),
    Check("negative", f"no_cuda = not {IS}", "not no_cuda"),
    Check("pair", f"use_cuda, workers = {IS}, 4", "use_cuda"),
    Check("item", f'cfg = {{"cuda": {IS}}}', 'cfg["cuda"]'),
    Check("stored item", f'cfg["cuda"] = {IS}', 'cfg["cuda"]'),
    Check("function", f"def has_gpu():\n    return {IS}", "has_gpu()"),
    Check("returns", f"def has_gpu():\n    if {IS}:\n        return True\n    return False", "has_gpu()"),
    Check("returned pair", f"def ask():\n    return {IS}, 4\n\n\nuse_cuda, workers = ask()", "use_cuda"),
    Check("default", "", "cuda", f"def run(args, x, model, items, device, cuda={IS}):\n{{}}"),
    Check("declared", f'parser = argparse.ArgumentParser()\nparser.add_argument("--use-cuda", default={IS})', "args.use_cuda"),
    Check("walrus", "", f"(gpu := {IS})"),
    Check("bool", "", f"bool({IS})"),
    Check("imported", "from torch.cuda import is_available", "is_available()"),
    Check("module", "from torch import cuda", "cuda.is_available()"),
    Check("alias", "import torch as th\nuse_cuda = th.cuda.is_available()", "use_cuda"),
    Check("value", "has_gpu = torch.cuda.is_available", "has_gpu()"),
    Check("count", "", "torch.cuda.device_count() > 0"),
    Check("counted", "n_gpu = torch.cuda.device_count()", "n_gpu > 0"),
    Check("no cards", "n_gpu = torch.cuda.device_count()", "not n_gpu == 0"),
    Check("tensor", "", "x.is_cuda"),
    Check("kind of tensor", "", "isinstance(x, torch.cuda.FloatTensor)"),
    Check("tensor's name", "on_gpu = inputs.is_cuda", "on_gpu"),
    Check("device type", "", 'device.type == "cuda"'),
    Check("device differs", "", 'not device.type != "cuda"'),
    Check("device text", "", '"cuda" in str(device)'),
    Check("device starts", "", 'str(device).startswith("cuda")'),
    Check("device flag", 'use_cuda = opt.device == "cuda"', "use_cuda"),
    _method("attribute", f"self.use_cuda = {IS}", "self.use_cuda"),
    _method(
        "property", "pass", "self.use_cuda",
        f"\n    @property\n    def use_cuda(self):\n        return {IS}\n",
    ),
]  # fmt: skip

#: A region in terms of its condition ``T``, statement ``S`` and expression ``E``.
REGIONS = {
    "if": "if T:\n    S",
    "else": "if not T:\n    pass\nelse:\n    S",
    "elif": "if args.cpu:\n    pass\nelif T:\n    S",
    "nested": "if T:\n    for item in items:\n        if args.verbose:\n            S",
    "and": "if args.fast and T:\n    S",
    "or": "if args.fast or T:\n    S",
    "return": "if not T:\n    return\nS",
    "raise": 'if not T:\n    raise RuntimeError("no GPU")\nS',
    "exit": "if not T:\n    sys.exit(1)\nS",
    "skip": 'if not T:\n    pytest.skip("no GPU")\nS',
    "assert": "assert T\nS",
    "loop": "for item in items:\n    if not T:\n        continue\n    S",
    "while": "while T:\n    S",
    "choice": "y = E if T else None",
    "argument": "consume(E if T else None, 1)",
    "short": "y = T and E",
    "short or": "y = not T or E",
    "list": "ys = [1] + ([E] if T else [])",
    "filter": "ys = [E for item in items if T]",
    "with": "with torch.no_grad():\n    if T:\n        S",
    "inner": "def inner():\n    if T:\n        S\ninner()",
}
DECORATORS = {
    "skipif": "@pytest.mark.skipif(not T, reason='no GPU')\ndef test_it(x, model):\n    S\n",
    "condition": "@pytest.mark.skipif(condition=not T, reason='no GPU')\ndef test_it(x, model):\n    S\n",
    "skipIf": "@unittest.skipIf(not T, 'no GPU')\nclass Tests:\n    def test_it(self, x, model):\n        S\n",
    "skipUnless": "@unittest.skipUnless(T, 'no GPU')\ndef test_it(x, model):\n    S\n",
    "mark": "gpu = pytest.mark.skipif(not T, reason='no GPU')\n\n\n@gpu\ndef test_it(x, model):\n    S\n",
    "pytestmark": "pytestmark = pytest.mark.skipif(not T, reason='no GPU')\n\n\ndef test_it(x, model):\n    S\n",
    "marks": "pytestmark = [pytest.mark.slow, pytest.mark.skipif(not T, reason='no GPU')]\n\n\ndef test_it(x, model):\n    S\n",
}  # fmt: skip
#: Expressions that have no form for Gaudi, and some that have.
STUCK = {
    "capability": "torch.cuda.get_device_capability()",
    "history": "torch.cuda.memory._record_memory_history()",
    "text": 'prepare("cuda")',
}
TURNS = {
    "move": "x.cuda()",
    "synchronize": "torch.cuda.synchronize()",
    "device": 'torch.device("cuda")',
    "backend": 'torch.distributed.init_process_group("nccl")',
}
HARMLESS = {"cache": "torch.cuda.memory_allocated()"}


def _source(check: Check, region: str, expression: str) -> str:
    test = f"({check.test})" if " " in check.test else check.test
    values = {"T": test, "S": expression, "E": expression}
    body = re.sub(r"\b[TSE]\b", lambda found: values[found[0]], region)
    line = check.around.rpartition("\n")[0].rpartition("\n")[2]
    indent = len(line) - len(line.lstrip()) + 4 if line else 0
    code = check.around.format(textwrap.indent(body, " " * indent))
    return f"{HEAD}{check.setup}\n\n\n{code}\n"


def _migrated(source: str, *, unsafe: bool = False, style: str = "native") -> Settled:
    return settle(source, "python", "train.py", Context(Target(style=style), load(), unsafe=unsafe))  # type: ignore[arg-type]


def _pages() -> list[tuple[str, Check, str]]:
    pairs = crossed(CHECKS, REGIONS, rounds=3)
    found = [(f"{c.name}:{name}", c, REGIONS[name]) for c, name in pairs]
    plain = [c for c in CHECKS if c.around == CHECKS[0].around and not c.test.startswith(("x.", "device", '"cuda" in', "str(device", "not device", "args"))]  # fmt: skip
    for check, name in crossed(plain, DECORATORS):
        whole = Check(check.name, check.setup, check.test, "{}")
        found.append((f"{check.name}:{name}", whole, DECORATORS[name]))
    return found


class _Naive(ast.NodeTransformer):
    """Turns every check and nothing else: what must not come out."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "is_cuda":
            return ast.parse(f'{ast.unparse(node.value)}.device.type == "hpu"', mode="eval").body
        if node.attr in ("is_available", "device_count"):
            node.value = ast.parse("torch.hpu", mode="eval").body
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module == "torch.cuda":
            node.module = "torch.hpu"
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value == "cuda":
                part.value = "hpu"
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if getattr(node.func, "attr", "") == "startswith":
            node.args = [ast.Constant("hpu")]
        if getattr(node.func, "id", "") == "isinstance":
            return ast.parse('x.device.type == "hpu"', mode="eval").body
        return node


def _naive(source: str) -> str:
    return ast.unparse(_Naive().visit(ast.parse(source)))


def _alone(text: str, **options: tuple[str, ...]) -> str:
    context = Context(Target(), load(), **options)  # type: ignore[arg-type]
    return settle(f"import torch\n{text}", "python", "train.py", context).text


ONE = "    {test}:\n        model.cuda()\n        torch.cuda.synchronize(){mark}\n"
IMPORTS = [
    ("import torch.cuda as tc", "tc.is_available()"),
    ("from torch import cuda", "cuda.is_available()"),
    ("from torch.cuda import is_available", "is_available()"),
    ("from torch.cuda import is_available as gpu", "gpu()"),
    ("", "torch.cuda.is_available()"),
]


@pytest.mark.parametrize(("imported", "test"), IMPORTS)
def test_a_suppressed_member_holds_its_group_and_no_other(imported: str, test: str) -> None:
    one = ONE.format(test=f"if {test}", mark="")
    other = ONE.format(test=f"if {test}", mark="  # hpushim: ignore[HPU414]")
    after = _alone(f"{imported}\ndef one(model):\n{one}def other(model):\n{other}")
    turned, _, held = after.partition("def other")
    assert "hpu.is_available()" in turned and 'model.to("hpu")' in turned, after
    assert f"if {test}:\n        model.cuda()" in held, after


def test_what_is_not_selected_holds_the_check() -> None:
    bare = "if torch.cuda.is_available():\n    print(1)\n"
    full = "if torch.cuda.is_available():\n    model.cuda()\n"
    for options in ({"select": ("HPU108",)}, {"ignore": ("HPU102",)}):
        after = _alone(bare + full, **options)
        assert after.count("torch.hpu.is_available") == 1, after
        assert full in after


CASES = [pytest.param(check, region, id=name) for name, check, region in _pages()]


@pytest.mark.parametrize(("check", "region"), CASES)
def test_a_check_stays_with_what_it_controls(check: Check, region: str) -> None:
    for name, expression in STUCK.items():
        source = _source(check, region, expression)
        assert controlled(_naive(source), source), f"the checker is blind to {name}:\n{source}"
        ways = ((False, "native"), (True, "native"), (False, "dual"))
        for unsafe, style in ways if name == "capability" else ways[:1]:
            settled = _migrated(source, unsafe=unsafe, style=style)
            left = controlled(settled.text, source)
            assert not left, f"{left[0]}\n{settled.text}"
            told = [f for f in settled.findings if f.code == "HPU028"]
            assert told, settled.text
            assert not [f for f in settled.findings if f.code == "HPU004"], settled.text


@pytest.mark.parametrize(("check", "region"), CASES)
def test_a_check_turns_with_what_it_controls(check: Check, region: str) -> None:
    for expression in (*TURNS.values(), *HARMLESS.values()):
        source = _source(check, region, expression)
        settled = _migrated(source)
        left = controlled(settled.text, source)
        assert not left, f"{left[0]}\n{settled.text}"
        assert not [f for f in settled.findings if f.code == "HPU028"], settled.text
        assert "is_cuda" not in settled.text.replace("is_cuda=", ""), settled.text
        assert "cuda.is_available" not in settled.text, settled.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("use_cuda = {}.is_available()", "from one import use_cuda as gpu\nif gpu:\n    {}"),
        ("def gpu():\n    return {}.is_available()", "from .one import gpu\nif not gpu():\n    exit()\n{}"),
        ("args.use_cuda = {}.is_available()", "def run(args):\n    y = args.use_cuda and {}"),
    ],
)  # fmt: skip
def test_the_checker_sees_flags_of_other_files(tmp_path: Path, one: str, other: str) -> None:
    for folder, device in (("before", "torch.cuda"), ("after", "torch.hpu")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.py").write_text(f"import torch\n{one.format(device)}\n")
        code = other.format("torch.cuda.get_device_capability()")
        (tmp_path / folder / "other.py").write_text(f"import torch\n{code}\n")
    (site,) = across(tmp_path / "before", tmp_path / "after")
    assert (site.path, site.text) == ("other.py", "torch.cuda.get_device_capability")
    assert not across(tmp_path / "before", tmp_path / "before")
