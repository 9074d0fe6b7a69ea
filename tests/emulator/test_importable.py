"""Ported scripts import the vendor's package first: before torch, and knowing nothing of hpushim."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm
from crossed import crossed

Run = Callable[..., "subprocess.CompletedProcess[str]"]

USE = """
import sys
import torch
import habana_frameworks.torch as ht
assert torch.hpu is ht.hpu and torch.hpu.is_available()
model = torch.nn.Linear(2, 2).to("hpu")
model(torch.ones(1, 2, device="hpu")).sum().backward()
ht.core.mark_step()
assert model.weight.grad.device.type == "hpu"
assert "hpushim.emulator.device" in sys.modules
"""

FIRST = {
    "the package": "import habana_frameworks.torch",
    "core": "import habana_frameworks.torch.core as htcore",
    "hpu": "import habana_frameworks.torch.hpu as hthpu",
    "graphs and all": "from habana_frameworks.torch import hpu, core, distributed",
    "hccl": "import habana_frameworks.torch.distributed.hccl",
    "an optimizer": "from habana_frameworks.torch.hpex.optimizers import FusedAdamW",
    "a kernel": "from habana_frameworks.torch.hpex.kernels import FusedSDPA",
    "the mode": "from habana_frameworks.torch.utils.internal import is_lazy",
    "the compile backend": "import habana_frameworks.torch.dynamo.compile_backend",
    "the data loader": "import habana_dataloader",
    "torch": "import torch",
}


@pytest.mark.parametrize(
    ("first", "asked"),
    crossed(FIRST, ["HPUSHIM=emulate", "import hpushim", "without autoload"], rounds=1),
)
def test_any_part_may_come_first(run: Run, first: str, asked: str) -> None:
    changes = {"HPUSHIM": "emulate"}
    if asked == "without autoload":
        changes["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    start = "import hpushim\n" if asked == "import hpushim" else ""
    run(f"{start}{FIRST[first]}\n{USE}", **changes)


@pytest.mark.parametrize("lazy", ["0", "1"])
def test_in_each_mode(run: Run, lazy: str) -> None:
    code = f"""
    import habana_frameworks.torch as ht
    assert ht.utils.internal.is_lazy() is {lazy == "1"}
    assert hasattr(ht.hpu, "wrap_in_hpu_graph") is {lazy == "1"}
    """
    run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE=lazy)


@pytest.mark.parametrize("first", ["", "import hpushim\n"])
def test_unasked_there_is_no_such_package(run: Run, first: str) -> None:
    for asked in ("off", "auto", ""):
        done = run(
            f"{first}import habana_frameworks.torch", check=False, HPUSHIM=asked, PYTHONPATH=""
        )
        assert "No module named 'habana_frameworks'" in done.stderr


def test_the_real_package_comes_first_and_is_never_mixed(run: Run, tmp_path: Path) -> None:
    package = tmp_path / "habana_frameworks" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("REAL = True\n")
    code = "import habana_frameworks.torch as ht; assert ht.REAL"
    run(code, HPUSHIM="emulate", PYTHONPATH=str(tmp_path))
    done = run(f"{code}\nimport torch", check=False, HPUSHIM="emulate", PYTHONPATH=str(tmp_path))
    assert "the real habana_frameworks is installed" in done.stderr


def test_python_starts_without_loading_anything() -> None:
    code = "import sys; print(*(n for n in sys.modules if 'hpushim' in n or n == 'torch'))"
    for asked, loaded in (("emulate", {"_hpushim"}), ("off", set()), ("", set())):
        done = warm.run(
            [sys.executable, "-c", code],
            env={"HPUSHIM": asked},
            capture_output=True,
            text=True,
            check=True,
        )
        # the name of an editable install's finder is setuptools' business
        assert {n for n in done.stdout.split() if not n.startswith("__editable__")} == loaded
