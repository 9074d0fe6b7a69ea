"""The whole way: a script, its three runs, the verdict; the user's folder as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from proofs import TRAIN, prove

from hpushim.model import Target
from hpushim.prove import certificate, cuda
from hpushim.prove.trial import Request
from hpushim.prove.trial import prove as prove_here
from hpushim.prove.words import parse

pytestmark = pytest.mark.usefixtures("served")


def test_a_script_is_proved_and_its_folder_left_as_it_was(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    out = tmp_path_factory.mktemp("out")
    files = ("--certificate", out / "proof.json", "--page", out / "proof.md")
    done = prove("--steps", "0", "--fail-under", "99", *files, "train.py", cwd=tmp_path)
    assert done.stdout.startswith("equal: over 6 optimizer steps"), done.stdout + done.stderr
    assert "by its option --no-cuda" in done.stderr
    assert "compute operators on hpu: 100.0%" in done.stdout
    assert "train.py:26 HPU414 cuda-synchronize" in done.stdout  # behind an option
    assert done.returncode == 1  # for --fail-under
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py"]
    found = json.loads((out / "proof.json").read_text())
    jsonschema.validate(found, json.loads(certificate.schema()))
    assert found["verdict"] == "equal"
    assert found["emulated"] is True
    assert [run["steps"] for run in found["runs"]] == [6, 6, 6]
    assert found["again"] == "hpushim prove --steps 0 train.py"
    assert "# equal" in (out / "proof.md").read_text()


@pytest.mark.parametrize("style", ["dual", "agnostic"])
def test_what_a_style_keeps_for_the_cpu_is_proved_there(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, style: str
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    out = tmp_path_factory.mktemp("out") / "proof.json"
    done = prove("--style", style, "--certificate", out, "train.py", cwd=tmp_path)
    assert done.stdout.startswith("equal: over 6 optimizer steps"), done.stdout + done.stderr
    assert "the migrated copy on the CPU against the CPU run: bit for bit" in done.stdout
    found = json.loads(out.read_text())
    jsonschema.validate(found, json.loads(certificate.schema()))
    assert [run["way"] for run in found["runs"]] == ["cpu", "shim", "native", "copy"]
    (pair,) = [one for one in found["comparisons"] if one["second"] == "copy"]
    assert pair["first"] == "cpu" and pair["steps"] == 6 and pair["bit_for_bit"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py"]


def _card(name: str = "a stand-in", why: str = "") -> cuda.Look:
    return lambda: cuda.Found(sys.executable, name, why)


@pytest.mark.parametrize(
    ("style", "look", "plant", "verdict", "said"),
    [
        ("agnostic", _card(), None, "equal", "run on a stand-in"),
        ("agnostic", _card(), "card", "different", "run on a stand-in"),
        ("agnostic", _card(), "varies", "equal", "not compared on a stand-in: there, two runs of the original differ beyond rounding"),
    ],
)  # fmt: skip
def test_what_a_style_keeps_for_cuda_is_proved_where_a_device_is(
    tmp_path: Path, style: str, look: cuda.Look, plant: str | None, verdict: str, said: str
) -> None:
    """No CUDA device is needed: the runs on it are the same programs without one, which see the variable that such runs have."""
    text = f"import os\n\n{TRAIN}"
    if plant == "varies":
        text = text.replace("lr=0.01", "lr=os.getpid() / 1e7 if os.environ.get('CUBLAS_WORKSPACE_CONFIG') else 0.01")  # fmt: skip
    (tmp_path / "train.py").write_text(text)

    def planted(folder: Path) -> None:
        script = folder / "train.py"
        if plant == "card":
            text = script.read_text()
            script.write_text(text.replace("lr=0.01", "lr=0.02 if os.environ.get('CUBLAS_WORKSPACE_CONFIG') else 0.01"))  # fmt: skip

    target = Target(style=style)  # type: ignore[arg-type]
    request = Request(command=parse(("train.py",)), target=target, cwd=tmp_path, look=look, plant=planted, steps=2, locate=False)  # fmt: skip
    found = prove_here(request)
    assert (found.verdict, found.cuda) == (verdict, said), found.reason
    assert found.reason.startswith("on CUDA, ") is (plant == "card")
    ways = [run.way for run in found.elsewhere if run.way not in ("copy",)]
    assert ways == ["cuda", "cuda-copy"]
    kept = certificate.certificate(request, found, "again")
    jsonschema.validate(json.loads(certificate.to_json(kept)), json.loads(certificate.schema()))
    assert kept.cuda == said and f"CUDA: {said}" in certificate.page(kept)


@pytest.mark.parametrize(("python", "why"), [("", "sees no CUDA device"), ("/nowhere/python", "does not answer")])  # fmt: skip
def test_a_device_is_looked_for_in_another_process(
    monkeypatch: pytest.MonkeyPatch, python: str, why: str
) -> None:
    monkeypatch.setenv(cuda.PYTHON, python)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert cuda.environment()["CUDA_VISIBLE_DEVICES"] == "3"
    if not __import__("torch").cuda.is_available() or python:
        found = cuda.look()
        assert why in found.why and not found.name


def test_what_goes_wrong_on_the_cpu_alone_is_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    found = prove_here(
        Request(command=parse(("train.py",)), target=Target(style="agnostic"), cwd=tmp_path, plant=_on_the_cpu_only)
    )  # fmt: skip
    assert (found.verdict, found.difference is not None) == ("different", True)
    assert found.reason.startswith("on the CPU, ")
    assert [one.difference is None for one in found.comparisons][:2] == [True, True]


def _on_the_cpu_only(folder: Path) -> None:
    script = folder / "train.py"
    text = script.read_text()
    assert "lr=0.01" in text
    script.write_text(text.replace("lr=0.01", 'lr=0.01 if device.type != "cpu" else 0.02'))


def test_a_fault_in_the_migrated_copy_is_found_and_its_line_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)

    def plant(copy: Path) -> None:
        text = (copy / "train.py").read_text()
        assert "    optimizer.step()\n" in text
        (copy / "train.py").write_text(
            text.replace("    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n")
        )

    request = Request(command=parse(("train.py",)), cwd=tmp_path, steps=3, no_cpu=True, plant=plant)
    outcome = prove_here(request)
    assert outcome.verdict == "different"
    assert outcome.cause is not None
    assert (outcome.cause.step, outcome.cause.file) == (2, "train.py")
    line = TRAIN.splitlines().index("    scaler.step(optimizer)") + 1
    assert abs(outcome.cause.line - line) <= 1
    assert outcome.cause.code == "HPU205"


NET = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.scale = torch.ones(2, device="cuda" if torch.cuda.is_available() else "cpu")

    def forward(self, x):
        return self.layer(x) * self.scale
"""

BESIDE = """import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import torch
from models.net import Net

net = Net().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(torch.randn(8, 4).cuda()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_what_a_script_loads_from_beside_its_folder_belongs_to_the_project(tmp_path: Path) -> None:
    for name, text in (("models/net.py", NET), ("experiments/train.py", BESIDE), (".git/HEAD", "")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    said: list[str] = []
    cwd = tmp_path / "experiments"
    request = Request(command=parse(("train.py",)), cwd=cwd, no_cpu=True, locate=False)
    outcome = prove_here(request, said.append)
    assert outcome.verdict == "equal"
    assert {file.path for file in outcome.report.files} == {"models/net.py", "experiments/train.py"}
    assert any("models/net.py from outside of experiments" in line for line in said)
    assert outcome.coverage.share == 1


def test_a_notebook_is_proved_by_its_cells_and_a_script_that_stays_on_the_cpu_is_told_loudly(
    tmp_path: Path,
) -> None:
    cells = [
        "import torch\nuse_cuda = False and torch.cuda.is_available()",
        '%matplotlib inline\ndevice = torch.device("cuda" if use_cuda else "cpu")',
        "w = torch.ones(3, device=device, requires_grad=True)\nopt = torch.optim.SGD([w], lr=0.1)",
        "for _ in range(2):\n    opt.zero_grad()\n    (w * w).sum().backward()\n    opt.step()",
    ]
    notebook = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
            for text in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip
    (tmp_path / "train.ipynb").write_text(json.dumps(notebook, indent=1))
    done = prove("--no-cpu", "train.ipynb", cwd=tmp_path)
    assert "NOTHING RAN ON HPU" in done.stdout, done.stdout + done.stderr
    assert "over 2 optimizer steps" in done.stdout
    assert "rewrites that ran: 5 of 5 (100%)" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.ipynb"]


LOOP = """\
def fit(model, optimizer, batches):
    for inputs in batches:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
"""
OWN = """\
import sys

import looplib
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
looplib.fit(model, optimizer, [torch.ones(3, 4, device=device) for _ in range(4)])
"""


@pytest.mark.parametrize("whose", ["a library", "the project"])
def test_where_a_mark_is_missing_it_matters_whose_loop_it_is(
    whose: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "train.py").write_text(OWN)
    library = tmp_path if whose == "the project" else tmp_path_factory.mktemp("site-packages")
    (library / "looplib.py").write_text(LOOP)
    monkeypatch.setenv("PYTHONPATH", str(library))
    # The rule that marks is left out, as if the loop were no file of the project either way.
    done = prove("--no-cpu", "--ignore", "HPU501,HPU502", "train.py", cwd=tmp_path)
    if whose == "a library":
        assert done.stdout.startswith("equal: over 4 optimizer steps"), done.stdout + done.stderr
        assert "no mark_step behind the optimizer's step" in done.stdout
        assert "looplib.py, out of a rewrite's reach" in done.stdout
    else:
        (verdict, *_) = done.stdout.splitlines()
        assert verdict.startswith("different from step 2, by looplib.py"), done.stdout + done.stderr
        assert "no mark_step behind the optimizer's step" in verdict


def test_lines_are_seen_in_a_script_that_goes_to_another_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = TRAIN.replace("args = parser", "import os\nos.chdir(os.sep)\nargs = parser", 1)
    (tmp_path / "train.py").write_text(text.replace("torch.save(", "0 and torch.save("))
    kept = tmp_path_factory.mktemp("out") / "proof.json"
    done = prove("--steps", "2", "--no-cpu", "--certificate", kept, "train.py", cwd=tmp_path)
    assert done.stdout.startswith("equal"), done.stdout + done.stderr
    assert json.loads(kept.read_text())["coverage"]["rewrites_run"] > 3


WAITS = """\
import os, pathlib, time
pathlib.Path(os.environ["TOLD"]).write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_proof_that_is_ended_leaves_no_run_and_no_folder(
    number: signal.Signals, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    scratch = tmp_path_factory.mktemp("scratch")
    told = scratch / "told"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpushim", "prove", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch), "TOLD": str(told)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not (told.is_file() and told.read_text()) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(120) == 128 + number
    assert [one.name for one in scratch.iterdir()] == ["told"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
