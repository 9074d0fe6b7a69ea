"""A finding in code that Gaudi skips, because the check before it stays, is a note; elsewhere it keeps its severity."""

from __future__ import annotations

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

CALLS = ["torch.cuda.get_device_capability()", "torch.cuda.cudart()", "torch.cuda.get_device_properties(0) == 9"]  # fmt: skip
SKIPPED = [
    "if torch.cuda.is_available():\n    print({})\n",
    "ok = torch.cuda.is_available() and {}\n",
    "if x.is_cuda:\n    y = {}\nelse:\n    y = 1\n",
    "def f():\n    if not torch.cuda.is_available():\n        return 0\n    return {}\n",
]
RUNS = [
    "print({})\n",
    "if torch.cuda.is_available() or many:\n    print({})\n",
    "if not torch.cuda.is_available():\n    raise RuntimeError('no device')\nprint({})\n",
    "assert torch.cuda.is_available()\nprint({})\n",
]


def severities(text: str) -> dict[str, str]:
    """The severity of each code but the check's own."""
    found = examine("import torch\n" + text, "python", "train.py", Context(Target(), load()))
    return {f.code: f.severity for f in found if f.code not in ("HPU028", "HPU108", "HPU106")}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("form", SKIPPED)
def test_it_is_a_note_behind_a_check_that_stays(form: str, call: str) -> None:
    found = severities(form.format(call))
    assert found and set(found.values()) == {"note"}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("form", RUNS)
def test_it_keeps_its_severity_where_it_runs(form: str, call: str) -> None:
    found = severities(form.format(call))
    assert found and not set(found.values()) & {"note"}
