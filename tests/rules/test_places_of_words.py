"""Where words and comments stand makes no difference to what is said of them."""

from __future__ import annotations

import json
import shlex

import pytest

from hpushim.engine.base.kind import Kind
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine, settle
from hpushim.matrix import load
from hpushim.model import Target

CONTEXT = Context(Target(), load())


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_comment_is_told_whatever_ends_its_line(newline: str) -> None:
    lines = [
        "import torch",
        "# move to cuda, as ever",
        'x = torch.ones(2, device="cuda")',
        'y = torch.ones(2, device="cuda")  # another cuda tensor',
        "",
    ]
    found = examine(newline.join(lines), "python", "a.py", CONTEXT)
    assert [(f.line, f.column) for f in found if f.code == "HPU029"] == [(2, 1), (4, 35)]


def test_a_mask_is_seen_however_many_lines_make_it() -> None:
    code = (
        "import torch\n"
        "def forward(x: torch.Tensor, y: torch.Tensor):\n"
        '    x = x.to("cuda")\n'
        "    far = (\n"
        "        x >\n"
        "        y\n"
        "    )\n"
        "    x[far] = 0\n"
        "    return x\n"
    )
    found = examine(code, "python", "a.py", CONTEXT)
    assert [f.line for f in found if f.code == "HPU515"] == [8]


@pytest.mark.parametrize("gap", ["", " ", "\n", "\n\n      "])
@pytest.mark.parametrize("index", ["{0}x >{0}0{0}", "x[{0}0,{0}1] >{0}y", "far,{0}0", "{0}~far{0}"])
@pytest.mark.parametrize("form", ["z = x[{}]", "x[{}] = 0", "z = f(x[{}].sum())"])
def test_an_index_is_a_mask_however_many_lines_it_takes(form: str, index: str, gap: str) -> None:
    code = (
        "import torch\n"
        "def forward(x: torch.Tensor, y: torch.Tensor):\n"
        '    x = x.to("cuda")\n'
        "    far = x > y\n"
        f"    {form.format(index.format(gap))}\n"
        "    return x\n"
    )
    found = examine(code, "python", "a.py", CONTEXT)
    assert [f.line for f in found if f.code == "HPU515"] == [5]


@pytest.mark.parametrize("where", ["outputs", "source"])
def test_a_directive_counts_in_the_code_of_a_notebook_alone(where: str) -> None:
    said = "# hpushim: ignore[HPU102]\n"
    cell = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [{"output_type": "stream", "name": "stdout", "text": [said]}],
        "source": ["import torch\n"],
    }
    if where == "source":
        cell |= {"outputs": [], "source": ["import torch  " + said]}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    found = examine(text, "notebook", "a.ipynb", CONTEXT)
    assert [f.code for f in found] == ([] if where == "outputs" else ["HPU007"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x.to((["cpu"] + ["cuda"])[1])', 'x.to((["cpu"] + ["hpu"])[1])'),
        ('places = ["cuda:0"] + others\nx.to(places[0])', 'places = ["hpu:0"] + others\nx.to(places[0])'),
        ('places = ["cpu"] + ["cuda"] * n\nx.to(places[1])', 'places = ["cpu"] + ["hpu"] * n\nx.to(places[1])'),
        ('places = [torch.device("cuda")] + others\nx.to(places[0])', 'places = [torch.device("hpu")] + others\nx.to(places[0])'),
        ('f = x.device.type in ["cuda"] + ["cpu"]', 'f = x.device.type in ["hpu"] + ["cpu"]'),
    ],
)  # fmt: skip
def test_devices_of_lists_that_are_joined(before: str, after: str) -> None:
    eager = Context(Target(mode="eager"), load())
    done = settle(f"import torch\n{before}\n", "python", "a.py", eager)
    assert done.text == f"import torch\n{after}\n"


@pytest.mark.parametrize(
    "value", ["cuda", '"cuda"', "'cuda'", 'cu"da"', "c''uda", "\"cu\"'da'", "cu\\da", '""cuda']
)
@pytest.mark.parametrize("option", ["--device {}", "--device={}", "'--device='{}", '"--device"={}'])
@pytest.mark.parametrize(
    ("kind", "line"),
    [("shell", "python a.py {} --x\n"), ("dockerfile", "FROM a\nRUN python a.py {} --x\n"), ("dockerfile", "FROM a\nRUN pip \\\n  list && python a.py {}\n")],
)  # fmt: skip
def test_a_value_is_rewritten_however_it_is_quoted(kind: Kind, line: str, option: str, value: str) -> None:  # fmt: skip
    before = "# of cuda_x\n" + line.format(option.format(value))
    done = settle(before, kind, "Dockerfile" if kind == "dockerfile" else "a.sh", CONTEXT)
    assert [f.code for f in done.findings if f.fix and f.code != "HPU809"] == ["HPU806"]
    wanted = [
        word.replace("cuda", "hpu") for word in shlex.split(before.removeprefix("# of cuda_x"))
    ]
    assert [word for word in shlex.split(done.text) if word in wanted] == wanted


@pytest.mark.parametrize("value", ["cuda", "cu\\u0064a", "\\u0063uda"])
@pytest.mark.parametrize("option", ['"--device", "{}"', '"--device={}"'])
def test_a_value_is_rewritten_in_a_list_of_words(option: str, value: str) -> None:
    before = f'# cuda\nFROM a\nCMD ["python", "a.py", {option.format(value)}]\n'
    done = settle(before, "dockerfile", "Dockerfile", CONTEXT)
    assert done.text.splitlines()[-1] == before.splitlines()[-1].replace(value, "hpu")
