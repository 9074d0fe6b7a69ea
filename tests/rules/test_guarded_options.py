"""A condition that decides about ``fused=True`` alone is turned off where the options are made; where the optimizer is made, the option goes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from codemods.analysis import defaults
from hpushim.engine.project import analyse
from hpushim.engine.python.module import Module
from hpushim.model import Target

#: What is found at which line: HPU605 turns the condition off, HPU601 takes the option out.
WAYS = {
    "extra = {{}}\nif {0}:\n    extra = {1}\nopt = torch.optim.{2}(p, **extra)\n": ("HPU605", 3),
    "extra = {1} if {0} else {{}}\nopt = torch.optim.{2}(p, **extra)\n": ("HPU605", 2),
    "opt = torch.optim.{2}(p, fused=True) if {0} else torch.optim.{2}(p)\n": ("HPU605", 2),
    "if {0}:\n    opt = torch.optim.{2}(p, fused=True)\nelse:\n    opt = torch.optim.{2}(p)\n": ("HPU601", 3),
    "opt = torch.optim.{2}(p, fused={0})\n": ("HPU605", 2),
    "opt = torch.optim.{2}(p, fused=True)\n": ("HPU601", 2),
}  # fmt: skip
TESTS = ("torch.cuda.is_available()", "device.type == 'cuda'")
OPTIONS = ("dict(fused=True)", "dict(lr=0.1, fused=True)")


@pytest.mark.parametrize("style", ["native", "dual"])
def test_what_is_turned_off_is_what_decides_about_the_option(tmp_path: Path, style: str) -> None:
    forms = [(way, way.format(test, options, made)) for way in WAYS for test in TESTS for options in OPTIONS for made in ("AdamW", "SGD")]  # fmt: skip
    for at, (_, text) in enumerate(forms):
        (tmp_path / f"f{at:02}.py").write_text(f"import torch\n{text}")
    found = {file.path: [(one.code, one.line) for one in file.findings if one.code in ("HPU601", "HPU605")] for file in analyse([tmp_path], Target(style=style), jobs=1).files}  # type: ignore[arg-type]  # fmt: skip
    for at, (way, text) in enumerate(forms):
        assert found[f"f{at:02}.py"] == [WAYS[way]], text


@pytest.mark.parametrize(
    ("call", "warns"),
    [
        ("Accelerator()", ""), ("Accelerator(cpu=True)", "cpu"), ("Accelerator(cpu=False)", ""), ("Accelerator(cpu=flag)", ""), ("Accelerator(split_batches=True)", ""), ("PartialState(cpu=True)", "cpu"),
        ("TrainingArguments('o', use_cpu=True)", "use_cpu"), ("TrainingArguments('o', no_cuda=True)", "no_cuda"), ("TrainingArguments('o', use_cpu=False)", ""), ("TrainingArguments('o', fp16_full_eval=True)", ""),
    ],
)  # fmt: skip
def test_a_library_is_on_the_cpu_where_it_is_told_so(tmp_path: Path, call: str, warns: str) -> None:
    (tmp_path / "a.py").write_text(f"from accelerate import Accelerator, PartialState\nfrom transformers import TrainingArguments\nx = {call}\n")  # fmt: skip
    (file,) = analyse([tmp_path], Target(mode="eager"), jobs=1).files
    (found,) = (one for one in file.findings if "selects the device by itself" in one.message)
    assert (f"`{warns}=True` keeps the library on the CPU" in found.message) is bool(warns)
    assert found.severity == ("warning" if warns else "note")


@pytest.mark.parametrize(
    ("decorator", "imports", "of_click"),
    [
        ("@main.command()", "import click", True), ("@main.command", "from click import group", True), ("@click.option('--x')", "import click", True), ("@option('--x')", "from click import option", True),
        ("@main.command()", "import typer", False), ("@main.callback()", "import click", False), ("@command()", "import click", False), ("@no_grad()", "import click", False),
    ],
)  # fmt: skip
def test_which_decorators_are_click_s(decorator: str, imports: str, of_click: bool) -> None:
    module = Module(f"{imports}\n{decorator}\ndef f(x='cuda'):\n    return x\n", "a.py", Target(), None)  # type: ignore[arg-type]  # fmt: skip
    function = module.tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    (each,) = function.decorator_list
    assert defaults._is_of_click(module, each.func if isinstance(each, ast.Call) else each) is of_click  # fmt: skip
    plain = decorator.startswith("@no_grad")
    assert defaults._is_declared(module, function) is not (of_click or plain)
