"""A text that begins a device's text is CUDA's word, in whatever way the number is put behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target

WAYS = {
    "{0} + ':' + str(n)": True, "'{{}}:{{}}'.format({0}, n)": True, "'%s:%d' % ({0}, n)": True, "f'{{{0}}}:{{n}}'": True, "':'.join([{0}, n])": None,
    "{0} + '_' + str(n)": False, "'run-{{}}:{{}}'.format({0}, n)": False, "f'{{n}}:{{{0}}}'": False,
}  # fmt: skip
HOLDERS = {"a variable": "kind = 'cuda'\nsay({0})\n", "a default": "def f(n, kind='cuda'):\n    return {0}\n", "an attribute": "class A:\n    kind = 'cuda'\n    def f(self, n):\n        return {0}\n"}  # fmt: skip


@pytest.mark.parametrize("style", ["native", "agnostic"])
def test_a_text_before_a_colon_and_a_number_is_a_device(tmp_path: Path, style: str) -> None:
    forms = [(way, holder) for way in WAYS for holder in HOLDERS]
    for at, (way, holder) in enumerate(forms):
        name = "self.kind" if holder == "an attribute" else "kind"
        (tmp_path / f"f{at:02}.py").write_text("import torch\n" + HOLDERS[holder].format(way.format(name)))  # fmt: skip
    found = {file.path: {one.code for one in file.findings} for file in analyse([tmp_path], Target(style=style), jobs=1).files}  # type: ignore[arg-type]  # fmt: skip
    for at, (way, holder) in enumerate(forms):
        if WAYS[way] is not None:
            assert ("HPU101" in found[f"f{at:02}.py"]) is WAYS[way], (way, holder)
