"""The agnostic style judges the files of a program together: what only follows a file that stays, stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse, migrate, undo
from hpushim.model import Target

#: The program that starts it all, by whether it stays; ``{0}`` is how it gets the rest.
STARTS = {
    "import torch\n{0}\n\ndef main():\n    kind = torch.cuda.get_device_capability()[0]\n    net = torch.nn.Linear(kind, 2).cuda()\n    fit(net)\n": True,
    "import torch\nimport torch.nn as nn\n{0}\n\ndef main():\n    net = nn.parallel.replicate(torch.nn.Linear(2, 2).cuda(), [0, 1])\n    fit(net)\n": True,
    "import torch\n{0}\n\ndef main():\n    fit(torch.nn.Linear(2, 2).cuda())\n": False,
}  # fmt: skip
#: The file that trains, and who else needs it.
LOOP = "import torch\nfrom exp.data import batches\n\n\ndef fit(net):\n    for x, y in batches():\n        loss = (net(x.cuda()) - y.cuda()).mean()\n        loss.backward()\n"
DATA = 'import torch\n\n\ndef batches(device="cuda"):\n    yield torch.ones(2, device=device), torch.zeros(2)\n'
ENDS = "\n\nif __name__ == '__main__':\n    main()\n"
OTHERS = {
    "nobody": ({}, ()),
    "a test": ({"tests/test_exp.py": "from exp.loop import fit\n\n\ndef test_it():\n    fit(None)\n"}, ("exp/loop.py", "exp/data.py")),
    "another program": ({"eval.py": f"import torch\nfrom exp.data import batches\n\n\ndef main():\n    net = torch.nn.Linear(2, 2).cuda()\n    print(net(next(batches())[0].cuda())){ENDS}"}, ("exp/data.py",)),
    "a program that stays": ({"eval.py": f"import torch\nfrom exp.data import batches\n\n\ndef main():\n    kind = torch.cuda.get_device_capability()[0]\n    print(torch.ones(kind).cuda(), batches){ENDS}"}, ()),
}  # fmt: skip


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("taken", ["from exp.loop import fit\n", "import exp.loop\nfit = exp.loop.fit\n", "from exp import loop\nfit = loop.fit\n"])  # fmt: skip
@pytest.mark.parametrize("start", STARTS)
def test_what_follows_a_program_that_stays_stays(tmp_path: Path, start: str, taken: str, others: str) -> None:  # fmt: skip
    more, free = OTHERS[others]
    files = {"train.py": start.format(taken) + ENDS, "exp/__init__.py": "", "exp/loop.py": LOOP, "exp/data.py": DATA, **more}  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    before = analyse([tmp_path], Target(style="agnostic"))
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    promised = {file.path for file in before.files if any(f.fix and f.fix.safety == "safe" for f in file.findings)}  # fmt: skip
    assert promised == {file.path for file in report.files if file.status == "changed"}
    after = {path: (tmp_path / path).read_text() for path in files}
    stays = STARTS[start]
    assert (after["train.py"] == files["train.py"]) is stays
    for path in ("exp/loop.py", "exp/data.py"):
        assert (after[path] == files[path]) is (stays and path not in free), path
    said = [f.message for file in report.files for f in file.findings if file.path == "exp/loop.py"]
    said += [f"{f.message} before" for file in before.files for f in file.findings if file.path == "exp/loop.py"]  # fmt: skip
    assert [each.endswith("before") for each in said if "only through `train.py`" in each] == ([False] * 2 + [True] * 2 if stays and "exp/loop.py" not in free else [])  # fmt: skip
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    while undo(tmp_path).run:
        pass
    assert {path: (tmp_path / path).read_text() for path in files} == files


#: What is left to a person in a program that has nothing to rewrite, or has all of it rewritten.
BY_HAND = {
    "a package": "from flash_attn import flash_attn_func\n{0}\n\ndef main():\n    print(flash_attn_func)\n    fit(None)\n",
    "a call": "import torch\n{0}\n\ndef main():\n    print(torch.cuda.get_device_capability())\n    fit(None)\n",
    "an extension": "import torch\nfrom torch.utils.cpp_extension import CUDAExtension\n{0}\n\ndef main():\n    print(CUDAExtension)\n    fit(None)\n",
    "a setting": "import torch\n{0}\n\ndef main():\n    torch._C._cuda_getDeviceCount()\n    fit(None)\n",
    "a package beside a rewrite": "import torch\nimport apex\n{0}\n\ndef main():\n    apex.normalization.FusedLayerNorm(2)\n    fit(torch.nn.Linear(2, 2).cuda())\n",
}  # fmt: skip


@pytest.mark.parametrize("taken", ["from exp.loop import fit\n", "import exp.loop\nfit = exp.loop.fit\n"])  # fmt: skip
@pytest.mark.parametrize("by_hand", BY_HAND)
def test_a_program_that_holds_no_rewrite_back_holds_no_other_file(tmp_path: Path, by_hand: str, taken: str) -> None:  # fmt: skip
    files = {"train.py": BY_HAND[by_hand].format(taken) + ENDS, "exp/__init__.py": "", "exp/loop.py": LOOP, "exp/data.py": DATA}  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    before = analyse([tmp_path], Target(style="agnostic"))
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    promised = {file.path for file in before.files if any(f.fix and f.fix.safety == "safe" for f in file.findings)}  # fmt: skip
    changed = {file.path for file in report.files if file.status == "changed"}
    assert promised == changed >= {"exp/loop.py", "exp/data.py"}
