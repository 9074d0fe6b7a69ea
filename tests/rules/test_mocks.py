"""Tests that replace a part of ``torch.cuda``, and files of libraries that have tensors of their own."""

from __future__ import annotations

import pytest
from test_imports import migrated

HEAD = "from unittest import mock\n\nimport torch\n\nfrom app import pick\n\n\n"
TESTS = [
    '@mock.patch("torch.cuda.is_available", return_value=True)\ndef test_it(m):\n    assert pick() == torch.device("cuda")\n',
    'def test_it(monkeypatch):\n    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)\n    assert pick() == torch.device("cuda")\n',
    'def test_it(monkeypatch):\n    monkeypatch.setattr("torch.cuda.is_available", lambda: True)\n    assert pick().to("cuda") == 1\n',
    'def test_it():\n    with mock.patch.object(torch.cuda, "device_count", return_value=2):\n        assert pick() == torch.device("cuda")\n',
    '@mock.patch("torch.cuda.is_available", lambda: True)\nclass TestIt:\n    def test_it(self):\n        assert pick() == torch.device("cuda")\n',
]  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_a_test_stays_whole_with_what_it_replaces(test: str) -> None:
    assert migrated(HEAD + test) == HEAD + test


@pytest.mark.parametrize("test", TESTS)
def test_a_test_turns_whole_with_unsafe(test: str) -> None:
    found = migrated(HEAD + test, unsafe=True)
    assert "cuda" not in found
    assert "torch.hpu" in found


def test_what_has_no_counterpart_keeps_the_test() -> None:
    body = '    monkeypatch.setattr(torch.cuda, "CUDAGraph", None)\n    assert pick() == torch.device("cuda")\n'
    text = HEAD + "def test_it(monkeypatch):\n" + body
    assert migrated(text, unsafe=True) == text


def test_other_tests_of_the_file_turn() -> None:
    other = '\n\ndef test_other():\n    assert pick() == torch.device("cuda")\n'
    found = migrated(HEAD + TESTS[0] + other)
    assert found.count('torch.device("cuda")') == found.count('torch.device("hpu")') == 1


@pytest.mark.parametrize("package", ["paddle", "oneflow", "jittor"])
def test_tensors_of_another_library_stay(package: str) -> None:
    body = "\n\ndef f(x):\n    y = x.cuda(0)\n    return y.is_cuda\n"
    assert migrated(f"import {package}\n{body}") == f"import {package}\n{body}"
    assert 'to("hpu")' in migrated(f"import {package}\nimport torch\n{body}")


@pytest.mark.parametrize("module", ["transformers", "transformers.utils"])
def test_the_check_of_transformers_is_told(module: str) -> None:
    from hpushim.engine.context import Context
    from hpushim.engine.one_file import settle
    from hpushim.matrix import load
    from hpushim.model import Target

    text = f"from {module} import is_torch_cuda_available\n\nif is_torch_cuda_available():\n    print(1)\n"
    done = settle(text, "python", "a.py", Context(Target(), load()))
    assert [f.code for f in done.findings if "is_torch_hpu_available" in f.message] == ["HPU717"]


def test_a_scaler_of_the_host_keeps_its_scale() -> None:
    text = 'import torch\n\na = torch.amp.GradScaler(device="cpu")\nassert a.state_dict()["scale"] == 1\n'
    assert migrated(text) == text
    other = migrated(text.replace("cpu", "cuda"))
    assert '.get("scale", 1.0)' in other


def test_half_an_entry_of_a_table_of_devices_does_not_turn() -> None:
    text = 'import enum\n\nimport torch\n\n\nclass Kind(enum.Enum):\n    CPU = ("cpu", "CPU", "gloo")\n    CUDA = ("cuda", "GPU", "nccl")\n    XPU = ("xpu", "XPU", "ccl")\n'
    assert migrated(text) == text
