"""Host tensors among the arguments of an operator: lazy mode copies them to the card, eager mode refuses them."""

from __future__ import annotations

import pytest

CASES = {
    "comparison": "torch.eq(torch.ones(3), torch.ones(3, device='hpu')).all().item()",
    "allclose": "torch.allclose(torch.ones(3), torch.ones(3, device='hpu'))",
    "linear": "torch.nn.Linear(2, 2).to('hpu')(torch.ones(1, 2)).device.type == 'hpu'",
    "index": "torch.zeros(3, 2, device='hpu').index_copy_(0, torch.tensor([1]), torch.ones(1, 2, device='hpu')).sum().item() == 2",
}


@pytest.mark.parametrize("name", CASES)
def test_lazy_mode_copies(run, name: str) -> None:
    code = f"""
    import torch
    import hpushim
    before = hpushim.ledger()["host_to_device"]
    assert {CASES[name]}
    """
    run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE="1")


def test_the_copy_is_counted(run) -> None:
    code = """
    import torch, hpushim
    device = torch.ones(3, device="hpu")
    before = hpushim.ledger()["host_to_device"]
    torch.add(device, torch.ones(3))
    assert hpushim.ledger()["host_to_device"] == before + 1
    """
    run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE="1")


@pytest.mark.parametrize("name", CASES)
def test_eager_mode_refuses(run, name: str) -> None:
    done = run(f"import torch\n{CASES[name]}", check=False, HPUSHIM="emulate", PT_HPU_LAZY_MODE="0")
    assert "Expected all tensors to be on the same device" in done.stderr


def test_a_host_tensor_that_is_written_is_refused_in_both(run) -> None:
    code = "import torch\ntorch.ones(3).add_(torch.ones(3, device='hpu'))"
    for lazy in ("0", "1"):
        done = run(code, check=False, HPUSHIM="emulate", PT_HPU_LAZY_MODE=lazy)
        assert "Expected all tensors to be on the same device" in done.stderr
