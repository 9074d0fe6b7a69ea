"""Columns of the profiler's tables whose names are put together, and texts that are only a part of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target

ENDINGS = ("_time_total", "_memory_usage")
#: A text with an ending, and whether it is a column of a device.
TEXTS = {
    '"{0}"': False, 'key.endswith("{0}")': False, '"self_" "cuda" + "{0}"': False, '"self_" + "{0}"': False, 'f"{{n}}_{{device.type}}{0}"': False,
    'device.type + "{0}"': True, 'f"self_{{device.type}}{0}"': True, '"self_" + device + "{0}"': True,
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_an_ending_alone_is_no_column(tmp_path: Path, text: str) -> None:
    for ending in ENDINGS:
        code = "import torch\nfrom torch.profiler import ProfilerActivity, profile\n"
        code += f'with profile(activities=[ProfilerActivity.CUDA]) as prof:\n    say({text.format(ending)})\nprof.key_averages().table(sort_by="cuda_time_total")\n'
        (tmp_path / f"t{ending}.py").write_text(code)
    for file in analyse([tmp_path], Target(), jobs=1).files:
        codes = [one.code for one in file.findings]
        assert codes.count("HPU617") == 1
        assert codes.count("HPU618") == 1 + TEXTS[text]
        assert "HPU004" not in codes
