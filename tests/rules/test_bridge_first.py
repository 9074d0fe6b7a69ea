"""Gaudi's package is imported above what imports names of ``torch.hpu``, which are there after it alone."""

from __future__ import annotations

import ast

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

FORMS = (
    "from torch import cuda\n\nn = cuda.device_count()\n",
    "from torch import cuda, nn\n\nn = cuda.device_count()\nm = nn.Linear(1, 1)\n",
    "from torch import cuda as c\n\nn = c.device_count()\n",
    "from torch.cuda import device_count\n\nn = device_count()\n",
    "from torch.cuda import device_count as count, synchronize\n\nn = count()\nsynchronize()\n",
    "import torch\nfrom torch.cuda import device_count\n\nn = device_count()\n",
    "from torch.cuda import device_count\nimport torch\n\nn = device_count()\nx = torch.ones(1).cuda()\n",
    '"""A text."""\nfrom __future__ import annotations\n\nfrom torch.cuda import device_count\n\nn = device_count()\n',
)
TRAINS = "import torch\n\nmodel = torch.nn.Linear(1, 1).cuda()\nbest = torch.optim.SGD(model.parameters(), 0.1)\nfor _ in range(3):\n    model(torch.ones(1, 1).cuda()).sum().backward()\n    best.step()\n"


@pytest.mark.parametrize("mode", ["portable", "lazy", "eager"])
@pytest.mark.parametrize("ends", ["", TRAINS])
@pytest.mark.parametrize("form", FORMS)
def test_the_bridge_is_there_before_its_names(form: str, ends: str, mode: str) -> None:
    target = Target(mode=mode)  # type: ignore[arg-type]
    text = settle(form + ends, "python", "train.py", Context(target, load())).text
    body = ast.parse(text).body
    ours = [n for n, s in enumerate(body) if "habana_frameworks" in ast.unparse(s)]
    names = [n for n, s in enumerate(body) if isinstance(s, ast.ImportFrom) and "hpu" in ast.unparse(s)]  # fmt: skip
    assert names and "cuda" not in text
    if mode == "eager":
        assert ours == []  # torch loads it by itself
    else:
        assert ours and ours[0] < names[0]
