"""Torch ends as it began: random sequences of activate, deactivate, native and calls, compared by identity."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm
from crossed import EVERY
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hpushim import matrix

torch = pytest.importorskip("torch", reason="the shim patches torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = st.sampled_from(["activate", "deactivate", "use"])
# What is done in a native block may open another; threads switch the shim under each other.
THREADS = st.lists(
    st.lists(st.sampled_from(["activate", "deactivate", "native", "use"]), max_size=6),
    min_size=2,
    max_size=3,
)
STEPS = st.lists(
    st.recursive(
        NAMES | st.fixed_dictionaries({"threads": THREADS}),
        lambda inner: st.fixed_dictionaries({"native": st.lists(inner, max_size=3)}),
        max_leaves=6,
    ),
    max_size=6,
)


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with the repository on its path, quiet unless told otherwise."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(ROOT)]))
    return warm.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**inherited, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment},
    )


# No shrinking: every example is a process that loads torch, and the sequences are short as they are.
@settings(
    max_examples=10 if EVERY else 1,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=3, max_size=5))
def test_torch_ends_as_it_began(sequences: list[list[Any]]) -> None:
    done = python(str(HERE / "torch_state.py"), json.dumps(sequences), HPUSHIM_LOG="quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    for steps, (differs, sticky) in zip(
        sequences, json.loads(done.stdout.splitlines()[-1]), strict=True
    ):
        assert (differs, sticky) == ([], []), steps


def test_nested_native_blocks_and_threads() -> None:
    """The cases that random sequences rarely reach."""
    sequences: list[list[Any]] = [
        ["activate", {"native": [{"native": []}, "activate"]}, "use"],
        ["activate", {"native": ["deactivate", {"native": ["activate"]}]}, "use", "deactivate"],
        [{"native": ["activate"]}, "use"],
        ["activate", {"threads": [["native", "use"] * 5, ["native", "native"] * 3]}, "use"],
        [{"threads": [["activate", "deactivate"] * 4, ["use"] * 20, ["native", "activate"]]}],
    ]
    done = python(str(HERE / "torch_state.py"), json.dumps(sequences), HPUSHIM_LOG="quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    reports = json.loads(done.stdout.splitlines()[-1])
    assert reports == [[[], []]] * len(sequences)


def test_native_blocks_say_when_the_shim_goes_on() -> None:
    code = (
        "import torch, hpushim; on = lambda: hpushim.status()['active']; seen = []\n"
        "with hpushim.native():\n"
        "    with hpushim.native():\n        seen.append(on())\n"
        "    seen.append(on()); hpushim.deactivate(); seen.append(hpushim.activate())\n"
        "seen.append(on())\n"
        "with hpushim.native():\n    hpushim.deactivate()\n"
        "seen.append(on())\nprint(seen)"
    )
    done = python("-c", code, HPUSHIM="emulate", HPUSHIM_LOG="quiet")
    assert done.stdout.strip() == "[False, False, False, True, False]", done.stderr


CUDA_MACHINE = """
import sys
sys.path.insert(0, {here!r})
import torch
torch.cuda.is_available = lambda: True  # as torch itself would say on such a machine
torch.backends.cuda.is_built = lambda: True
import torch_state
before = torch_state.snapshot()
import hpushim
assert hpushim.activate() is False
assert torch_state.difference(before, torch_state.snapshot()) == []
assert not hpushim.status()["patches"] and "CUDA" in hpushim.status()["reason"]
assert str(torch.device("cuda:3")) == "cuda:3"
"""


def test_working_cuda_means_nothing_is_patched() -> None:
    code = CUDA_MACHINE.format(here=str(HERE))
    done = python("-c", code, HPUSHIM="auto", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "hpushim:" not in done.stderr


ON_CUDA = """
import importlib.abc, sys
import torch
torch.cuda.is_available = lambda: True  # as torch itself would say on such a machine
torch.backends.cuda.is_built = lambda: True
sys.path.insert(0, {here!r})
import torch_state
before = torch_state.snapshot()
{start}
assert torch_state.difference(before, torch_state.snapshot()) == []
import hpushim
assert not hpushim.status()["active"] and not hpushim.status()["patches"]
"""


@pytest.mark.parametrize("variable", ["auto", "1"])
def test_working_cuda_and_the_entry_point(variable: str) -> None:
    """``HPUSHIM=…`` in the environment of a CUDA machine: torch's entry point patches nothing and says nothing."""
    code = ON_CUDA.format(here=str(HERE), start="import _hpushim; _hpushim.autoload()")
    done = python("-c", code, HPUSHIM=variable, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("hpushim:") <= 1


def test_working_cuda_and_run(tmp_path: Path) -> None:
    """``hpushim run`` on a CUDA machine: nothing is patched, the script runs as it is, and one line says so."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch, torch_state, hpushim\n"
        "assert not hpushim.status()['patches'], hpushim.status()\n"
        "assert str(torch.device('cuda:3')) == 'cuda:3'\n"
        "assert torch_state.difference(torch_state.as_it_was, torch_state.snapshot()) == []\n"
        "print(sys.argv[1:], torch.device('cuda').type == 'cuda')\n"
    )
    start = (
        "torch_state.as_it_was = before\n"
        f"sys.argv = ['hpushim', 'run', {str(script)!r}, 'a']\n"
        "import hpushim.cli, hpushim.shim.run.launch\n"
        "hpushim.shim.run.launch._cuda_build = lambda: True  # as torch's version file would say\n"
        "try:\n    hpushim.cli.main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code"
    )
    code = ON_CUDA.format(here=str(HERE), start=start)
    done = python("-c", code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "['a'] True"
    assert done.stderr.count("hpushim:") == 1 and "CUDA" in done.stderr, done.stderr


def test_neither_cuda_nor_gaudi_stays_off_and_says_how_to_emulate() -> None:
    done = python("-c", "import hpushim, torch; print(torch.device('cuda'))", HPUSHIM="auto")
    assert done.stdout.strip() == "cuda" and done.returncode == 0
    assert done.stderr.count("hpushim:") == 1 and "HPUSHIM=emulate" in done.stderr


def test_off_is_silent() -> None:
    done = python("-c", "import hpushim, torch; print(torch.device('cuda'))", HPUSHIM="off")
    assert (done.stdout.strip(), done.stderr) == ("cuda", "")


def test_import_is_light() -> None:
    code = "import sys, hpushim; print([m for m in ('torch', 'libcst', 'msgspec', 'tomli', 'click', 'numpy') if m in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_import_before_and_after_torch() -> None:
    for order in ("import hpushim, torch", "import torch, hpushim"):
        done = python(
            "-c",
            f"{order}; print(torch.ones(1).cuda().device)",
            HPUSHIM="emulate",
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        )
        assert done.stdout.strip() == "hpu:0", done.stderr


def test_environment_alone_is_enough() -> None:
    done = python("-c", "import torch; print(torch.ones(1).cuda().device)", HPUSHIM="emulate")
    assert done.stdout.strip() == "hpu:0", done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HPUSHIM", "maybe"), ("HPUSHIM_GAUDI", "gaudi9"), ("HPUSHIM_DEVICES", "none")],
)
def test_bad_environment_is_one_clear_error(variable: str, value: str) -> None:
    environment = {"HPUSHIM": "emulate", variable: value, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = python("-c", "import hpushim, torch", **environment)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and variable in last and value in last and "expected" in last


def test_asking_module_decides(tmp_path: Path) -> None:
    rows = matrix.load()
    blocked = {name for row in rows.by_runtime("block") for name in row.names}
    nvidia = next(name for name in rows.policy.nvidia_only if name not in blocked | {"apex"})
    for name in (nvidia, "accelerate", "my_library"):
        (tmp_path / f"{name}.py").write_text("import torch\nanswer = torch.cuda.is_available()\n")
    code = (
        f"import hpushim, torch, {nvidia}, accelerate, my_library\n"
        f"print({nvidia}.answer, accelerate.answer, my_library.answer, torch.cuda.is_available())"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    answers = {
        "auto": "False False True True",
        "1": "True True True True",
        "0": "False False False False",
    }
    for setting, expected in answers.items():
        done = python(
            "-c", code, HPUSHIM="emulate", HPUSHIM_CUDA_AVAILABLE=setting, PYTHONPATH=path
        )
        assert done.stdout.strip() == expected, done.stderr


def test_names_taken_by_value_need_nothing(tmp_path: Path) -> None:
    """Held in a module, a default argument, a closure and a table, all before the shim is there."""
    (tmp_path / "early_bird.py").write_text(
        "import functools, torch\n"
        "from torch import tensor as make\n"
        "from torch.cuda import FloatTensor, is_available\n"
        "def default(how=torch.zeros):\n    return how(1, device='cuda')\n"
        "partly = functools.partial(torch.arange, device='cuda')\n"
        "table = {'ones': torch.ones}\n"
    )
    code = (
        "import torch, early_bird as e, os; os.environ['HPUSHIM'] = 'emulate'; import hpushim\n"
        "made = [e.make([1.0], device='cuda'), e.default(), e.partly(2), e.table['ones'](1, device='cuda:1'), e.FloatTensor(2)]\n"
        "print(e.is_available(), {str(x.device) for x in made}, isinstance(made[0], e.FloatTensor))"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = python("-c", code, HPUSHIM="off", PYTHONPATH=path)
    assert done.stdout.strip() == "True {'hpu:0'} True", done.stderr
    assert "HPU90" not in done.stderr


def test_plain_import_names_the_comparisons_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        'import hpushim, torch\nx = torch.ones(1).cuda()\nprint(x.device.type == "cuda")\n'
    )
    done = python(str(script), HPUSHIM="emulate")
    assert done.stdout.strip() == "False"
    assert f"HPU107 {script}:3: " in done.stderr
