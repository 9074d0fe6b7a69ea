"""Run by ``test_packages.py``: prints what became of imports, one JSON object."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

import hpushim


def outcome(name: str) -> str:
    """``imported``, or the error."""
    try:
        __import__(name)
    except ImportError as error:
        return f"{type(error).__name__}: {error}"
    return "imported"


def main() -> None:
    """Imports what it is told, then uses the stand-ins."""
    hpushim.activate()
    import torch

    found: dict[str, object] = {}

    for package in sys.argv[1].split(","):
        found[package] = [importlib.util.find_spec(package) is not None, outcome(package)]
    # The emulator puts an hl-smi of its own first.
    os.environ["PATH"] = os.environ.get("HL_SMI", "") + os.pathsep + os.environ["PATH"]
    import pynvml

    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    for question in (
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetFanSpeed",
        "nvmlDeviceGetPowerUsage",
    ):
        try:
            found[question] = getattr(pynvml, question)(card)
        except pynvml.NVMLError as error:
            found[question] = f"{type(error).__name__}: {error}"
    try:
        found["constant"] = pynvml.NVML_NO_SUCH_CONSTANT
    except AttributeError as error:
        found["constant"] = str(error)

    from apex import amp
    from apex.optimizers import FusedAdam, FusedLAMB

    model = torch.nn.Linear(4, 2).cuda()
    optimizer = FusedLAMB(model.parameters(), lr=0.1, use_nvlamb=True)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    before = model.weight.detach().clone()
    out = model(torch.ones(3, 4, device="cuda"))
    with amp.scale_loss(out.sum(), optimizer) as loss:
        loss.backward()
    optimizer.step()
    found["lamb"] = [
        type(optimizer).__name__,
        str(out.dtype),
        not torch.equal(before, model.weight),
    ]
    weights = torch.nn.Parameter(torch.ones(2))
    found["adam"] = [
        type(FusedAdam([weights], adam_w_mode=mode)).__name__ for mode in (True, False)
    ]
    hpushim.deactivate()
    found["after"] = [
        outcome("flash_attn"),
        "pynvml" in sys.modules,
        importlib.util.find_spec("apex") is None,
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
