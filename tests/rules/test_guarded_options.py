"""A condition that decides about ``fused=True`` alone is turned off where the options are made; where the optimizer is made, the option goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.model import Target

#: What is found at which line: HPU605 turns the condition off, HPU601 takes the option out.
WAYS = {
    "extra = {{}}\nif {0}:\n    extra = {1}\nopt = torch.optim.{2}(p, **extra)\n": ("HPU605", 3),
    "extra = {1} if {0} else {{}}\nopt = torch.optim.{2}(p, **extra)\n": ("HPU605", 2),
    "opt = torch.optim.{2}(p, fused=True) if {0} else torch.optim.{2}(p)\n": ("HPU605", 2),
    "if {0}:\n    opt = torch.optim.{2}(p, fused=True)\nelse:\n    opt = torch.optim.{2}(p)\n": ("HPU601", 3),
    "opt = torch.optim.{2}(p, fused={0})\n": ("HPU605", 2),
    "opt = torch.optim.{2}(p, fused=True)\n": ("HPU601", 2),
}  # fmt: skip
TESTS = ("torch.cuda.is_available()", "device.type == 'cuda'")
OPTIONS = ("dict(fused=True)", "dict(lr=0.1, fused=True)")


@pytest.mark.parametrize("style", ["native", "dual"])
def test_what_is_turned_off_is_what_decides_about_the_option(tmp_path: Path, style: str) -> None:
    forms = [(way, way.format(test, options, made)) for way in WAYS for test in TESTS for options in OPTIONS for made in ("AdamW", "SGD")]  # fmt: skip
    for at, (_, text) in enumerate(forms):
        (tmp_path / f"f{at:02}.py").write_text(f"import torch\n{text}")
    found = {file.path: [(one.code, one.line) for one in file.findings if one.code in ("HPU601", "HPU605")] for file in analyse([tmp_path], Target(style=style), jobs=1).files}  # type: ignore[arg-type]  # fmt: skip
    for at, (way, text) in enumerate(forms):
        assert found[f"f{at:02}.py"] == [WAYS[way]], text
