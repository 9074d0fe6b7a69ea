"""Workers of a loader fork unless their own program says otherwise: another program's context is no sign."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target

LOADER = 'import torch\nfrom torch.utils.data import DataLoader\n{0}\n\ndef run(data, model):\n    model.to("hpu")\n    opt = torch.optim.SGD(model.parameters(), 0.1)\n    for x in DataLoader(data, batch_size=8, num_workers=4, drop_last=True):\n        model(x.to("hpu")).sum().backward()\n        opt.step()\n'
ASKED = "import multiprocessing as mp\n{0}\n\ndef go(f):\n    p = mp.get_context({1}).Process(target=f)\n    p.start()\n"
FORMS = {
    "another program": ({"t.py": LOADER.format(""), "other.py": ASKED}, True),
    "another program that shares a file": ({"t.py": LOADER.format("import shared"), "shared.py": "x = 1\n", "other.py": "import shared\n" + ASKED}, True),
    "its caller": ({"t.py": LOADER.format(""), "other.py": "import t\n" + ASKED}, False),
    "beside it in a program": ({"t.py": LOADER.format(""), "other.py": ASKED, "main.py": "import t\nfrom other import go\n\ngo(t.run)\n"}, False),
    "what it imports": ({"t.py": LOADER.format("import other"), "other.py": ASKED}, False),
}  # fmt: skip


@pytest.mark.parametrize("given", ['"spawn"', '"forkserver"', 'method="spawn"'])
@pytest.mark.parametrize("form", FORMS)
def test_a_context_of_a_program(tmp_path: Path, form: str, given: str) -> None:
    files, told = FORMS[form]
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("{1}", given).replace("{0}", ""))
    found = migrate([tmp_path], Target(), write=False, jobs=1)
    assert any(each.code == "HPU325" for f in found.files for each in f.findings) == told
