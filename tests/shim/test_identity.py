"""Nothing is replaced by name: whoever holds, keys by, compares or pickles an object of torch's meets torch's own."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import warm

from hpushim.shim.patches import device_module

torch = pytest.importorskip("torch", reason="the shim patches torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
# What torch puts where a CUDA build has a class.
CLASSES_OF_A_CUDA_BUILD = ("_CudaStreamBase.", "_CudaEventBase.", "_cuda_")


@cache
def found() -> dict[str, list[str]]:
    """What the script in a process of its own found, by question."""
    environment = {k: v for k, v in os.environ.items() if k != "HPUSHIM"}
    done = warm.run(
        [sys.executable, str(HERE / "identity_script.py")],
        env={**environment, "HPUSHIM_LOG": "quiet", "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["asked"] > 1000
    return told["found"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "question",
    ["replaced in a module", "no longer in a table", "another name", "pickled otherwise"],
)
def test_objects_stay_the_same(question: str) -> None:
    assert found()[question] == []


def test_functions_keep_their_parameters() -> None:
    """But for those of torch.hpu that take more than there, since code for CUDA calls them."""
    wider = {name.rpartition(".")[2] for name in found()["other parameters"]}
    assert wider == set(device_module._NARROWER)
    assert all(".hpu." in name for name in found()["other parameters"])


def test_classes_keep_their_members() -> None:
    """But for the constructors of types, which change on the type itself."""
    changed = [
        name
        for name in found()["replaced in a class"]
        if not name.endswith(".__new__") and not name.startswith(CLASSES_OF_A_CUDA_BUILD)
    ]
    assert changed == []


def run(code: str, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "HPUSHIM"}
    done = warm.run(
        [sys.executable, "-c", code],
        env={
            **inherited,
            "HPUSHIM_LOG": "quiet",
            "PYTHONPATH": str(HERE.parents[1]),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


HANDLED = """
import torch
class Log(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED: seen.append(HANDLED[func])
        return super().__torch_function__(func, types, args, kwargs or {})
HANDLED = {torch.ones_like: "ones_like", torch.Tensor.to: "to", torch.Tensor.is_cuda.__get__: "is_cuda", torch.Tensor.cuda: "cuda", torch.Tensor.half: "half"}
seen = []
"""
USED = "x = torch.ones(1).as_subclass(Log); torch.ones_like(x); y = x.to('cuda'); y.is_cuda; y.cuda(); y.half(); y.to\n"


@pytest.mark.parametrize("order", ["table first", "shim first", "table first, then native"])
def test_a_table_keyed_by_functions_of_torch(order: str) -> None:
    start = "import os; os.environ['HPUSHIM'] = 'emulate'; import hpushim; hpushim.activate()\n"
    code = start + HANDLED + USED if order == "shim first" else HANDLED + start + USED
    if order.endswith("native"):
        code += "with hpushim.native():\n    x.to('cpu'); torch.ones_like(x)\nassert seen[5:] == ['to', 'ones_like'], seen\n"
    code += "print(seen[:5])"
    environment = {} if order == "shim first" else {"HPUSHIM": "off"}
    assert run(code, **environment) == "['ones_like', 'to', 'is_cuda', 'cuda', 'half']"


def test_a_mode_sees_the_functions_that_the_program_names() -> None:
    code = """
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        for name in ("zeros", "tensor", "arange", "hann_window", "sparse_coo_tensor"):
            if func is getattr(torch, name): seen.append(name)
        if func is torch.Tensor.to or func is torch.Tensor.cuda: seen.append(func.__name__)
        return func(*args, **(kwargs or {}))
seen = []
with Mode():
    x = torch.zeros(1, device="cuda"); torch.tensor([1], device="cuda:0"); torch.arange(2, device=0); torch.hann_window(2, device="cuda")
    x.to("cuda"); x.cuda(); f = x.cuda; f()
print(seen, x.device)
"""
    told = run(code, HPUSHIM="emulate")
    assert told == "['zeros', 'tensor', 'arange', 'hann_window', 'to', 'cuda', 'cuda'] hpu:0"


def test_torchs_own_tracers_know_the_functions() -> None:
    code = """
import torch, torch.fx
def f(x): return x + torch.zeros(2, device="cuda") + torch.tensor([1.0, 2.0], device="cuda")
graph = torch.fx.symbolic_trace(f)
class M(torch.nn.Module):
    def forward(self, x): return torch.ones_like(x, device="cuda").to("cuda")
nodes = [n.target for n in torch.fx.symbolic_trace(M()).graph.nodes if n.op in ("call_function", "call_method")]
torch.set_default_device("cuda")
made = torch.full((1,), 2.0).device
print(torch.ones_like in nodes, graph(torch.ones(2).cuda()).tolist(), made)
"""
    assert run(code, HPUSHIM="emulate") == "True [2.0, 3.0] hpu:0"


def test_where_no_code_can_be_written_names_are_replaced_and_it_is_said() -> None:
    code = """
import os, sys, io, logging
os.environ["HPUSHIM"] = "off"
import torch, hpushim
from hpushim.shim.mechanisms import thunks
from hpushim.shim.mechanisms.in_place import HookUnavailable
def check(): raise HookUnavailable("this is linux on aarch64, not Linux on x86-64")
thunks.check = check
os.environ.update(HPUSHIM="emulate", HPUSHIM_LOG="sites")
text = io.StringIO()
logging.getLogger("hpushim").addHandler(logging.StreamHandler(text))
tensor = torch.tensor
hpushim.activate()
x = torch.tensor([1.0], device="cuda")
made = [x, torch.zeros(1, device="cuda"), torch.ones(1).cuda(), torch.ones(1).to("cuda"), x.new_zeros(1, device="cuda")]
print({str(one.device) for one in made}, x.is_cuda, x.type(), torch.tensor is tensor, "HPU909" in text.getvalue(), end=" ")
hpushim.deactivate()
print(torch.tensor is tensor, hpushim.status()["sticky"])
"""
    assert run(code) == "{'hpu:0'} True torch.cuda.FloatTensor False True True []"
