"""A class of a package that picks a device is named where code brings it from that package, not where a text speaks of it."""

from __future__ import annotations

import pytest

from hpushim.codemods.analysis.project_facts import makers

NAMED = {
    "from transformers import Trainer": True,
    "from transformers import BertModel, Trainer as T": True,
    "from transformers import (\n    BertModel,  # a model\n    Trainer,\n)": True,
    "from transformers import BertModel, \\\n    Trainer": True,
    "from transformers.trainer import *\nTrainer()": True,
    "from transformers.trainer import Trainer": True,
    "import transformers\ntransformers.Trainer()": True,
    "import transformers as tr\nclass Own(tr.Trainer): pass": True,
    "try:\n    from transformers import Trainer\nexcept ImportError: pass": True,
    "from transformers import BertModel": False,
    "from transformers import BertModel\nclass Trainer: pass": False,
    "from transformers import BertModel\nfrom own import Trainer": False,
    "from transformers import BertModel\nfrom own.transformers import Trainer": False,
    "from transformers import (\n    BertModel,\n    # Trainer,\n)": False,
    "from transformers import (BertModel)\nTrainer = 3": False,
}
BESIDE = ["{0}", '{0}\nx = """ Trainer base class """', "{0}\n# transformers.Trainer is slow", "{0}\nclass B:\n    '''See transformers.Trainer'''", '"""Uses\nfrom transformers import Trainer\n"""\n{0}']  # fmt: skip


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("code", NAMED)
def test_a_class_that_picks_a_device(code: str, beside: str) -> None:
    data = f"import torch\n{beside.format(code)}\n".encode()
    assert (b"transformers.Trainer" in makers(data)) == NAMED[code]


@pytest.mark.parametrize("written", ["import pytorch_lightning as pl\npl.Trainer()", "from lightning.pytorch import Trainer", "from pytorch_lightning import (\n  Trainer)"])  # fmt: skip
def test_a_trainer_of_lightning(written: str) -> None:
    assert [*makers(f"import torch\n{written}\n".encode())] == [b"lightning.Trainer"]
