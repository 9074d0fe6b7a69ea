"""What a project's Python requires of a value that a setting or a machine gives it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target

COMPARED = ["if {0} == 'cuda':\n        torch.cuda.set_device(0)\n        return torch.device('cuda')\n    raise ValueError({0})", "return torch.device('cuda' if {0} == 'cuda' else 'cpu')", "if {0} != \"cuda\":\n        return 'cpu'\n    return torch.device('cuda')"]  # fmt: skip
NAMES = {"accelerator": True, "train_dev": True, "impl": False, "kind": False}
SETTINGS = {"yaml": "trainer:\n  {0}: cuda\n", "json": '{{"{0}": "cuda"}}\n', "toml": '[trainer]\n{0} = "cuda"\n'}  # fmt: skip


@pytest.mark.parametrize(("compared", "name"), crossed(COMPARED, list(NAMES), rounds=3))
@pytest.mark.parametrize("kind", list(SETTINGS))
def test_a_setting_turns_with_the_comparison_that_reads_it(tmp_path: Path, compared: str, name: str, kind: str) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text(f"import torch\n\n\ndef setup({name}):\n    {compared.format(name)}\n")  # fmt: skip
    (tmp_path / f"conf.{kind}").write_text(SETTINGS[kind].format(name))
    found = {f.path: f.findings for f in analyse([tmp_path], Target(), jobs=1).files}
    (setting,) = [f for f in found[f"conf.{kind}"] if f.code == "HPU801"]
    assert (setting.fix is not None and setting.fix.safety == "safe") == NAMES[name]
    turned = any(f.code == "HPU107" and f.fix is not None for f in found["train.py"])
    assert turned == NAMES[name]


STOPS = {
    "assert {0} % n == 0": True,
    "assert not {0} % n, 'no'": True,
    "if {0} % n != 0:\n        raise ValueError({0})": True,
    "if {0} % n:\n        sys.exit(1)": True,
    "print({0} % n)": False,
    "if {0} % n:\n        print(1)": False,
    "assert n % {0} == 0": False,
}
COUNTED = ["n = torch.cuda.device_count()", "n = max(1, torch.cuda.device_count())", "n = args.n_gpu"]  # fmt: skip


@pytest.mark.parametrize(("stop", "counted"), crossed(list(STOPS), COUNTED, rounds=3))
@pytest.mark.parametrize("name", ["batch_size", "args.batch_size", "rank"])
def test_a_multiple_of_the_number_of_devices(stop: str, counted: str, name: str) -> None:
    wanted = STOPS[stop] and "batch" in name
    if "args" in counted:
        stop = re.sub(r"\bn\b", "args.n_gpu", stop)
    text = f"import sys\nimport torch\n\n\ndef f(args, batch_size, rank):\n    torch.ones(2).cuda()\n    {counted}\n    {stop.format(name)}\n"
    found = examine(text, "python", "train.py", Context(Target(), load()))
    assert ("HPU323" in {f.code for f in found}) == wanted
