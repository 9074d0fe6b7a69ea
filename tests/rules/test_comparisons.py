"""The forms in which programs compare devices, of ``tests/compare``: the codemod turns or tells each that spells CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))
from forms import FORMS, FormCase

from hpushim.compare import PART, find_named
from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.pycode.source import Source


def settled(case: FormCase) -> Settled:
    return settle(
        f"import torch\n{case.code}", "python", "train.py", Context(Target(), load(), ALONE)
    )


def spells(case: FormCase) -> bool:
    """Has it CUDA's name or, as the text that a device is compared with, a part of it: `x.device.type[:2] == "cu"`?"""
    named = any(one.texts for one in find_named(Source(case.code)))
    return "cuda" in case.code.lower() or (named and PART.search(case.code.encode()) is not None)


SPELLED = [case for case in FORMS if case.holds == "device" and spells(case)]


@pytest.mark.parametrize("case", SPELLED, ids=lambda case: case.name)
def test_a_comparison_is_turned_or_told(case: FormCase) -> None:
    result = settled(case)
    assert result.findings
    assert not [found for found in result.findings if found.code == "HPU004"]


@pytest.mark.parametrize(
    "case",
    # The shim answers with CUDA's name of a type; a migrated copy compares with Gaudi's.
    [case for case in FORMS if case.holds != "device" and case.name != "type of a tensor"],
    ids=lambda case: case.name,
)
def test_what_is_none_or_knows_gaudi_stays(case: FormCase) -> None:
    assert settled(case).text == f"import torch\n{case.code}"


def test_nearly_every_form_spells_cuda() -> None:
    assert len(SPELLED) >= 85


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('self.assertEqual(x.device.type, "cuda")', 'self.assertEqual(x.device.type, "hpu")'),
        ('self.assertEqual("cuda", x.device.type, "m")', 'self.assertEqual("hpu", x.device.type, "m")'),
        ('self.assertNotEqual(str(x.device), "cuda:0")', 'self.assertNotEqual(str(x.device), "hpu:0")'),
        ('self.assertIn(x.device.type, ("cuda", "cpu"))', 'self.assertIn(x.device.type, ("hpu", "cpu"))'),
        ('self.assertEqual(self.name, "cuda")', 'self.assertEqual(self.name, "cuda")'),
    ],
)  # fmt: skip
def test_comparisons_of_unittest(before: str, after: str) -> None:
    head = "import torch\nimport unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        x = torch.zeros(3, device=device)\n        "
    done = settle(f"{head}{before}\n", "python", "cases.py", Context(Target(), load(), ALONE))
    assert done.text == f"{head}{after}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('KEEP = {"CUDA_VISIBLE_DEVICES"}\n', "`HABANA_VISIBLE_MODULES`"),
        ('env = [{"name": "NCCL_SOCKET_IFNAME", "value": "ib"}]\n', "`HCCL_SOCKET_IFNAME`"),
        ("try:\n    from torch.cuda.amp import GradScaler\nexcept ImportError:\n    class GradScaler:\n        pass\n\ns = GradScaler()\n", "bfloat16"),
    ],
)  # fmt: skip
def test_what_stays_is_told_with_its_counterpart(text: str, said: str) -> None:
    done = settle(f"import torch\n{text}", "python", "a.py", Context(Target(), load(), ALONE))
    assert [f for f in done.findings if said in f.message]
