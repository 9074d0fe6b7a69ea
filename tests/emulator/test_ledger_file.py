"""The ledger's file: what is never replaced, two runs that name one, and what is told before a run begins."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from environments import plain_environment

pytestmark = pytest.mark.usefixtures("served")

RUN = """
import hpushim.emulator
hpushim.emulator.enable()
print("the run begins", flush=True)
import torch
for _ in range({0}): torch.empty(2, device="hpu").add(1)
"""


def a_folder(path: Path) -> None:
    path.mkdir()


def a_full_folder(path: Path) -> None:
    path.mkdir()
    (path / "kept").write_text("kept")


def a_link(path: Path) -> None:
    path.with_name("target").write_text("kept")
    path.symlink_to("target")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def a_device(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, os.makedev(1, 3))  # as /dev/null
    except PermissionError:
        pytest.skip("no right to make a device node here")


def a_program(path: Path) -> None:
    path.write_text("import torch\n")


@pytest.mark.parametrize(
    "make",
    [a_folder, a_full_folder, a_link, a_dangling_link, a_pipe, a_socket, a_device, a_program],
    ids=lambda make: make.__name__,
)
def test_what_is_no_ledger_is_refused_before_the_run_begins(run, tmp_path, make):
    path = tmp_path / "ledger.json"
    make(path)
    before = path.lstat(), sorted(tmp_path.rglob("*"))
    result = run(RUN.format(1), check=False, HPUSHIM_LEDGER=str(path))
    assert result.returncode != 0 and result.stdout == ""
    line = result.stderr.strip().splitlines()[-1]
    assert f"the ledger is not written to {path}: there is a" in line and "HPUSHIM_LEDGER" in line
    after = path.lstat(), sorted(tmp_path.rglob("*"))
    assert (before[0].st_ino, before[0].st_mode, before[1]) == (
        after[0].st_ino,
        after[0].st_mode,
        after[1],
    )


def test_hpushim_run_refuses_it_too(tmp_path):
    """By the option, with exit code 2, before the script's first line."""
    (tmp_path / "script.py").write_text("print('the run begins')")
    result = subprocess.run(
        [sys.executable, "-m", "hpushim", "run", "--ledger", "/dev/null", "script.py"],
        cwd=tmp_path,
        env=plain_environment(HPUSHIM="emulate"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "the ledger is not written to /dev/null: there is a device" in result.stderr
    assert Path("/dev/null").is_char_device()


def test_what_stands_there_at_the_end_is_looked_at_again(run, tmp_path):
    path = tmp_path / "ledger.json"
    code = RUN.format(1) + f"import os\nos.unlink({str(path)!r})\nos.mkfifo({str(path)!r})\n"
    result = run(code, HPUSHIM_LEDGER=str(path))
    assert "there is a pipe, which hpushim never replaces" in result.stderr
    assert path.is_fifo() and [p.name for p in tmp_path.iterdir()] == ["ledger.json"]


def test_a_part_that_is_no_file_is_neither_removed_nor_replaced(run, tmp_path):
    path = tmp_path / "ledger.json"
    part = tmp_path / "ledger.json.rank1"
    os.mkfifo(part)
    run(RUN.format(1), HPUSHIM_LEDGER=str(path))
    refused = run(RUN.format(1), check=False, HPUSHIM_LEDGER=str(path), RANK="1")
    assert f"the ledger is not written to {part}: there is a pipe" in refused.stderr
    late = run(
        "import os; os.environ['RANK'] = '1'\n" + RUN.format(1),
        check=False,
        HPUSHIM_LEDGER=str(path),
    )
    assert late.stdout == "" and part.is_fifo()


def test_a_part_that_turns_out_to_be_no_file_does_not_break_the_run(run, tmp_path):
    path = tmp_path / "ledger.json"
    os.mkfifo(tmp_path / "ledger.json.rank1")
    code = RUN.format(1) + "import os\nos.environ['RANK'] = '1'\n"
    assert "could not be written" in run(code, HPUSHIM_LEDGER=str(path)).stderr


def test_an_unwritable_path_is_said_and_does_not_break_the_run(run):
    result = run(RUN.format(1), HPUSHIM_LEDGER="/dev/null/ledger.json")
    assert "could not be written" in result.stderr and "HPUSHIM_LEDGER" in result.stderr
    assert "the run begins" in result.stdout


def test_an_earlier_runs_books_are_kept_and_that_is_said(run, tmp_path):
    path = tmp_path / "ledger.json"
    for name in ("ledger.json.rank1", "ledger.json.pid12", "ledger.json.7.tmp"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "ledger.json.rank1.png").write_text("mine")
    told = [
        run(RUN.format(operators), HPUSHIM_LEDGER=str(path), HPUSHIM_LOG="summary").stderr
        for operators in (1, 2, 3)
    ]
    assert "kept" not in told[0]
    assert f"the ledger of an earlier run in {path} is kept as ledger.1.json" in told[1]
    assert f"the ledger of an earlier run in {path} is kept as ledger.2.json" in told[2]
    kept = {one.name: one for one in tmp_path.iterdir() if one.suffix == ".json"}
    operators = {name: json.loads(one.read_text())["operators"] for name, one in kept.items()}
    assert operators == {"ledger.json": 3, "ledger.1.json": 1, "ledger.2.json": 2}
    assert (tmp_path / "ledger.json.rank1.png").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 4


def test_books_of_further_ranks_are_kept_with_the_first_ones(run, tmp_path):
    """Also where the first process was killed, so that its own are missing."""
    path = tmp_path / "ledger.json"
    code = RUN.format(2) + (
        "import os, subprocess, sys\n"
        "child = \"import hpushim.emulator as e; e.enable(); import torch; torch.empty(2, device='hpu').add(1)\"\n"
        "subprocess.run([sys.executable, '-c', child], env={**os.environ, 'RANK': '1'}, check=True)\n"
    )
    run(code, HPUSHIM_LEDGER=str(path))
    run(code + "os._exit(0)", HPUSHIM_LEDGER=str(path))
    run(RUN.format(3), HPUSHIM_LEDGER=str(path))
    books = {one.name: json.loads(one.read_text())["operators"] for one in tmp_path.iterdir()}
    assert books == {
        "ledger.json": 3,
        "ledger.1.json": 2,
        "ledger.1.json.rank1": 1,
        "ledger.2.json.rank1": 1,
    }


def test_a_name_with_signs_of_patterns_is_a_plain_name(run, tmp_path):
    path = tmp_path / "ledger[1]*.json"
    (tmp_path / "ledger1.json.rank1").write_text("{}")
    run(RUN.format(2), HPUSHIM_LEDGER=str(path))
    assert json.loads(path.read_text())["operators"] == 2
    assert (tmp_path / "ledger1.json.rank1").exists()


def test_two_runs_at_once_keep_both_their_books(tmp_path):
    path = tmp_path / "ledger.json"
    env = plain_environment(HPUSHIM_LEDGER=str(path))
    code = RUN + "import sys\nprint('done', flush=True)\nsys.stdin.readline()\n"
    runs = []
    for operators in (2, 3):
        one = subprocess.Popen(
            [sys.executable, "-c", code.format(operators)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert one.stdout.readline() == "the run begins\n"
        assert one.stdout.readline() == "done\n"
        runs.append(one)
    told = [one.communicate("\n", timeout=120)[1] for one in runs]
    assert told[0] == "" and "another run is still writing" in told[1]
    (beside,) = tmp_path.glob("ledger.json.run[0-9]*")
    assert json.loads(path.read_text())["operators"] == 2
    assert json.loads(beside.read_text())["operators"] == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_processes_of_one_run_do_not_replace_each_others_books(run, tmp_path):
    """A parent that used the device, and two children after each other that are rank 0."""
    code = RUN.format(5) + (
        "import os, subprocess, sys\n"
        "child = \"import hpushim.emulator as e; e.enable(); import torch; torch.empty(2, device='hpu').add(1)\"\n"
        "for _ in range(2): subprocess.run([sys.executable, '-c', child], env={**os.environ, 'RANK': '0'}, check=True)\n"
    )
    run(code, HPUSHIM_LEDGER=str(tmp_path / "ledger.json"))
    books = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(one["operators"] for one in books.values()) == [1, 1, 5]
    assert all(one["complete"] for one in books.values())


def test_ranks_of_a_launcher_that_keeps_no_books_take_a_file_each(tmp_path):
    """They start at the same time, and each is the first process of the run that it knows of."""
    path = tmp_path / "ledger.json"
    (tmp_path / "ledger.json.rank7").write_text("{}")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RUN.format(rank + 1)],
            env=plain_environment(HPUSHIM_LEDGER=str(path), RANK=str(rank), HPUSHIM_LOG="summary"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    assert [one.communicate(timeout=120)[1] for one in ranks] == [""] * 3
    books = {one.name: json.loads(one.read_text()) for one in tmp_path.iterdir()}
    assert {name: one["operators"] for name, one in books.items()} == {
        "ledger.json": 1,
        "ledger.json.rank1": 2,
        "ledger.json.rank2": 3,
    }


def test_a_killed_run_leaves_no_books_of_an_earlier_one(run, tmp_path):
    path = tmp_path / "ledger.json"
    run(RUN.format(2), HPUSHIM_LEDGER=str(path))
    run(RUN.format(2) + "import os; os._exit(0)", HPUSHIM_LEDGER=str(path))
    assert json.loads((tmp_path / "ledger.1.json").read_text())["operators"] == 2
    assert json.loads(path.read_text()) == {
        "schema_version": 1,
        "emulated": True,
        "complete": False,
    }


def test_a_fork_does_not_write_its_parents_books(run, tmp_path):
    path = tmp_path / "ledger.json"
    code = RUN.format(3) + "import os, sys\nif os.fork() == 0: sys.exit()\nos.wait()\n"
    run(code, HPUSHIM_LEDGER=str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.json"]
    assert json.loads(path.read_text())["operators"] == 3


def test_another_run_inside_a_run_has_books_of_its_own(run, tmp_path):
    other = tmp_path / "other.json"
    code = RUN.format(1) + (
        "import os, subprocess, sys\n"
        "child = \"import hpushim.emulator as e; e.enable(); import torch; torch.empty(2, device='hpu').add(1).add(2)\"\n"
        f"subprocess.run([sys.executable, '-c', child], env={{**os.environ, 'HPUSHIM_LEDGER': {str(other)!r}}}, check=True)\n"
    )
    run(code, HPUSHIM_LEDGER=str(tmp_path / "ledger.json"))
    assert json.loads(other.read_text())["operators"] == 2
    assert json.loads((tmp_path / "ledger.json").read_text())["operators"] == 1


@pytest.mark.parametrize("owner", ["mine", "another's", "nobody's"])
@pytest.mark.parametrize("rank", [None, 0, 2])
def test_where_the_books_of_a_process_go(tmp_path, monkeypatch, owner, rank):
    """The owner and the first rank take the file, further ranks theirs, helpers one by their number if they have something to tell."""
    from hpushim.emulator import ledger_file

    path = tmp_path / "ledger.json"
    process = {"mine": os.getpid(), "another's": 1, "nobody's": ""}[owner]
    monkeypatch.setenv("HPUSHIM_LEDGER_OWNER", f"{process} {path}")
    helper = tmp_path / f"ledger.json.pid{os.getpid()}"
    if rank:
        expected = tmp_path / "ledger.json.rank2"
    else:
        expected = path if rank == 0 or owner == "mine" else helper
    assert ledger_file.place(path, rank, active=True) == expected
    assert ledger_file.place(path, rank, active=False) == (None if expected == helper else expected)
    expected.write_text('{"complete": true}')  # another process of this run was first
    assert ledger_file.place(path, rank, active=True) == helper
    assert ledger_file.place(path, rank, active=False) is None
