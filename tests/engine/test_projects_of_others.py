"""A project that trains with another framework than torch is not called clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpushim.engine.base.kind import Kind
from hpushim.engine.facts import Facts
from hpushim.engine.files.discover import File
from hpushim.engine.project import analyse
from hpushim.model import Target
from hpushim.report.assessment import assess


@pytest.mark.parametrize(
    ("files", "other"),
    [
        ([b"import tensorflow as tf\n"], "TensorFlow"),
        ([b"import numpy\n", b"    from jax.experimental import pallas\n", b"import flax\n"], "JAX"),
        ([b"import tensorflow as tf\n", b"from torch.utils.tensorboard import SummaryWriter\n"], ""),
        ([b"import pytorch_lightning as pl\nimport keras\n"], ""),
        ([b"import mxnet\n", b"import paddle\n", b"import paddle.nn\n"], "PaddlePaddle"),
        ([b"text = 'tensorflow'\n# import tensorflow\n"], ""),
        ([b"import tensorflow_datasets\n"], ""),
        ([json.dumps({"cells": [{"source": ["import tensorflow as tf\n"]}]}, indent=1).encode()], "TensorFlow"),
        ([b""], ""),
    ],
)  # fmt: skip
def test_what_trains(files: list[bytes], other: str) -> None:
    seen = Facts()
    for data in files:
        kind: Kind = "notebook" if data.startswith(b"{") else "python"
        seen.see(File(Path("file"), "file", kind), data)
    assert seen.other_framework == other


def test_the_verdict_says_what_was_not_judged(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import tensorflow as tf\nwith tf.device('/gpu:0'):\n    pass\n"
    )
    (tmp_path / "data.py").write_text("import numpy\n")
    summary = assess(analyse([tmp_path], Target())).summary
    assert summary.verdict == "needs work"
    assert summary.sentence.startswith("This code uses TensorFlow, not torch")
