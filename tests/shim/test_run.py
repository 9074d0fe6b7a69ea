"""``hpushim run``: scripts, modules, launchers and children as python itself would run them, on the emulated HPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

torch = pytest.importorskip("torch", reason="hpushim run runs torch programs")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]


def run(
    folder: Path, *arguments: str, given: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """``python -m hpushim run`` in a folder, with this on standard input."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(ROOT)]))
    return warm.run(
        [sys.executable, "-m", "hpushim", "run", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**inherited, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment},
    )


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def test_children_keep_the_folders_that_the_user_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours comes first, once, however often a run is begun inside of another."""
    from hpushim.shim.run import children

    for given in ("one:two", f"{children.FOLDER}:one:two", f"one:{children.FOLDER}:two"):
        monkeypatch.setenv("PYTHONPATH", given)
        assert children.environment() == {"PYTHONPATH": f"{children.FOLDER}:one:two"}
        monkeypatch.setenv("HPUSHIM", "emulate")
        undo = children.install()
        assert undo is not None and os.environ["PYTHONPATH"] == f"{children.FOLDER}:one:two"
        assert undo() and os.environ["PYTHONPATH"] == "one:two"
    monkeypatch.delenv("PYTHONPATH")
    assert children.environment() == {"PYTHONPATH": children.FOLDER}
    monkeypatch.delenv("HPUSHIM")
    assert children.install() is None


def test_argv_path_name_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text('def on_gpu(x):\n    return x.device.type == "cuda"\n')
    write(
        tmp_path,
        "train.py",
        "import sys, torch\nfrom neighbour import on_gpu\nx = torch.ones(1).cuda()\n"
        'print(sys.argv, __name__, on_gpu(x), x.device.type == "cuda")\nsys.exit(7)\n',
    )
    done = run(tmp_path, "train.py", "--device", "cuda", "-m", "x")
    expected = "['train.py', '--device', 'cuda', '-m', 'x'] __main__ True True"
    assert (done.stdout.strip(), done.returncode) == (expected, 7), done.stderr


def test_uncaught_exception(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "def f():\n    raise ValueError('boom')\nf()\n")
    done = run(tmp_path, "train.py")
    assert done.returncode == 1 and done.stderr.rstrip().endswith("ValueError: boom")
    assert "hpushim/shim" not in done.stderr and 'train.py", line 2' in done.stderr


def test_syntax_error_and_missing_script(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "def (\n")
    done = run(tmp_path, "train.py")
    assert done.returncode == 1 and "SyntaxError" in done.stderr
    assert run(tmp_path, "nothing.py").returncode == 2


def test_module_and_package(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    write(package, "__init__.py", "")
    write(
        package,
        "__main__.py",
        "import sys, torch\nfrom . import part\nprint(__package__, part.f(torch.ones(1).cuda()), sys.argv[1:])\n",
    )
    write(package, "part.py", 'def f(x):\n    return x.device.type == "cuda"\n')
    done = run(tmp_path, "-m", "pack", "a")
    assert done.stdout.strip() == "pack True ['a']", done.stderr


SPAWN = """
import sys
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 2
    def __getitem__(self, i): return torch.zeros(1).device.type == "cpu", torch.device("cuda").type == "cuda"

def child(rank, queue):
    x = torch.ones(1).cuda(rank)
    queue.put((x.is_cuda, x.device.type == "cuda", __name__))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(1, queue))
    process.start()
    print(queue.get())
    process.join()
    for batch in DataLoader(Numbers(), num_workers=1, multiprocessing_context="spawn"):
        print([bool(b) for b in batch])
"""


def test_spawned_children_and_workers(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SPAWN)
    done = run(tmp_path, "train.py")
    lines = done.stdout.splitlines()
    assert lines == ["(True, True, '__mp_main__')", "[True, True]", "[True, True]"], done.stderr


RANKS = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
x = torch.full((2,), float(rank + 1), device=f"cuda:{rank}")
dist.all_reduce(x)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(rank), device_ids=[rank])
model(x).sum().backward()
if dist.get_rank() == 0:
    print(x.tolist(), dist.get_backend(), x.device.type == "cuda", x.device.index)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    write(tmp_path, "train.py", RANKS)
    done = run(
        tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"
    )
    assert done.stdout.strip().endswith("[3.0, 3.0] nccl True 0"), done.stderr[-3000:]
    assert done.returncode == 0


def test_show_rewrites(tmp_path: Path) -> None:
    write(tmp_path, "train.py", 'import torch\nif torch.ones(1).device.type != "cuda":\n    pass\n')
    done = run(tmp_path, "--show-rewrites", "train.py")
    assert "train.py:2: torch.ones(1).device.type != 'cuda'" in done.stderr


def test_no_compiler_is_one_clear_line(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import torch\n")
    done = run(tmp_path, "train.py", CXX="no-such-compiler", HPUSHIM_CACHE_DIR=str(tmp_path / "c"))
    assert done.returncode == 2 and "no-such-compiler" in done.stderr
    assert "Traceback" not in done.stderr


def test_lazy_mode_marks_each_backward_and_each_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 2).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n"
        "    for _ in range(2):\n"
        "        model(torch.ones(1, 2, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
    )
    marks = {}
    for mode in ("lazy", "eager"):
        books = tmp_path / f"{mode}.json"
        done = run(tmp_path, "--mode", mode, "--ledger", str(books), str(script))
        assert done.returncode == 0, done.stderr
        marks[mode] = json.loads(books.read_text())["mark_steps"]
    assert marks == {"lazy": 9, "eager": 0}
