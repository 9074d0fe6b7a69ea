"""What tests/warm.py starts is, to its program, a Python as any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm

pytest.importorskip("torch", reason="what it spares is the import of torch")
if not warm.AVAILABLE:
    pytest.skip("no fork here: every program has a process of its own", allow_module_level=True)

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
ENVIRONMENT |= {"HPUSHIM": "off", "OMP_NUM_THREADS": "1"}


def both(*words: str, **how: Any) -> list[subprocess.CompletedProcess[Any]]:
    """What the server answers and what a process of its own does."""
    how = {"capture_output": True, "text": True, "env": ENVIRONMENT, **how}
    asked = warm._Asked.of([sys.executable, *words], dict(how))
    assert asked is not None, "it is not the server that answers"
    return [asked.answered(), subprocess.run([sys.executable, *words], check=False, **how)]


PROGRAMS = {
    "prints": "import sys; print('a', sys.argv, __name__, sys.path[0]); print('b', file=sys.stderr)",
    "ends with a number": "import sys; print('kept', end=''); sys.exit(7)",
    "ends with words": "raise SystemExit('no such thing')",
    "ends by an error": "def f():\n    raise ValueError('no')\n\nf()",
    "ends by a signal": "import os; os.kill(os.getpid(), 15)",
    "is interrupted": "raise KeyboardInterrupt",
    "is no Python": "x = (",
    "reads": "import sys; print(sys.stdin.read().upper(), sys.stdin.isatty())",
    "leaves a thread and a hook": "import atexit, threading\natexit.register(print, 'last')\n"
    "threading.Timer(0.05, print, ['late']).start()",
    "warns": "import warnings; warnings.warn('careful')",
    "has its environment": "import os; print(sorted(k for k in os.environ if k.startswith('HPUSHIM')), os.getcwd())",
    "sees nothing loaded": "import sys; print([n for n in ('torch', 'numpy', 'libcst', 'hpushim', 'click') if n in sys.modules])",
}


@pytest.mark.parametrize("kind", ["code", "file"])
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_does_what_it_does_in_a_process_of_its_own(
    tmp_path: Path, what: str, kind: str
) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[what])
    words = ["program.py"] if kind == "file" else ["-c", PROGRAMS[what]]
    ours, theirs = both(*words, "one", cwd=tmp_path, input="given")
    assert (ours.returncode, ours.stdout, ours.stderr) == (
        theirs.returncode,
        theirs.stdout,
        theirs.stderr,
    )


def test_modules_options_and_streams(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys, warnings\nwarnings.warn('x')\nprint(sys.argv, sys.path[0], __spec__.name)\n1 / 0\n")  # fmt: skip
    for words in (["-m", "mine", "a"], ["-W", "ignore", "-m", "mine"], ["-m", "none"], ["none.py"]):
        ours, theirs = both(*words, cwd=tmp_path)
        assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
        assert ours.stderr == theirs.stderr
    mixed = both("-m", "mine", cwd=tmp_path, capture_output=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    assert mixed[0].stdout == mixed[1].stdout and mixed[0].stderr is None


ORDER = """
import importlib.abc, sys
seen = []
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "torch.nn", "torch._dynamo", "numpy"):
            seen.append(name)
sys.meta_path.insert(0, Finder())
assert "torch" not in sys.modules
import torch
own = torch.manual_seed is torch.random.manual_seed
assert "torch._dynamo" not in sys.modules and torch.nn.Linear(2, 2)(torch.ones(2)).shape == (2,)
import torch._dynamo, torch.multiprocessing
assert callable(torch.multiprocessing.spawn)
print(sorted(seen), own, torch.manual_seed is torch.random.manual_seed, torch._dynamo is sys.modules["torch._dynamo"])
"""


def test_torch_comes_when_it_is_imported_and_finders_see_it() -> None:
    ours, theirs = both("-c", ORDER)
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    assert "torch._dynamo" in ours.stdout


def test_what_is_read_at_the_start_asks_for_a_process_of_its_own(tmp_path: Path) -> None:
    for folder, file in (("start", "sitecustomize.py"), ("hiding", "torch/__init__.py")):
        (tmp_path / folder / file).parent.mkdir(parents=True)
        (tmp_path / folder / file).write_text("")
    how = {"capture_output": True, "env": ENVIRONMENT}
    words = [sys.executable, "-c", "pass"]
    assert warm._Asked.of(words, dict(how)) is not None
    for changes in ({"PYTHONPATH": str(tmp_path / "start")}, {"PYTHONPATH": str(tmp_path / "hiding")}, {"PYTHONHASHSEED": "1"}, {"TORCH_LOGS": "+all"}, {"OMP_NUM_THREADS": "2"}):  # fmt: skip
        assert warm._Asked.of(words, {**how, "env": {**ENVIRONMENT, **changes}}) is None
    for other in ([sys.executable, "-S", "-c", "pass"], ["sh", "-c", "true"], [sys.executable, "-"]):  # fmt: skip
        assert warm._Asked.of(other, dict(how)) is None
    assert warm._Asked.of(words, {**how, "start_new_session": True}) is None
    assert warm._Asked.of([sys.executable, str(tmp_path / "hiding" / "a.py")], dict(how)) is None
    assert warm._Asked.of(words, {**how, "cwd": tmp_path / "hiding"}) is None
    assert warm._Asked.of(words, {"env": ENVIRONMENT}) is None, "what is not captured is shown"


def test_a_program_that_does_not_end_is_stopped() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as stopped:
        warm.run([sys.executable, "-c", "print('begun', flush=True)\nwhile True: pass"], capture_output=True, text=True, env=ENVIRONMENT, timeout=1)  # fmt: skip
    assert stopped.value.stdout == "begun\n"
    with pytest.raises(subprocess.CalledProcessError):
        warm.run([sys.executable, "-c", "1 / 0"], capture_output=True, env=ENVIRONMENT, check=True)
