"""Start-up without edits, as a table: however a script or a child of it is started, it is armed and on hpu, its
comparisons are rewritten where that is promised, and a run says its start line once and its summary once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="start-up is about programs that import torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(sys.executable).parent

# Imports torch before anybody else does, so its own comparison is at stake.
MODULE = """
import json, os, uuid
import torch

def in_module(x):
    return x.device.type == "cuda"

def report(who, in_main):
    import hpushim
    x = torch.zeros(1, device="cuda")
    said = {"who": who, "armed": hpushim.status()["active"], "device": str(x.device),
            "main": in_main(x), "module": in_module(x)}
    with open(os.path.join(os.environ["OUT"], uuid.uuid4().hex), "w") as file:
        json.dump(said, file)
"""

# Each kind of child is named on the command line.
TRAIN = """
import os, subprocess, sys
from mine import report
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

def in_main(x):
    return x.device.type == "cuda"

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, i):
        report("worker", in_main)
        return 0

def child(*rank):
    torch.cuda.memory_reserved()
    report("child", in_main)

def processes(kind):
    context = mp.get_context(kind)
    process = context.Process(target=child)
    process.start()
    process.join()

if __name__ == "__main__":
    report("main", in_main)
    torch.cuda.memory_reserved()
    for kind in sys.argv[1:]:
        if kind in ("spawn", "fork", "forkserver"):
            processes(kind)
        elif kind == "mp.spawn":
            mp.spawn(child, nprocs=2)
        elif kind.startswith("workers-"):
            method = kind.removeprefix("workers-")
            list(DataLoader(Rows(), num_workers=1, multiprocessing_context=method))
        elif kind == "script":
            subprocess.run([sys.executable, "-W", "ignore", "train.py"], check=True)
        elif kind == "module":
            subprocess.run([sys.executable, "-m", "train"], check=True)
        elif kind == "code":
            code = "from mine import report; report('main', lambda x: x.device.type == 'cuda')"
            subprocess.run([sys.executable, "-c", code], check=True)
        elif kind == "itself":
            # as Lightning starts its other ranks
            spec = sys.modules["__main__"].__spec__
            again = [os.path.abspath(sys.argv[0])] if spec is None else ["-m", spec.name]
            subprocess.run([sys.executable, *again], check=True)
        elif kind == "shell":
            subprocess.run(f"cd . && {sys.executable} train.py", shell=True, check=True)
"""

# As accelerate and deepspeed start a program: torch is imported, then a bare Python in an environment of its own making.
LAUNCHER = """
import os, subprocess, sys
import torch
ends = []
for rank in range(2):
    environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    ends.append(subprocess.Popen([sys.executable, "-u", *sys.argv[1:]], env=environment))
sys.exit(max(end.wait() for end in ends))
"""


class Run:
    """A project in a folder, a run of it, what its processes reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        for name, text in {"mine": MODULE, "train": TRAIN, "launcher": LAUNCHER}.items():
            (folder / f"{name}.py").write_text(text)

    def __call__(self, words: list[str], **environment: str) -> list[dict[str, Any]]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "OUT": str(self.out)}
            | environment,
        )
        self.said = done.stderr
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(file.read_text()) for file in self.out.iterdir()]

    def lines(self, text: str) -> int:
        return sum(text in line for line in self.said.splitlines())


@pytest.fixture
def project(tmp_path: Path) -> Run:
    return Run(tmp_path)


def python(*words: str) -> list[str]:
    return [sys.executable, *words]


def hpushim(*words: str) -> list[str]:
    return python("-m", "hpushim", "run", *words)


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ARMED = {"HPUSHIM": "emulate"}

STARTERS: dict[str, tuple[list[str], dict[str, str], int]] = {
    # how: command, environment, processes
    "run a script": (hpushim("train.py"), {}, 1),
    "run a script from elsewhere": (hpushim("../{project}/train.py"), {}, 1),
    "run a module": (hpushim("-m", "train"), {}, 1),
    "run torchrun": (hpushim(*TORCHRUN, "train.py"), {}, 2),
    "run torchrun, a module": (hpushim(*TORCHRUN, "-m", "train"), {}, 2),
    "run torchrun by its command": (hpushim("torchrun", *TORCHRUN[2:], "train.py"), {}, 2),
    "torchrun, armed": (python(*TORCHRUN, "train.py"), ARMED, 2),
    "torchrun's command, armed": ([str(HERE / "torchrun"), *TORCHRUN[2:], "train.py"], ARMED, 2),
    "run a launcher": (hpushim("launcher.py", "train.py"), {}, 2),
    "launcher, armed": (python("launcher.py", "train.py"), ARMED, 2),
    "launcher of a module, armed": (python("launcher.py", "-m", "train"), ARMED, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", STARTERS)
def test_every_way_to_start(project: Run, how: str) -> None:
    words, environment, processes = STARTERS[how]
    command = [word.format(project=project.folder.name) for word in words]
    if any("torchrun" in word for word in words) and not (HERE / "torchrun").is_file():
        pytest.skip("torchrun is not installed beside this Python")
    found = project(command, **environment)
    assert (
        found
        == [{"who": "main", "armed": True, "device": "hpu:0", "main": True, "module": True}]
        * processes
    )
    assert project.lines("CUDA calls run on an emulated HPU") == 1, project.said
    assert "HPU107" not in project.said


CHILDREN = {
    "spawn": 1, "fork": 1, "forkserver": 1, "mp.spawn": 2, "workers-fork": 1, "workers-spawn": 1,
    "script": 1, "module": 1, "shell": 1, "itself": 1,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHILDREN)
def test_every_kind_of_child(project: Run, kind: str) -> None:
    found = project(hpushim("train.py", kind), HPUSHIM_LOG="summary")
    assert len(found) == 1 + CHILDREN[kind]
    for one in found:
        assert (one["armed"], one["device"], one["main"], one["module"]) == (
            True,
            "hpu:0",
            True,
            True,
        )
    assert project.lines("CUDA calls run on an emulated HPU") == 1, project.said
    assert project.lines("summary of this run") == 1, project.said
    counted = 1 if kind.startswith("workers") else 1 + CHILDREN[kind]
    assert f"{counted:6d}  HPU401" in project.said, project.said


@pytest.mark.slow
def test_code_on_a_childs_command_line_is_rewritten(project: Run) -> None:
    found = project(hpushim("train.py", "code"))
    assert [(one["armed"], one["main"], one["module"]) for one in found] == [(True, True, True)] * 2


@pytest.mark.slow
def test_a_bare_python_is_armed_and_told_where_it_compares(project: Run) -> None:
    (found,) = project(python("train.py"), **ARMED)
    assert found["armed"] and found["device"] == "hpu:0" and not found["main"]
    assert project.lines("HPU107") == 2 and "train.py:" in project.said


@pytest.mark.slow
def test_off_is_said_once(project: Run) -> None:
    project(python("launcher.py", "-c", "import torch"), HPUSHIM="auto")
    assert project.lines("off: this machine has neither a CUDA device") == 1, project.said


def test_the_environments_own_sitecustomize_still_runs(project: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = __file__\n")
    startup = ROOT / "hpushim" / "shim" / "run" / "startup"
    path = os.pathsep.join([str(startup), str(other)])
    for armed in ("off", "emulate"):
        done = subprocess.run(
            python(
                "-c", "import os, sitecustomize; print(os.environ['SEEN'], sitecustomize.__file__)"
            ),
            env={**os.environ, "PYTHONPATH": path, "HPUSHIM": armed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == [str(other / "sitecustomize.py")] * 2, done.stderr


def test_a_python_without_hpushim_starts_as_ever(tmp_path: Path) -> None:
    shutil.copy(ROOT / "hpushim" / "shim" / "run" / "startup" / "sitecustomize.py", tmp_path)
    done = subprocess.run(
        python(
            "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sitecustomize"
        ),
        env={"HPUSHIM": "emulate"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
