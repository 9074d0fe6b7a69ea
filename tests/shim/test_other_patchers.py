"""Libraries that patch torch themselves: what they set stays theirs, whichever of the two came first."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

torch = pytest.importorskip("torch", reason="the shim patches torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOT = Path(__file__).parents[2]
# transformers replaces such names for good when it sees an hpu; other libraries replace others.
SCRIPT = """
import json, os
os.environ["HPUSHIM"] = "off"
import torch, hpushim
from hpushim.shim import detect
detect.emulate()
os.environ["HPUSHIM"] = "emulate"

def theirs(original):
    def wrapper(*args, **kwargs):
        return original(*args, **kwargs)
    return wrapper

NAMES = [(torch, "compile"), (torch, "gather"), (torch, "zeros"), (torch.Tensor, "to"), (torch.cuda, "synchronize"), (torch.cuda, "FloatTensor")]
own = {name: getattr(owner, name, None) for owner, name in NAMES}
before_to = vars(torch.Tensor).get("to")

def patched():
    hooks = {}
    for owner, name in NAMES:
        hooks[name] = theirs(getattr(owner, name)) if name != "FloatTensor" else "theirs"
        setattr(owner, name, hooks[name])
    return hooks

def standing(hooks):
    return [name for owner, name in NAMES if getattr(owner, name) is hooks[name]]

report = {"names": [name for _, name in NAMES]}
hpushim.activate()
hooks = patched()
assert torch.zeros(2, device="cuda").to("cuda").is_cuda
torch.cuda.synchronize()
hpushim.deactivate()
report["after them"] = standing(hooks)
report["sticky"] = hpushim.status()["sticky"]
hpushim.activate()
report["again"] = torch.zeros(2, device="cuda").to("cuda").is_cuda
hpushim.deactivate()
report["twice"] = standing(hooks)
for owner, name in NAMES:
    if name == "to":
        continue
    setattr(owner, name, own[name])
if before_to is None:
    del torch.Tensor.to
hooks = patched()
hpushim.activate()
with hpushim.native():
    report["native"] = standing(hooks)
hpushim.deactivate()
report["before them"] = standing(hooks)
report["sticky of theirs"] = hpushim.status()["sticky"]
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = warm.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HPUSHIM_LOG": "quiet",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "PYTHONPATH": path,
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_what_was_set_over_ours_stays_and_is_named(report: dict[str, Any]) -> None:
    assert report["after them"] == report["names"]
    # What was changed is changed in place, so it is whole again under the foreign wrapper.
    assert report["sticky"] == []


def test_a_second_activation_works_on_top(report: dict[str, Any]) -> None:
    assert report["again"] is True
    assert report["twice"] == report["names"]


def test_what_stood_before_comes_back(report: dict[str, Any]) -> None:
    assert report["native"] == report["before them"] == report["names"]
    assert report["sticky of theirs"] == []
