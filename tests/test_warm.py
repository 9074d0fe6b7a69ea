"""What tests/warm.py starts is, to its program, a Python as any other."""

from __future__ import annotations

import os
import signal
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
    return [subprocess.run([name, *words], check=False, **how) for name in (warm.python(), sys.executable)]  # fmt: skip


def forked(*words: str, **how: Any) -> bool:
    """Whether the server answers, who then is the parent."""
    how = {"capture_output": True, "text": True, "env": ENVIRONMENT, **how}
    said = warm.run([sys.executable, *words], check=True, **how).stdout
    return (
        said.split()[-1] != str(os.getpid())
        and "torch" in Path(f"/proc/{said.split()[-1]}/maps").read_text()
    )


ASK = "import os; print(os.getppid())"


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
    (tmp_path / "hiding" / "torch").mkdir(parents=True)
    (tmp_path / "hiding" / "torch" / "__init__.py").write_text("")
    (tmp_path / "hiding" / "a.py").write_text(ASK)
    assert forked("-c", ASK) and forked("-Wignore", "-u", "-c", ASK)
    for changes in ({"PYTHONPATH": str(tmp_path / "hiding")}, {"PYTHONHASHSEED": "1"}, {"TORCH_LOGS": "+all"}, {"OMP_NUM_THREADS": "2"}):  # fmt: skip
        assert not forked("-c", ASK, env={**ENVIRONMENT, **changes}), changes
    assert not forked("-S", "-c", ASK) and not forked("-", input=ASK)
    assert not forked(str(tmp_path / "hiding" / "a.py"))
    assert not forked("-c", ASK, cwd=tmp_path / "hiding")


STARTED = """
import multiprocessing, os, subprocess, sys
def f(queue):
    queue.put(os.getppid())
if __name__ == "__main__":
    print(os.getppid())
    print(subprocess.run([sys.executable, "-c", "import os; print(os.getppid())"], capture_output=True, text=True).stdout.strip())
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=f, args=(queue,))
    child.start()
    print(queue.get(timeout=60))
    child.join()
    assert child.exitcode == 0
    if len(sys.argv) < 2:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
"""


def test_what_a_program_starts_is_forked_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STARTED)
    done = warm.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 6 and len(set(done.stdout.split())) == 1, done.stdout


def test_customizations_of_the_start_are_run_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; print('start', sys.argv, sys.path[0])")
    for words in (["-c", "print(1)"], ["-m", "this"]):
        ours, theirs = both(*words, env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)})
        assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
        assert "start" in ours.stdout


def test_signals_and_endings_are_passed_on(tmp_path: Path) -> None:
    """What ends the one that was started ends the program, whether it asks or forces, and whoever leads the group."""
    code = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint(os.getpid(), flush=True)\nfor _ in range(600): time.sleep(0.1)"
    for number, group in [(n, g) for n in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT) for g in (False, True)]:  # fmt: skip
        with subprocess.Popen([warm.python(), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT, start_new_session=group) as process:  # fmt: skip
            assert process.stdout
            assert process.stdout.readline()
            (os.killpg if group else os.kill)(process.pid, number)
            assert process.wait(30) == (5 if number == signal.SIGTERM else -number)
            assert process.stdout.read() == "", "what it has open is closed when it has ended"


def test_a_program_that_does_not_end_is_stopped() -> None:
    assert forked("-c", ASK), "the server is there"
    with pytest.raises(subprocess.TimeoutExpired) as stopped:
        warm.run([sys.executable, "-c", "print('begun', flush=True)\nwhile True: pass"], capture_output=True, text=True, env=ENVIRONMENT, timeout=1)  # fmt: skip
    assert stopped.value.stdout in ("begun\n", b"begun\n")
    with pytest.raises(subprocess.CalledProcessError):
        warm.run([sys.executable, "-c", "1 / 0"], capture_output=True, env=ENVIRONMENT, check=True)


@pytest.mark.parametrize("number", ["INT", "QUIT", "HUP"])
def test_a_suite_in_the_background_is_served_as_well(number: str) -> None:
    """What ignores a signal has a process of its own; a suite that is started so ignores it no longer."""
    ask = f"import signal, conftest; print(signal.getsignal(signal.SIG{number}) != signal.SIG_IGN)"
    command = ["sh", "-c", f"trap '' {number}; exec \"$0\" -c '{ask}'", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent, env=ENVIRONMENT)  # fmt: skip
    assert done.stdout == "True\n"
