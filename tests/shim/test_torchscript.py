"""TorchScript reads a function's source anew: device names in it mean HPU, and what cannot is refused with its code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import warm

torch = pytest.importorskip("torch", reason="scripts are compiled by torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
HEAD = "import torch, hpushim\n"


def run(folder: Path, code: str, **environment: str) -> str:
    """The standard output of a script under the shim."""
    script = folder / "script.py"
    script.write_text(HEAD + code)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=folder,
        env={**inherited, "HPUSHIM": "emulate", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


ASKS = """
@torch.jit.script
def asks(x):
    n = 0
    if x.is_cuda:
        n += 1
    if x.device.type == "cuda":
        n += 10
    if x.device == torch.device("cuda:0"):
        n += 100
    if x.device.type != "cuda":
        n += 1000
    if "cuda" in str(x.device):
        n += 10000
    if x.device.type in ["cuda", "xpu"]:
        n += 100000
    if str(x.device).startswith("cuda"):
        n += 1000000
    return n

class Layer(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros(1, device="cuda") + torch.ones(1, device=torch.device("cuda", 0)).to("cuda")
        return y.cuda() + x.cuda() if x.is_cuda else y
layer = torch.jit.script(Layer())
print(asks(torch.ones(1).cuda()), asks(torch.ones(1)), layer(torch.ones(1).cuda()).device, layer(torch.ones(1)).device)
"""


def test_names_and_questions_mean_hpu(tmp_path: Path) -> None:
    assert run(tmp_path, ASKS) == "1110111 1000 hpu:0 hpu:0"


@pytest.mark.parametrize(
    "line",
    [
        '{"cuda": 1, "cpu": 2}[x.device.type]',
        'x.device.type == y.device.type == "cuda"',
        'int(str(x.device).replace("cuda:", ""))',
        'x.device.type.upper() == "CUDA"',
        'x.device.type.upper().startswith("CUDA")',
    ],
)
def test_what_cannot_be_said_in_torchscript_is_refused(tmp_path: Path, line: str) -> None:
    code = (
        f"def f(x, y):\n    return {line}\n"
        "try:\n    torch.jit.script(f)\nexcept hpushim.errors.UnsupportedOnHpu as error:\n    print(error)\n"
    )
    told = run(tmp_path, "import hpushim.errors\n" + code)
    assert told.startswith("HPU512 ") and "script.py:4: " in told


LOADED = """
import hpushim.errors
class Inner(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.is_cuda else x
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return self.inner(x)
with hpushim.native():
    torch.jit.script(Outer()).save("m.pt")
loaded = torch.jit.load("m.pt", map_location="cuda")
print(loaded(torch.ones(1)).item(), end=" ")
try:
    loaded(torch.ones(1).cuda())
except hpushim.errors.UnsupportedOnHpu as error:
    print("HPU512" in str(error))
"""


def test_what_was_compiled_elsewhere_and_asks_is_cuda_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, LOADED) == "1.0 True"


POLICIES = """
@torch.jit.script
def f(x):
    return x + 1
f(torch.ones(1))
try:
    print(f(torch.ones(1).to("hpu")).device)
except NotImplementedError as error:
    print("HPU512" in str(error) and "script.py:8" in str(error))
"""


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("policy", "told"), [("observe", "hpu:0"), ("faithful", "True"), ("strict", "True")])  # fmt: skip
def test_each_policy(tmp_path: Path, policy: str, told: str, native: bool) -> None:
    start = "from hpushim.shim import detect; detect.emulate()\n" if native else ""
    mode = "off" if native else "emulate"
    assert run(tmp_path, start + POLICIES.replace(":8", ":9" if native else ":8"), HPUSHIM=mode, HPUSHIM_POLICY=policy) == told  # fmt: skip


def test_type_comments_and_messages_keep_their_lines(tmp_path: Path) -> None:
    code = (
        "def f(x, n):\n    # type: (torch.Tensor, int) -> int\n    if x.is_cuda:\n        return n\n    return n.nothing\n"
        "try:\n    torch.jit.script(f)\nexcept RuntimeError as error:\n    print('n.nothing' in str(error), 'script.py\", line 6' in str(error))\n"
    )
    assert run(tmp_path, code) == "True True"


def test_what_torch_scripts_itself_is_imported(tmp_path: Path) -> None:
    """torch.distributed.optim compiles torch's own optimizers, which look devices up in a list of torch's."""
    code = "import torch.distributed.optim as o\nprint(hasattr(o, 'DistributedOptimizer'))"
    assert run(tmp_path, code) == "True"
