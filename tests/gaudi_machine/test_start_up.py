"""Starting on a Gaudi machine: whatever is imported first, however torch finds its device, in each mode."""

from __future__ import annotations

import itertools

import pytest
from crossed import crossed

IMPORTS = {
    "vendor": "import habana_frameworks.torch.core as htcore",
    "hpushim": "import hpushim",
    "torch": "import torch",
}
ORDERS = [" ".join(order) for order in itertools.permutations(IMPORTS)]
AUTOLOAD = {
    "as it is": {},
    "off in torch": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    "off in the vendor's package": {"PT_HPU_AUTOLOAD": "0"},
}

# What a CUDA script does, and where it must end up.
USE = """
import sys
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.cuda.amp.autocast():
    loss = model(torch.ones(3, 4, device="cuda:0")).float().sum()
loss.backward()
optimizer.step()
torch.cuda.synchronize()
assert {p.device.type for p in model.parameters()} == {"hpu"}
import hpushim
status = hpushim.status()
assert (status["active"], status["device"]) == (True, "gaudi"), status
assert not status["missing"] and not status["sticky"], status
assert not [name for name in sys.modules if name.startswith("hpushim.emulator.")]
"""


@pytest.mark.parametrize(("order", "autoload"), crossed(ORDERS, list(AUTOLOAD), rounds=2))
def test_in_every_order(script, order: str, autoload: str) -> None:
    lines = [IMPORTS[name] for name in order.split()]
    done = script("\n".join([*lines, USE]), **AUTOLOAD[autoload])
    assert done.stderr.count("CUDA calls run on HPU (this machine has a Gaudi)") == 1, done.stderr
    assert "emulat" not in done.stderr


@pytest.mark.parametrize("first", IMPORTS)
def test_in_a_process_that_loads_torch_itself(machine, tmp_path, first: str) -> None:
    """The tests above fork from a process that holds torch; this is the start that users have."""
    path = tmp_path / "script.py"
    path.write_text("\n".join([IMPORTS[first], "import hpushim", USE]))
    done = machine.run("python", path, cwd=tmp_path, own=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("order", ["hpushim torch", "torch hpushim", "hpushim", "hpushim vendor"])
@pytest.mark.parametrize("lazy", ["0", "1"])
def test_in_each_mode(script, order: str, lazy: str) -> None:
    lines = [IMPORTS[name] for name in order.split()]
    code = f"""
from habana_frameworks.torch.utils.internal import is_lazy
assert is_lazy() is {lazy == "1"}
"""
    script("\n".join([*lines, USE, code]), PT_HPU_LAZY_MODE=lazy)


def test_compiled_code_goes_to_the_vendors_backend(script) -> None:
    done = script(
        """
        import hpushim
        import torch
        step = torch.compile(lambda x: (x * 2).sum())
        print(step(torch.ones(4, device="cuda")).item())
        print("hpu_backend" in torch._dynamo.list_backends())
        """
    )
    assert done.stdout.split() == ["8.0", "True"]


def test_nothing_happens_without_hpushim(script) -> None:
    done = script(
        """
        import sys
        import torch
        assert not torch.cuda.is_available()
        assert torch.ones(2, device="hpu").device.type == "hpu"
        assert not [name for name in sys.modules if "hpushim" in name and not name.startswith("__editable__")
                    and name not in ("_hpushim", "_hpushim_device", "_hpushim_prebuilt")]
        """
    )
    assert done.stderr == ""


def test_off_is_off(script) -> None:
    done = script(
        "import hpushim, torch\nassert not torch.cuda.is_available()\nassert torch.hpu.is_available()",
        HPUSHIM="off",
    )
    assert done.stderr == ""


def test_asked_for_by_name(script) -> None:
    script(f"import hpushim\n{USE}", HPUSHIM="hpu")
    # and by the environment alone: torch's entry point arms
    script(f"import torch\n{USE}", HPUSHIM="hpu")


def test_emulation_is_refused_beside_the_real_package(script) -> None:
    done = script("import hpushim\nimport torch", check=False, HPUSHIM="emulate")
    assert done.returncode != 0
    assert "the real habana_frameworks is installed" in done.stderr
    assert "HPUSHIM=hpu" in done.stderr


def test_a_version_of_a_fork_is_read_as_its_release(script) -> None:
    done = script(
        """
        import hpushim, torch
        assert "a0+git" in torch.__version__
        names = hpushim.status()["patches"]
        print(len(names), hpushim.status()["missing"])
        """
    )
    count, missing = done.stdout.split(maxsplit=1)
    assert int(count) > 100 and missing.strip() == "[]"


def test_undone_it_is_the_vendors_torch_again(script) -> None:
    script(
        """
        import torch
        before = torch.cuda.is_available, torch.Tensor.cuda, torch.hpu.Stream
        import hpushim
        assert torch.cuda.is_available()
        hpushim.deactivate()
        assert not torch.cuda.is_available()
        assert (torch.cuda.is_available, torch.Tensor.cuda, torch.hpu.Stream) == before
        assert torch.ones(1, device="hpu").device.type == "hpu"
        """
    )
