"""The agnostic style on code that was ported to Gaudi: as on the CUDA code before the port, and nothing lost on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from hpushim.codemods.analysis import ports
from hpushim.engine.project import analyse, migrate, undo
from hpushim.engine.python import lines
from hpushim.model import Mode, Target

START = "import torch\nimport torch.nn as nn\nimport torch.distributed as dist\n"
BRIDGE = "import habana_frameworks.torch.core as htcore\n"

#: What a port says, and what becomes of it behind the imports.
FORMS = {
    'device = torch.device("hpu" if torch.hpu.is_available() else "cpu")': 'device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")',
    'dist.init_process_group("hccl")': 'if not torch.accelerator.is_available():\n    raise RuntimeError("no accelerator is available")\ndevice = torch.accelerator.current_accelerator()\ndist.init_process_group(dist.get_default_backend_for_device(device))',
    "torch.hpu.synchronize()": "torch.accelerator.synchronize()",
    "e = torch.hpu.Event(enable_timing=True)": "e = torch.Event(enable_timing=True)",
    'if x.device.type == "hpu":\n    f()': 'if x.device.type != "cpu":\n    f()',
    'use_hpu = torch.hpu.is_available()\nif use_hpu:\n    f()': "use_hpu = torch.accelerator.is_available()\nif use_hpu:\n    f()",
    'def f(x, device):\n    with torch.autocast("hpu", dtype=torch.bfloat16):\n        return x.to(device), device.type': 'def f(x, device):\n    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type != "cpu"):\n        return x.to(device), device.type',
    'assert torch.hpu.is_available()\ndevice = f"hpu:{rank}"': 'assert torch.accelerator.is_available()\ndevice = f"{torch.accelerator.current_accelerator().type}:{rank}"',
    "htcore.mark_step()": "",
    # what has no neutral word
    "m = torch.hpu.max_memory_allocated()": "m = torch.hpu.max_memory_allocated()",
    'm = torch.compile(m, backend="hpu_backend")': 'm = torch.compile(m, backend="hpu_backend")',
    'p.add_argument("--device", default="hpu")': 'p.add_argument("--device", default="hpu")',
    'names = {"hpu": 1}': 'names = {"hpu": 1}',
    "hpu_graphs = wrap_in_hpu_graph(m)": "hpu_graphs = wrap_in_hpu_graph(m)",
    'p.add_argument("--use_hpu_graphs", help="use HPU graphs")': 'p.add_argument("--use_hpu_graphs", help="use HPU graphs")',
}  # fmt: skip


def migrated(folder: Path, files: dict[str, str], mode: Mode = "portable") -> dict[str, str]:
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text(text)
    migrate([folder], Target(style="agnostic", mode=mode), allow_dirty=True)
    after = {path: (folder / path).read_text() for path in files}
    again = migrate([folder], Target(style="agnostic", mode=mode), allow_dirty=True)
    assert not [file for file in again.files if file.status == "changed"]
    while undo(folder).run:
        pass
    assert {path: (folder / path).read_text() for path in files} == files
    return after


@pytest.mark.parametrize("bridge", ["", BRIDGE, f"{BRIDGE}import habana_frameworks.torch.distributed.hccl\n", "import habana_frameworks.torch as ht\n", "import habana_frameworks.torch.hpu as hthpu\n"])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_a_port_becomes_neutral(tmp_path: Path, form: str, bridge: str) -> None:
    if "htcore" in form and bridge != BRIDGE:
        pytest.skip("another name of the bridge")
    for name, module in (("ht", "ht.hpu"), ("hthpu", "hthpu")):
        if bridge.endswith(f" {name}\n"):
            form = form.replace("torch.hpu", module)
    wanted = FORMS.get(form) or FORMS.get(
        form.replace("ht.hpu", "torch.hpu").replace("hthpu", "torch.hpu")
    )
    with mock.patch.object(lines, "limit", return_value=1000):
        after = migrated(tmp_path, {"train.py": f"{START}{bridge}{form}\n"})["train.py"]
    assert "habana" not in after and "cuda" not in after and "nccl" not in after
    shown = after.removeprefix(START).strip()
    shown = (
        " ".join(shown.replace("= (\n", "= ").replace("\n)", "").split())
        if " (\n" in shown
        else shown
    )
    if "= torch.accelerator" in (wanted or "") and " if " in (wanted or ""):
        shown = " ".join(shown.split())
    assert shown == (wanted or "")


def test_marks_stay_in_lazy_mode_and_are_reported(tmp_path: Path) -> None:
    text = f"{START}{BRIDGE}loss.backward()\nhtcore.mark_step()\n"
    assert migrated(tmp_path, {"train.py": text}, "lazy")["train.py"] == text
    report = analyse([tmp_path], Target(style="agnostic", mode="lazy"))
    assert [f.code for file in report.files for f in file.findings if "mark" in f.message] == ["HPU012"]  # fmt: skip


@pytest.mark.parametrize("rest", ["from habana_frameworks.torch.hpex.optimizers import FusedAdamW\nopt = FusedAdamW(p)\n", "import habana_frameworks.torch as ht\nht.hpex.f()\n", "import habana_frameworks.torch as ht\nm = ht.hpu.wrap_in_hpu_graph(m)\n", "import os\nos.environ['PT_HPU_LAZY_MODE'] = '1'\n"])  # fmt: skip
def test_what_gaudi_alone_has_stays(tmp_path: Path, rest: str) -> None:
    after = migrated(tmp_path, {"train.py": f"{START}{rest}torch.hpu.synchronize()\n"})["train.py"]
    assert after == f"{START}{rest}torch.accelerator.synchronize()\n"
    found = [
        f for file in analyse([tmp_path], Target(style="agnostic")).files for f in file.findings
    ]
    assert "habana" not in rest or [f for f in found if f.code == "HPU012" and f.line == 4]
    assert not [f for f in found if "cuda" in f.message.lower()]


@pytest.mark.parametrize("text", ["import habana_frameworks.mediapipe.fn as fn\ndecode = fn.ImageDecoder(device='hpu')\n", 'device = "hpu" if args.hpu else "cuda"\n', "import torch\nif is_hpu_available():\n    x = x.to('hpu')\nelse:\n    x = x.cuda(0)\n"])  # fmt: skip
def test_code_for_both_is_no_port(text: str) -> None:
    assert ports.before(text.encode(), python=True) == text.encode()


@pytest.mark.parametrize("text", [*FORMS, "hpu = HPU_COUNT = use_hpu\n", "from habana_frameworks.torch.hpu import random\nPT_HPU_LAZY_MODE = 1\n"])  # fmt: skip
def test_the_way_back_gives_what_was_there(text: str) -> None:
    port = f"{START}{BRIDGE}{text}\n".encode()
    read = ports.before(port, python=True)
    assert ports.back(port, read, read) == port
    assert port.count(b"\n") == read.count(b"\n")


def test_launchers_of_a_port_stay_and_are_reported(tmp_path: Path) -> None:
    files = {"train.py": f'{START}x = x.to("hpu")\n', "run.yaml": "device: hpu\nbackend: hccl\n"}
    assert migrated(tmp_path, files)["run.yaml"] == files["run.yaml"]
    report = analyse([tmp_path], Target(style="agnostic"))
    (found,) = (file.findings for file in report.files if file.path == "run.yaml")
    assert found and not [f for f in found if "cuda" in f.message]


PROGRAM = """import torch

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.ones(2, 4).to(device)
    loss = model(x).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
"""


def test_a_port_of_hpushim_becomes_what_the_original_becomes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "port.py").write_text(PROGRAM)
    migrate([tmp_path], Target(), allow_dirty=True)
    port = (tmp_path / "port.py").read_text()
    assert '"hpu"' in port and "mark_step" in port
    (tmp_path / "direct.py").write_text(PROGRAM)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert (tmp_path / "port.py").read_text() == (tmp_path / "direct.py").read_text()
    ran = [
        subprocess.run([sys.executable, *way, "port.py"], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
        for way in ((), ("-m", "hpushim", "run", "--native"))
    ]  # fmt: skip
    assert ran[0] == ran[1] != ""
