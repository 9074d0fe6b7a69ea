"""``hpushim run X`` takes what ``python X`` takes, and the program sees what it would see there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest
from test_run import run

PROGRAM = (
    "import os, sys\nimport torch\nimport neighbour\n"
    "print(sys.argv, __name__, os.path.realpath(sys.path[0]))\n"
    'x = torch.ones(1, device="cuda" if neighbour.on_gpu else "cpu")\n'
    'print(x.is_cuda, x.device.type == "cuda", neighbour.on_cuda(x), file=sys.stderr)\n'
)
NEIGHBOUR = 'import torch\non_gpu = torch.cuda.is_available()\ndef on_cuda(x):\n    return x.device.type == "cuda"\n'
#: What torch says of itself on a machine without a device.
PLAIN = (
    "import types\ncuda = types.SimpleNamespace(is_available=lambda: False)\n"
    "def ones(*_, device):\n    return types.SimpleNamespace(is_cuda=False, device=types.SimpleNamespace(type=device))\n"
)
#: Options of the program which ``hpushim run`` has as well.
OWN = ["--lr=1", "--devices", "2", "-q", "--", "--mode", "x"]
WAYS = {
    "file": ["job/train.py", *OWN],
    "folder": ["job", *OWN],
    "archive": ["job.pyz", *OWN],
    "module": ["-m", "train", *OWN],
    "module in one word": ["-mtrain", *OWN],
    "code": ["-c", PROGRAM, *OWN],
    "standard input": ["-", *OWN],
}


@pytest.mark.parametrize("way", WAYS)
def test_the_program_sees_what_it_sees_under_python(tmp_path: Path, way: str) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for name in ("train.py", "__main__.py"):
        (job / name).write_text(PROGRAM)
    (job / "neighbour.py").write_text(NEIGHBOUR)
    zipapp.create_archive(job, tmp_path / "job.pyz")
    folder = job if way in ("module", "module in one word", "code", "standard input") else tmp_path
    # What the words mean to Python needs no more of torch than this.
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "torch.py").write_text(PLAIN)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM")}
    plain = subprocess.run(
        [sys.executable, *WAYS[way]],
        cwd=folder,
        input=PROGRAM,
        capture_output=True,
        text=True,
        check=True,
        env={**inherited, "HPUSHIM": "off", "PYTHONPATH": str(tmp_path / "plain")},
    )
    assert plain.stderr.splitlines()[-1] == "False False False"
    done = run(folder, *WAYS[way], given=PROGRAM)
    assert done.stdout == plain.stdout, done.stderr
    assert "True True True" in done.stderr.splitlines(), done.stderr


def test_options_before_the_program_are_ours(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\nprint(os.environ['HPUSHIM_DEVICES'], sys.argv[1:])\n"
    )
    for way in (["-qm", "train"], ["--quiet", "-m", "train"], ["-q", "train.py"]):
        done = run(tmp_path, "--devices", "3", *way, "-q", "--devices=2")
        assert done.stdout == "3 ['-q', '--devices=2']\n", done.stderr
        assert not done.stderr


@pytest.mark.parametrize("way", ["-c", "-"])
def test_lines_that_were_typed_are_named(tmp_path: Path, way: str) -> None:
    text = 'import torch\ntorch.ones(2, device="cuda").double()\n1 / 0\n'
    done = run(tmp_path, *(("-c", text) if way == "-c" else ("-",)), given=text)
    name = {"-c": "<string>", "-": "<stdin>"}[way]
    assert done.returncode == 1
    assert f"HPU117 {name}:2: double() on HPU" in done.stderr
    assert f'File "{name}", line 3' in done.stderr
    assert "hpushim/shim" not in done.stderr


def test_an_option_of_pythons_own(tmp_path: Path) -> None:
    done = run(tmp_path, "-u", "train.py")
    assert done.returncode == 2
    assert (
        "-u: not an option of hpushim; to pass it to Python, run: hpushim run python -u train.py"
        in done.stderr
    )


def test_an_archive_without_source(tmp_path: Path) -> None:
    import py_compile
    import zipfile

    (tmp_path / "main.py").write_text("print(1)\n")
    py_compile.compile(str(tmp_path / "main.py"), str(tmp_path / "main.pyc"))
    with zipfile.ZipFile(tmp_path / "job.pyz", "w") as archive:
        archive.write(tmp_path / "main.pyc", "__main__.pyc")
    done = run(tmp_path, "job.pyz")
    assert done.returncode == 2
    assert "without the source of __main__" in done.stderr
