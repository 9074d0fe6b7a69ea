"""Files of another framework, of which the rules' own runs no part."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.project import migrate
from hpushim.model import Target

JAX = ["import jax\n", "from jax import numpy as jnp\n", "import tensorflow as tf\n"]
OURS = ["import torch\n", "from nets import Net\n", "import importlib\n\nf = importlib.import_module(name)\n"]  # fmt: skip
RUN = "CUDA_VISIBLE_DEVICES=1 python {0}\n"


@pytest.mark.parametrize(("theirs", "ours"), crossed(JAX, OURS, rounds=3))
def test_a_program_of_another_framework_is_one_that_imports_no_torch_however_far(tmp_path: Path, theirs: str, ours: str) -> None:  # fmt: skip
    files = {
        "nets.py": "import torch\n\nNet = torch.nn.Linear(2, 2).cuda()\n",
        "data/sim.py": theirs,
        "data/both.py": theirs + ours,
        "data/through.py": "from inner import step\n",
        "data/upwards.py": "import sys\n\nsys.path.append('..')\nfrom inner import step\nfrom utils import save\n"
        + theirs,
        "inner.py": theirs,
        "utils.py": "import numpy\n",
        "models/utils.py": "import torch\n",
    }
    scripts = {f"data/{Path(name).stem}.sh": RUN.format(Path(name).name) for name in files if name.startswith("data/")}  # fmt: skip
    for name, text in {**files, **scripts}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    migrate([tmp_path], Target(), allow_dirty=True)
    turned = {name for name in scripts if "HABANA" in (tmp_path / name).read_text()}
    assert turned == {"data/both.sh"}
