"""A step in a file of its own, of a program whose device is chosen in another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target

CHOSEN = {
    "a base class": (
        "from base import Base\nfrom loss import L\n\n\nclass T(Base):\n",
        'import torch\n\n\nclass Base:\n    def __init__(self, args):\n        {0} = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")\n',
    ),
    "a base of the base": (
        "from middle import Middle\nfrom loss import L\n\n\nclass T(Middle):\n",
        'import torch\n\n\nclass Base:\n    def __init__(self, args):\n        {0} = torch.device("cuda")\n',
    ),
}
MOVED = ["model.to({0})", "model.to(device={0})", "model = model.float().to({0}, non_blocking=True)"]  # fmt: skip
KEPT = ["self._device", "self.device", "self.args.device"]

STEP = "import torch\n\n\nclass L:\n    def __init__(self, model, optimizer):\n        self._optimizer = optimizer\n\n    def compute(self, logits, y):\n        loss = torch.nn.functional.cross_entropy(logits, y)\n        loss.backward()\n        self._optimizer.step()\n"


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize("kept", KEPT)
def test_a_step_in_a_file_that_names_no_device(tmp_path: Path, chosen: str, moved: str, kept: str) -> None:  # fmt: skip
    head, base = CHOSEN[chosen]
    body = f"    def train(self, model, loader):\n        # if {kept}.type != 'cpu':\n        {moved.format(kept)}\n        step = L(model, torch.optim.Adam(model.parameters()))\n        for x, y in loader:\n            step.compute(model(x.to({kept})), y.to({kept}))\n"
    files = {
        "main.py": f"import sys\nimport torch\n{head}{body}\n\nif __name__ == '__main__':\n    T(sys.argv).train(torch.nn.Linear(3, 2), [])\n",
        "base.py": base.format(kept),
        "middle.py": "from base import Base\n\n\nclass Middle(Base):\n    pass\n",
        "loss.py": STEP,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    migrate([tmp_path], Target(), write=True, jobs=1)
    loss = (tmp_path / "loss.py").read_text()
    assert loss.count("htcore.mark_step()") == 2
    assert "import habana_frameworks.torch.core as htcore" in loss


@pytest.mark.parametrize("kept", ["self.name", "torch.float32", "x", "x.device"])
def test_a_step_of_a_program_without_a_device_gets_none(tmp_path: Path, kept: str) -> None:
    (tmp_path / "main.py").write_text(f"import torch\nfrom loss import L\n\n\nclass T:\n    def train(self, model, x):\n        x = model.weight.to({kept})\n        L(model, torch.optim.Adam(model.parameters())).compute(model(x), x)\n")  # fmt: skip
    (tmp_path / "loss.py").write_text(STEP)
    migrate([tmp_path], Target(), write=True, jobs=1)
    assert (tmp_path / "loss.py").read_text() == STEP
