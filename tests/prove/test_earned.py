"""A verdict says no more than was compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from proofs import TRAIN, prove

from hpushim.prove.text import headline
from hpushim.prove.trial import Request
from hpushim.prove.trial import prove as prove_here
from hpushim.prove.words import parse

pytestmark = pytest.mark.usefixtures("served")

FAILS = TRAIN.replace("    scaler.step(optimizer)\n", '    raise ValueError("no")\n')
COMPLEX = """\
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
w = torch.nn.Parameter(torch.randn(4, dtype=torch.complex64, device=device))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    (w * w.conj()).real.sum().backward()
    optimizer.step()
"""
LOGS = """\
import json

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4).to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
held = torch.ones(2, 4).cuda() if device == "cuda" else torch.ones(2, 4)
with torch.no_grad():
    score = model(held).abs().mean().item()
with open("log.jsonl", "w") as log:
    log.write(json.dumps({"step": step, "score": score}))
print("done", torch.rand(1).item() if False else 1.5)
"""


def test_a_script_that_fails_before_its_first_step_is_not_proved(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS)
    done = prove("train.py", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    (verdict, *_) = done.stdout.splitlines()
    assert verdict.startswith("not proved: the script fails in every run before its first")
    assert "ValueError: no" in verdict


@pytest.mark.parametrize(("on_cpu", "told"), [('raise OSError("no card")', "fails otherwise: OSError: no card"), ("raise SystemExit", "made 0 steps")])  # fmt: skip
def test_a_cpu_run_that_ends_otherwise_is_not_called_alike(
    tmp_path: Path, on_cpu: str, told: str
) -> None:
    (tmp_path / "train.py").write_text(f"import torch\nif not torch.cuda.is_available():\n    {on_cpu}\n{FAILS}")  # fmt: skip
    done = prove("train.py", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    (verdict, *_) = done.stdout.splitlines()
    assert verdict.startswith("not proved: the script fails on hpu"), verdict
    assert "ValueError: no" in verdict
    assert verdict.endswith(f"the CPU run {told}")


def test_a_cpu_run_that_fails_later_than_on_hpu_is_compared_with(tmp_path: Path) -> None:
    stops = "    if device.type == 'cuda':\n        raise ValueError('no')\n    if step == 3:\n        raise OSError('full')\n    scaler.step(optimizer)\n"
    (tmp_path / "train.py").write_text(TRAIN.replace("    scaler.step(optimizer)\n", stops))
    done = prove("train.py", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    (verdict, *_) = done.stdout.splitlines()
    assert verdict == "different from the CPU run: in step 1 the script fails on hpu, the original and its migrated copy alike: ValueError: no"  # fmt: skip


def test_a_script_that_fails_behind_its_steps_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + 'raise ValueError("at the end")\n')
    done = prove("--steps", "0", "train.py", cwd=tmp_path)
    (verdict, *_) = done.stdout.splitlines()
    assert verdict.startswith("equal: over 6 optimizer steps"), done.stdout + done.stderr
    assert verdict.endswith("then the script fails in every run: ValueError: at the end")


@pytest.mark.parametrize("widened", ["x.double()", "x.to(torch.float64)", "x.type(torch.float64)"])
def test_a_dtype_that_gaudi_keeps_narrower_is_named(tmp_path: Path, widened: str) -> None:
    (tmp_path / "parts.py").write_text(f"import torch\n\n\ndef wide(x):\n    return {widened}\n")
    text = TRAIN.replace("import torch\n", "import torch\nfrom parts import wide\n", 1)
    (tmp_path / "train.py").write_text(text + "print(float(wide(loss.detach()) * 2))\n")
    done = prove("--no-cpu", "--steps", "0", "train.py", cwd=tmp_path)
    assert done.stdout.startswith("equal"), done.stdout + done.stderr
    assert (
        "a Gaudi computes in less: HPU117 float64 is kept as float32 (parts.py:5 and 1 more)"
        in done.stdout
    )


def test_what_a_gaudi_refuses_is_in_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPLEX)
    done = prove("--no-cpu", "--fail-on", "refused", "train.py", cwd=tmp_path)
    (verdict, *_) = done.stdout.splitlines()
    assert "BUT A GAUDI REFUSES WHAT RAN: HPU118 complex64" in verdict, done.stdout + done.stderr
    assert "train.py:4" in verdict
    assert done.returncode == 5


def test_a_metric_of_a_log_is_compared(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOGS)

    def plant(copy: Path) -> None:
        text = (copy / "train.py").read_text()
        assert '.to("hpu")' in text
        (copy / "train.py").write_text(text.replace('.to("hpu")', '.mul(2).to("hpu")'))

    request = Request(command=parse(("train.py",)), cwd=tmp_path, steps=0, no_cpu=True)
    request.baseline = prove_here(request)
    assert request.baseline.verdict == "equal"
    request.plant = plant
    outcome = prove_here(request)
    assert outcome.verdict == "different"
    assert outcome.reason.startswith("'score' in log.jsonl, line 1, is ")
    assert outcome.cause is not None
    assert (outcome.cause.file, outcome.cause.line) == ("train.py", 14)


def test_a_line_is_not_blamed_that_does_not_explain_it_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOGS)

    def plant(copy: Path) -> None:
        """Doubles the input, but under the shim, where the changes are divided, it does not."""
        text = (copy / "train.py").read_text()
        double = 'x = x.to(device); x = x * (1 if "hpushim.shim.patches" in __import__("sys").modules else 2)'
        x = "x = torch.randn(8, 4).to(device)"
        assert x in text
        (copy / "train.py").write_text(text.replace(x, f"x = torch.randn(8, 4); {double}"))

    request = Request(command=parse(("train.py",)), cwd=tmp_path, no_cpu=True, plant=plant)
    outcome = prove_here(request)
    assert (outcome.verdict, outcome.difference and outcome.difference.kind) == (
        "different",
        "loss",
    )
    assert outcome.cause is not None
    assert outcome.cause.how.startswith("no single rewrite explains it")
    assert (outcome.cause.file, outcome.cause.shows) == ("", "train.py:9")


ELSEWHERE = """\
import torch

wide = 4
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(8, wide).cuda()).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [("wide = 4", "wide = 5", 3), ('wide).to("hpu")', 'wide + 1).to("hpu")', 8), pytest.param('wide).to("hpu")', 'wide).to("xpu")', 8, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_rewritten_line_is_not_blamed_for_the_error_that_shows_there(
    old: str, new: str, line: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(ELSEWHERE)

    def plant(copy: Path) -> None:
        text = (copy / "train.py").read_text()
        assert old in text
        (copy / "train.py").write_text(text.replace(old, new))

    request = Request(command=parse(("train.py",)), cwd=tmp_path, no_cpu=True, plant=plant)
    outcome = prove_here(request)
    assert (outcome.verdict, outcome.difference and outcome.difference.kind) == (
        "different",
        "error",
    )
    assert outcome.cause is not None
    assert (outcome.cause.file, outcome.cause.line) == ("train.py", line), outcome.cause


NOISE = """\
import time
import torch

model = torch.nn.Linear(4, 2).double().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(8, 4).double()
    x[0, 0] += {noise}
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [("time.time_ns() % 10**6 * 1e-13", "equal within"), ('1e-13 * ("hpushim.shim.patches" in __import__("sys").modules)', "equal within"), ('1e-6 * ("hpushim.shim.patches" in __import__("sys").modules)', "different")],
)  # fmt: skip
def test_other_bits_count_where_the_original_repeats_its_own(
    noise: str, verdict: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(NOISE.format(noise=noise))
    outcome = prove_here(Request(command=parse(("train.py",)), cwd=tmp_path, no_cpu=True, locate=False))  # fmt: skip
    assert outcome.verdict == verdict, outcome.reason
    assert (outcome.difference and outcome.difference.kind) == (
        "bits" if verdict == "different" else None
    )


#: Its CPU run computes in float32, its run on a device in bfloat16; {narrow} is what else it does there.
NARROW = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    x = torch.randn(32, 64).to(device)
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        {narrow}
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("narrow", "verdict", "said"),
    [
        ("pass", "equal within", ", in float32 bit for bit"),
        pytest.param("x = x * 3 / 3 if device.type == 'cuda' else x", "equal within", ", in float32 within ", marks=pytest.mark.slow),
        ("x = x * 1.001 if device.type == 'cuda' else x", "different", "rounding explains"),
        ("x = x.half() if device.type == 'cuda' else x", "not distinguishable", "compare in float32"),
    ],
)  # fmt: skip
def test_a_bound_that_lets_too_much_pass_is_no_witness(
    narrow: str, verdict: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(NARROW.format(narrow=narrow))
    outcome = prove_here(Request(command=parse(("train.py",)), cwd=tmp_path, locate=False))
    assert (outcome.verdict, said in headline(outcome)) == (verdict, True), headline(outcome)
    assert outcome.verdict == "different" or outcome.comparisons[0].exact


def test_runs_too_far_apart_are_not_distinguishable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpushim.prove import bounds

    far = "    if device.type == 'cuda':\n        loss = loss * 1.2\n"
    (tmp_path / "train.py").write_text(TRAIN.replace("    optimizer.zero_grad()\n", far + "    optimizer.zero_grad()\n"))  # fmt: skip
    request = Request(command=parse(("train.py",)), cwd=tmp_path, steps=1, locate=False)
    request.baseline = prove_here(request)
    assert request.baseline.verdict == "different"
    monkeypatch.setattr(bounds.Bound, "at", lambda self, step: 0.52)
    outcome = prove_here(request)
    assert outcome.verdict == "not distinguishable"
    assert "compare in float32" in outcome.reason


#: Losses whose gradients are 0, or no numbers, whatever the data are.
WITHOUT_GRADIENT = ("nn.functional.cross_entropy(model(x), y)", "(model(x) * float('nan')).sum()", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("(-model(x).square() - 1).sqrt().mean()", "model(x).softmax(1).sum() * 1.0", "(model(x) * 0).sum()")))  # fmt: skip


@pytest.mark.parametrize("loss", WITHOUT_GRADIENT)
def test_where_nothing_can_differ_nothing_is_equal(tmp_path: Path, loss: str) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n'
        "model = nn.Linear(4, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    x, y = torch.rand(8, 4).to(device), torch.rand(8, 1).to(device)\n"
        f"    optimizer.zero_grad()\n    loss = {loss}\n    loss.backward()\n    optimizer.step()\n"
    )
    done = prove("--no-cpu", "train.py", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.startswith(
        "not distinguishable: over 3 optimizer steps, each gradient is 0 or not finite"
    )
