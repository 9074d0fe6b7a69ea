"""Checkpoints that load to the CPU only without CUDA: on Gaudi they load to ``hpu``, however the choice is written."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine, settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Style, Target

TESTS = {
    "torch.cuda.is_available()": True,
    "not torch.cuda.is_available()": False,
    "use_cuda": True,
    "not use_cuda": False,
    "args.gpu is not None": True,
    "args.device == 'cpu'": False,
}
PLACES = ["'cpu'", "torch.device('cpu')", "lambda storage, loc: storage"]
#: ``{0}`` is the test, ``{1}`` the half for CUDA where it holds, and ``{2}`` the other.
WAYS = {
    "argument": "torch.load(p, map_location={1} if {0} else {2})",
    "position": "torch.load(p, {1} if {0} else {2})",
    "name": "where = {1} if {0} else {2}\ntorch.load(p, map_location=where)",
    "statement": "if {0}:\n    where = {1}\nelse:\n    where = {2}\ntorch.load(p, map_location=where)",
    "another's": "net.restore(p, map_location={1} if {0} else {2})",
    "table": "torch.load(p, **({{'map_location': {1}}} if {0} else {{'map_location': {2}}}))",
}


def migrated(text: str, style: Style = "native") -> str:
    context = Context(Target(mode="eager", style=style), load())
    after = settle(text, "python", "train.py", context).text
    ast.parse(after)
    assert settle(after, "python", "train.py", context).text == after
    return after


@pytest.mark.parametrize(
    ("style", "place", "test", "way"), crossed(["native", "dual"], PLACES, TESTS, WAYS, rounds=8)
)
def test_no_half_is_left_to_cuda(way: str, test: str, place: str, style: Style) -> None:
    halves = ("None", f"({place})") if TESTS[test] else (f"({place})", "None")
    head = "import torch\n\nuse_cuda = torch.cuda.is_available()\n"
    after = migrated(head + WAYS[way].format(test, *halves) + "\n", style).partition("\nuse_cuda")[
        2
    ]
    if style == "native":
        assert "None" not in after.replace("is not None", "")
        assert "hpu" in after.replace("torch.hpu", "")
        assert place in after
    else:
        assert "None" not in re.sub(r"if ACCELERATOR == .hpu. else \(?None|is not None", "", after)


LOADS = {
    "expression": "x = torch.load(p) if {0} else torch.load(p, map_location={1})",
    "inside": "m.load_state_dict(torch.load(p) if {0} else torch.load(p, map_location={1}))",
    "statement": "if {0}:\n    x = torch.load(p)\nelse:\n    x = torch.load(p, map_location={1})",
    "deeper": "if {0}:\n    m.cuda()\n    m.load_state_dict(torch.load(p)['m'])\nelse:\n    m.load_state_dict(torch.load(p, {1})['m'])",
    "early": "def f(p):\n    if not {0}:\n        return torch.load(p, map_location={1})\n    return torch.load(p)",
    "empty table": "torch.load(p, **({{}} if {0} else {{'map_location': {1}}}))",
}


@pytest.mark.parametrize(
    ("place", "test", "way"),
    crossed(PLACES, [test for test, cuda in TESTS.items() if cuda], LOADS, rounds=3),
)
def test_no_load_is_left_without_a_place(way: str, test: str, place: str) -> None:
    head = "import torch\n\nuse_cuda = torch.cuda.is_available()\n"
    after = migrated(head + LOADS[way].format(test, f"({place})") + "\n")
    calls = [node for node in ast.walk(ast.parse(after)) if isinstance(node, ast.Call)]
    loads: list[Any] = [call for call in calls if getattr(call.func, "attr", "") == "load"]
    assert loads
    assert all(call.keywords or len(call.args) == 2 for call in loads)
    assert "{}" not in after


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.load(p, map_location=None)",
        "x = torch.load(p, map_location=None if resume else 'cpu')",
        "x = torch.load(p) if resume else torch.load(q, map_location='cpu')",
        "def f(p, map_location=None):\n    return torch.load(p, map_location=map_location)",
    ],
)
def test_other_choices_stay(text: str) -> None:
    assert migrated(f"import torch\n\n# cuda\n{text}\n").endswith(f"{text}\n")


def test_a_place_that_is_given_by_position_is_one() -> None:
    """Nothing is added beside it, whatever else the file puts on the card."""
    text = 'import torch\n\nmodel = make().to("cuda")\nstate = torch.load(path, "cpu")\nother = torch.load(path)\n'
    found = settle(text, "python", "train.py", Context(Target(mode="eager"), load())).findings
    assert [f.line for f in found if "torch.load" in f.message] == [5], found


DEFAULTS = ["map_location=None", "map_location: str | None = None", "strict=True, map_location=None", "*, map_location=None"]  # fmt: skip
HANDED = ["torch.load(path, map_location=map_location)", "torch.load(path, weights_only=False, map_location=map_location)", "torch.load(path, map_location)"]  # fmt: skip


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("handed", HANDED)
def test_a_default_without_a_place_is_told(default: str, handed: str) -> None:
    text = f"import torch\n\n\ndef restore(path, {default}):\n    torch.ones(2).cuda()\n    return {handed}\n"

    def told(text: str) -> bool:
        found = examine(text, "python", "load.py", Context(Target(), load()))
        return "HPU613" in {f.code for f in found}

    assert told(text)
    assert not told(text.replace("None", '"cpu"').replace('| "cpu"', "| None"))
    assert not told(text.replace("    return", "    map_location = map_location or place()\n    return"))  # fmt: skip
    assert not told(f"{text}\n\nrestore('a', map_location='cpu')\n")
    assert told(f"{text}\n\nrestore('a')\n")


LOADED = ["torch.load(path)", "torch.load(path.open('rb'), pickle_module=dill)", "torch.load(path, weights_only=False)"]  # fmt: skip


@pytest.mark.parametrize("load", LOADED)
@pytest.mark.parametrize("restores", [True, False])
@pytest.mark.parametrize("other", ["x.cuda()", "x.cpu()"])
def test_states_that_a_file_without_a_device_restores(tmp_path: Path, load: str, restores: bool, other: str) -> None:  # fmt: skip
    used = "self.model.load_state_dict(payload)" if restores else "self.rows = payload"
    (tmp_path / "base.py").write_text(
        f"import dill\nimport torch\n\n\nclass Base:\n    def load(self, path):\n        payload = {load}\n        {used}\n"
    )
    (tmp_path / "train.py").write_text(f"import torch\n\n\ndef f(x):\n    return {other}\n")
    told = {each.code for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "base.py" for each in f.findings}  # fmt: skip
    assert ("HPU613" in told) == (restores and "cuda" in other)
