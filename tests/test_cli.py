"""The command line as a user meets it: exit codes, messages, and nothing lost on a fault."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

from hpushim.cli import COMMANDS
from hpushim.cli.program import ProgramCommand

TRAIN = """\
import torch
import torch.nn as nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"device {next(model.parameters()).device}")
"""


def hpushim(
    *words: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    return warm.run(
        [sys.executable, "-m", "hpushim", *map(str, words)],
        cwd=cwd,
        env={**clean, "OMP_NUM_THREADS": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def test_check_reports_and_changes_nothing(project: Path) -> None:
    done = hpushim("check", ".", cwd=project)
    assert done.returncode == 1
    assert "train.py:4:" in done.stdout
    assert ": model = nn.Linear(4, 2).cuda()\n" in done.stdout
    assert (project / "train.py").read_text() == TRAIN
    assert sorted(p.name for p in project.iterdir()) == ["train.py"]


def test_check_of_clean_code_is_zero(project: Path) -> None:
    (project / "train.py").write_text("print('no device here')\n")
    done = hpushim("check", ".", cwd=project)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("Verdict: nothing to do. ")


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ('add_argument("--device", default="cuda")', "--device hpu"),
        ('add_argument("--run-on", default="cuda:0")', "--run-on hpu"),
        ('add_argument("-d", "--dev", help="cpu, cuda, mps")', "--dev hpu"),
        ('add_argument("--name", default="cuda")', ""),
        ('add_argument("--gpu-devices")\nos.environ["CUDA_VISIBLE_DEVICES"] = a.gpu_devices', ""),
        (
            'add_argument("--devices")\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", str(a.devices))',
            "",
        ),
        ('add_argument("--lr", type=float)', ""),
    ],
)
def test_next_names_the_options_that_take_a_device(
    project: Path, declared: str, shown: str
) -> None:
    code = f"import argparse\n\nparser = argparse.ArgumentParser()\nparser.{declared}\n"
    (project / "options.py").write_text(code)
    for words in (("report", "-q", "."), ("migrate", "--allow-dirty", ".")):
        said = hpushim(*words, cwd=project).stdout
        assert "Next: " in said
        lines = [line for line in said.splitlines() if "in the commands that start" in line]
        assert len(lines) == bool(shown)
        assert not shown or f"{shown} " in lines[0]


def test_diff_shows_and_writes_nothing(project: Path) -> None:
    done = hpushim("migrate", "--diff", ".", cwd=project)
    assert done.returncode == 1
    assert '-model = nn.Linear(4, 2).cuda()\n+model = nn.Linear(4, 2).to("hpu")' in done.stdout
    assert (project / "train.py").read_text() == TRAIN


def test_diff_says_what_was_refused(project: Path) -> None:
    (project / "broken.py").write_text("import torch\nx = torch.zeros(2).cuda(\n")
    done = hpushim("migrate", "--diff", ".", cwd=project)
    assert done.returncode == 3
    assert "broken.py:2:24: HPU001 not Python" in done.stderr, done.stderr
    assert "HPU001" not in done.stdout  # which `git apply` reads


def test_migrate_then_again_then_undo(project: Path) -> None:
    (project / "other.py").write_text("x = 1\n")
    os.utime(project / "other.py", ns=(1, 1))
    os.utime(project / "train.py", ns=(2_000_000_000, 2_000_000_000))
    (project / "train.py").chmod(0o755)

    first = hpushim("migrate", ".", cwd=project)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.startswith("train.py: ") and "hpushim migrate --undo" in first.stdout
    migrated = (project / "train.py").read_text()
    assert "cuda" not in migrated
    assert (project / "other.py").stat().st_mtime_ns == 1
    assert (project / "train.py").stat().st_mode & 0o777 == 0o755

    second = hpushim("migrate", ".", cwd=project)
    assert second.returncode == 0
    assert "0 changed" in second.stdout
    assert (project / "train.py").read_text() == migrated

    undone = hpushim("migrate", "--undo", ".", cwd=project)
    assert undone.returncode == 0, undone.stderr
    assert "1 file restored" in undone.stdout
    assert (project / "train.py").read_text() == TRAIN
    assert (project / "train.py").stat().st_mtime_ns == 2_000_000_000


def test_findings_that_are_left_do_not_fail_a_migration(project: Path) -> None:
    (project / "train.py").write_text(f"{TRAIN}torch.cuda.ipc_collect()\nimport cupy\n")
    done = hpushim("migrate", ".", cwd=project)
    assert done.returncode == 0, done.stdout
    assert "`hpushim check` lists them" in done.stdout
    assert "HPU" not in done.stdout  # `check` shows the findings
    assert hpushim("check", ".", cwd=project).returncode == 1


def test_what_comes_next_names_the_script_that_trains(project: Path) -> None:
    main = 'if __name__ == "__main__":\n    main()\n'
    (project / "a.py").write_text(f"import torch\ntorch.cuda.synchronize()\n{main}")
    loop = "def main():\n    for _ in range(2):\n        loss = model(x)\n        loss.backward()\n        optimizer.step()\n"
    (project / "fit.py").write_text(f"{TRAIN}{loop}{main}")
    asked = hpushim("report", ".", cwd=project).stdout
    assert "hpushim run train.py " in asked and "hpushim prove train.py " in asked, asked
    assert "hpushim run --native train.py " in hpushim("migrate", ".", cwd=project).stdout
    assert "hpushim run" not in hpushim("report", ".", cwd=project).stdout


def test_undo_refuses_what_was_edited_since(project: Path) -> None:
    hpushim("migrate", ".", cwd=project)
    edited = (project / "train.py").read_text() + "# mine\n"
    (project / "train.py").write_text(edited)
    refused = hpushim("migrate", "--undo", ".", cwd=project)
    assert refused.returncode == 3
    assert "train.py" in refused.stderr
    assert (project / "train.py").read_text() == edited
    forced = hpushim("migrate", "--undo", "--force", ".", cwd=project)
    assert forced.returncode == 0
    assert (project / "train.py").read_text() == TRAIN


def test_undo_with_nothing_to_undo_says_so(project: Path) -> None:
    done = hpushim("migrate", "--undo", ".", cwd=project)
    assert done.returncode == 0
    assert "nothing to undo" in done.stdout


def test_a_syntax_error_is_reported_and_the_rest_migrated(project: Path) -> None:
    broken = 'print "cuda"\n'
    (project / "old.py").write_text(broken)
    done = hpushim("migrate", ".", cwd=project)
    assert done.returncode == 3
    assert "old.py" in done.stdout
    assert (project / "old.py").read_text() == broken
    assert "hpu" in (project / "train.py").read_text()


def test_undecodable_bytes_are_left_alone(project: Path) -> None:
    data = b'# caf\xe9\nx = "cuda"\n'
    (project / "latin.py").write_bytes(data)
    done = hpushim("migrate", ".", cwd=project)
    assert done.returncode == 3
    assert "latin.py" in done.stdout
    assert (project / "latin.py").read_bytes() == data


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads every file, whatever its mode"
)
def test_an_unreadable_file_is_named(project: Path) -> None:
    (project / "secret.py").write_text('x = "cuda"\n')
    (project / "secret.py").chmod(0)
    done = hpushim("check", ".", cwd=project)
    assert done.returncode == 3
    assert "secret.py" in done.stdout


def test_a_file_that_vanishes_or_cannot_be_opened_is_named(project: Path) -> None:
    # A directory's entry that no one can open, root included: a symbolic link to itself.
    (project / "loop.py").symlink_to("loop.py")
    done = hpushim("check", "loop.py", cwd=project)
    assert done.returncode in (2, 3)
    assert "loop.py" in done.stdout + done.stderr


def _git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def test_uncommitted_changes_are_refused_until_allowed(project: Path) -> None:
    _git(project, "init", "-q")
    _git(project, "add", ".")
    _git(project, "commit", "-qm", "x")
    dirty = TRAIN + "# not committed\n"
    (project / "train.py").write_text(dirty)
    refused = hpushim("migrate", ".", cwd=project)
    assert refused.returncode == 2
    assert "train.py" in refused.stderr
    assert "--allow-dirty" in refused.stderr
    assert (project / "train.py").read_text() == dirty
    allowed = hpushim("migrate", "--allow-dirty", ".", cwd=project)
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr


def test_report_json_reads_back(project: Path) -> None:
    done = hpushim("report", ".", "--format", "json", cwd=project)
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["schema_version"] == 2
    assert [f["path"] for f in data["files"]] == ["train.py"]
    assert data["target"] == {
        "gaudi": "gaudi2",
        "stack": data["target"]["stack"],
        "mode": "portable",
        "style": "native",
    }


def test_settings_come_from_pyproject(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.hpushim]\nmode = "eager"\n')
    done = hpushim("migrate", "--diff", ".", cwd=project)
    assert "mark_step" not in done.stdout
    (project / "pyproject.toml").write_text("[tool.hpushim]\nmood = 1\n")
    wrong = hpushim("check", ".", cwd=project)
    assert wrong.returncode == 2
    assert "mood" in wrong.stderr
    assert "pyproject.toml" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "did you mean 'check'"),
        (["check", "--stack", "9.99"], "no such release"),
        (["check", "nowhere"], "does not exist"),
        (["explain", "HPU1O1"], "no rule gives"),
        (["run"], "name a script"),
        (["run", "nowhere.py"], "no such script"),
    ],
)
def test_wrong_usage_is_two_and_says_what_to_do(project: Path, words: list[str], said: str) -> None:
    done = hpushim(*words, cwd=project)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_prints_the_page(project: Path) -> None:
    done = hpushim("explain", "101", cwd=project)
    assert done.returncode == 0
    assert "HPU101" in done.stdout
    assert "Left alone" in done.stdout


# -- torch: none, a CUDA build, no compiler -------------------------------------------------


def _block_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which torch cannot be found, though it is installed."""
    site = tmp_path / "no_torch"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch' or name.startswith('torch.'):\n"
        "            raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "sys.meta_path.insert(0, Block())\n"
    )
    return {"PYTHONPATH": str(site)}


def test_without_torch_the_codemod_works_and_run_says_what_is_missing(
    project: Path, tmp_path: Path
) -> None:
    env = _block_torch(tmp_path)
    assert hpushim("check", ".", cwd=project, env=env).returncode == 1
    done = hpushim("run", "train.py", cwd=project, env=env)
    assert done.returncode == 2
    assert "torch" in done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cuda_built_torch_is_named_with_the_remedy(project: Path, tmp_path: Path) -> None:
    # What hpushim asks a CUDA build without a driver; it must refuse before anything is compiled.
    fake = tmp_path / "cuda_build" / "torch"
    fake.mkdir(parents=True)
    (fake / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda: str = '13.0'\n")
    (fake / "__init__.py").write_text(
        "from types import SimpleNamespace\n"
        "from torch import version\n"
        "from torch.version import __version__\n"
        "backends = SimpleNamespace(cuda=SimpleNamespace(is_built=lambda: True))\n"
        "cuda = SimpleNamespace(is_available=lambda: False)\n"
    )
    for asked in ({}, {"HPUSHIM": "emulate"}):
        env = {"PYTHONPATH": str(fake.parent), **asked}
        done = hpushim("run", "train.py", cwd=project, env=env)
        assert done.returncode == 2, done.stderr
        assert "CUDA build" in done.stderr
        assert "CPU build" in done.stderr
        assert "Traceback" not in done.stderr


def test_without_a_compiler_the_message_says_how_to_get_one(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    empty = tmp_path / "bin"
    empty.mkdir()
    env = {"PATH": str(empty), "HPUSHIM_CACHE_DIR": str(tmp_path / "cache"), "CXX": ""}
    done = hpushim("run", "train.py", cwd=project, env=env)
    assert done.returncode == 2
    assert "compiler" in done.stderr
    assert "g++" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_ends_with_the_scripts_own_status(project: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    good = hpushim("run", "train.py", cwd=project)
    assert good.returncode == 0, good.stderr
    assert "device hpu:0" in good.stdout
    assert "emulated" in good.stderr
    (project / "fails.py").write_text("import sys, torch\nsys.exit(7)\n")
    assert hpushim("run", "fails.py", cwd=project).returncode == 7


def test_a_migrated_script_runs_natively(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    assert hpushim("migrate", ".", cwd=project).returncode == 0
    books = tmp_path / "books.json"
    done = hpushim("run", "--native", "--mode", "lazy", "--ledger", books, "train.py", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "device hpu:0" in done.stdout
    assert json.loads(books.read_text())["mark_steps"] == 6


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
def test_streams_that_were_closed_before_the_start_are_no_fault(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    """``hpushim check . >&-``, as cron and service managers start programs: the exit code still says what was found."""
    (tmp_path / "train.py").write_text(TRAIN)
    told = tmp_path / "told.txt"
    shut = " ".join(f"{stream}>&-" if stream else "<&-" for stream in closed)
    open_ones = "".join(f" {n}>{told}.{n}" for n in (1, 2) if n not in closed)
    line = f'"{sys.executable}" -m hpushim check train.py --format concise{open_ones} {shut}'
    ended = subprocess.run(["sh", "-c", line], cwd=tmp_path, check=False)
    assert ended.returncode == 1
    if 1 not in closed:
        assert "HPU102" in Path(f"{told}.1").read_text()
    if 2 not in closed:
        assert "Traceback" not in Path(f"{told}.2").read_text()


def test_commands_that_take_a_program_leave_it_its_arguments() -> None:
    modules = [
        importlib.import_module(f"hpushim.cli.{name.replace('-', '_')}") for name in COMMANDS
    ]
    takers = {
        one.command.name: one.command
        for one in modules
        if any(option.name == "module" for option in one.command.params)
    }
    assert set(takers) == {"run", "plan", "prove"}
    for name, command in takers.items():
        assert isinstance(command, ProgramCommand)
        parsed = command.make_context(
            name, ["-m", "train", "--devices", "2", "-q", "--", "-m", "x"]
        )
        assert parsed.params["module"] == "train"
        assert parsed.params["words"] == ("--devices", "2", "-q", "--", "-m", "x")


@pytest.mark.parametrize(
    "words", (["run", "train.py"], ["prove", "train.py"], ["migrate", ".", "--prove", "train.py"])
)
def test_commands_that_run_a_script_ask_for_torch(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HPUSHIM", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    assert importlib.import_module("hpushim.cli").main(words) == 2
    assert "torch is not installed" in capfd.readouterr().err
