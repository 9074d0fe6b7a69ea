"""A function that TorchScript reads: each question and name of CUDA's in it, and what is refused."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest
import torch

from hpushim.errors import UnsupportedOnHpu
from hpushim.shim.run import scripted

FORMS = [
        ('x.is_cuda', "x.device.type in ['cuda', 'hpu']"),
        ('x.is_cpu', 'x.is_cpu'),
        ('x.cuda()', "x.to('hpu')"),
        ('x.cuda(0, non_blocking=True)', "x.to('hpu')"),
        ('cuda(x)', 'cuda(x)'),
        ("x.to('cuda:1')", "x.to('hpu:0')"),
        ("x.to('cpu')", "x.to('cpu')"),
        ("torch.device('cuda')", "torch.device('hpu')"),
        ("torch.ones(1, device='cuda')", "torch.ones(1, device='hpu')"),
        ("torch.autocast(type='cuda')", "torch.autocast(type='hpu')"),
        ("torch.ones(1, name='cuda')", "torch.ones(1, name='cuda')"),
        ('f(device=d)', 'f(device=d)'),
        ("x.device.type == 'cuda'", "x.device.type in ['cuda', 'hpu']"),
        ("'cuda' == x.device.type", "x.device.type in ['cuda', 'hpu']"),
        ("x.device.type != 'cuda'", "x.device.type not in ['cuda', 'hpu']"),
        ("'cuda' in str(x.device)", "'cuda' in str(x.device) or 'hpu' in str(x.device)"),
        ("'cuda' not in str(x.device)", "'cuda' not in str(x.device) and 'hpu' not in str(x.device)"),
        ("x.device.type in ['cuda', 'cpu']", "x.device.type in ['cuda', 'cpu', 'hpu']"),
        ("x.device.type not in ('cuda',)", "x.device.type not in ('cuda', 'hpu')"),
        ("str(x.device).startswith('cuda')", "str(x.device).startswith('cuda') or str(x.device).startswith('hpu')"),
        ("str(x.device).startswith('cuda:0')", "str(x.device).startswith('cuda:0') or str(x.device).startswith('hpu:0')"),
        ("x.device == torch.device('cuda:0')", "x.device == torch.device('hpu:0')"),
        ("str(x.device)[:4] == 'cuda'", "str(x.device)[:4] in ['cuda', 'hpu', 'hpu:']"),
        ("x.device.type is 'cuda'", "x.device.type is 'cuda'"),
]  # fmt: skip
REFUSED = [
    "str(x.device).endswith('cuda')", "str(x.device).find('cuda')", "x.device.type in {'cuda': 1}", "{'cuda': 1}[x.device.type]", "str(x.device).startswith(('cuda', 'x'))", "1 < x.device.type == 'cuda'", "x.device.type.upper() == 'CUDA'", "x.device.type > 'cuda'",
]  # fmt: skip


def _translated(expression: str, place: tuple[str, int] = ("/p/t.py", 10)) -> str:
    tree = ast.parse(f"import torch\ndef f(x, d):\n    return {expression}\n")
    return ast.unparse(scripted.translated(tree, place)).partition("return ")[2]


@pytest.mark.parametrize(("expression", "expected"), FORMS)
def test_names_and_questions_are_those_of_hpu(
    monkeypatch: pytest.MonkeyPatch, expression: str, expected: str
) -> None:
    monkeypatch.setattr(torch, "hpu", types.SimpleNamespace(device_count=lambda: 1), raising=False)
    assert _translated(expression) == expected


@pytest.mark.parametrize("expression", REFUSED)
def test_what_has_no_form_is_refused_but_for_torch_s_own(expression: str) -> None:
    with pytest.raises(UnsupportedOnHpu) as told:
        _translated(expression)
    shown = ast.unparse(ast.parse(expression))
    assert str(told.value).startswith(f"HPU512 /p/t.py:12: TorchScript compiles {shown}, which requests CUDA and does not work on HPU")  # fmt: skip
    own = str(Path(torch.__file__).parent / "nn/x.py")
    assert _translated(expression, (own, 10)) == shown
