"""Building the device: the cache, two builders at once, and what is said when it cannot be done.

A stand-in compiler answers at once, so these tests see the build's own behaviour and not the real compiler's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import plain_environment

COMPILER = """#!/bin/sh
# a stand-in: writes its output file
{before}
while [ $# -gt 0 ]; do
  if [ "$1" = "-o" ]; then echo built > "$2"; fi
  shift
done
"""

BUILD = "from hpushim.emulator import build; print(build.build())"


@pytest.fixture
def compiler(tmp_path):
    def write(before: str = ":") -> str:
        path = tmp_path / "compiler"
        path.write_text(COMPILER.format(before=before))
        path.chmod(0o755)
        return str(path)

    return write


def built(cache) -> list[str]:
    """What the cache holds, apart from lock files."""
    folder = cache / "device"
    return (
        sorted(p.name for p in folder.iterdir() if p.suffix != ".lock") if folder.is_dir() else []
    )


def test_builds_once_and_shows_progress(run, tmp_path, compiler):
    cache = tmp_path / "cache"
    log = tmp_path / "calls"
    env = {
        "HPUSHIM_CACHE_DIR": str(cache),
        "CXX": compiler(f"echo x >> {log}"),
        "HPUSHIM_LOG": "summary",
    }
    first = run(BUILD, **env)
    assert "building the emulated HPU for torch" in first.stderr and "done in" in first.stderr
    calls = log.read_text()
    second = run(BUILD, **env)
    assert second.stderr == "" and log.read_text() == calls
    assert first.stdout == second.stdout
    assert len(built(cache)) == 1


def test_two_first_uses_at_once_compile_once(tmp_path, compiler):
    cache, log = tmp_path / "cache", tmp_path / "calls"
    env = plain_environment(
        HPUSHIM_CACHE_DIR=str(cache),
        CXX=compiler(f"echo x >> {log}; sleep 0.1"),
        HPUSHIM_LOG="summary",
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    results = [p.communicate(timeout=120) for p in processes]
    assert [p.returncode for p in processes] == [0, 0], results
    assert results[0][0] == results[1][0]
    from hpushim.emulator import build

    assert len(log.read_text().split()) == len(list(build.SOURCES.glob("*.cpp"))) + 1
    assert len(built(cache)) == 1


def test_a_killed_build_leaves_nothing_that_counts(tmp_path, compiler, run):
    cache = tmp_path / "cache"
    started = tmp_path / "started"
    env = plain_environment(
        HPUSHIM_CACHE_DIR=str(cache), CXX=compiler(f"touch {started}; sleep 60")
    )
    process = subprocess.Popen([sys.executable, "-c", BUILD], env=env, start_new_session=True)
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert all(name.startswith(".") for name in built(cache))
    run(BUILD, HPUSHIM_CACHE_DIR=str(cache), CXX=compiler())
    assert len(built(cache)) == 1 and not built(cache)[0].startswith("."), (
        "the leftovers are gone too"
    )


def said(run, code: str = BUILD, **env: str) -> str:
    """The last line of a failing run."""
    result = run(code, check=False, **env)
    assert result.returncode != 0
    return result.stderr.strip().splitlines()[-1]


def test_no_compiler(run, tmp_path):
    line = said(run, HPUSHIM_CACHE_DIR=str(tmp_path), PATH=str(tmp_path))
    assert (
        "EmulatorError: no C++ compiler found (looked for g++" in line and "apt install g++" in line
    )
    line = said(run, HPUSHIM_CACHE_DIR=str(tmp_path), CXX="no-such-compiler")
    assert "looked for no-such-compiler" in line


def test_no_torch(run, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    line = said(run, PYTHONPATH=str(tmp_path))
    assert "EmulatorError: no torch found (no torch here)" in line and "install a CPU build" in line


def test_torch_built_for_cuda(run):
    code = "import torch; torch.version.cuda = '13.2'\n" + BUILD
    line = said(run, code)
    assert (
        "is built for CUDA and cannot host an hpu device" in line
        and "install the CPU build of torch" in line
    )


def test_compiler_error_is_shown_in_one_line(run, tmp_path, compiler):
    failing = compiler('echo "memory.cpp:3: error: no such header" >&2; exit 1')
    line = said(run, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=failing)
    assert "error: no such header" in line and "compiling" in line and "set CXX" in line
    assert built(tmp_path / "cache") == []


def test_full_disk(run, tmp_path, compiler):
    failing = compiler(
        'echo "fatal error: error writing to a.o: No space left on device" >&2; exit 1'
    )
    line = said(run, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=failing)
    assert "no space left in" in line and "HPUSHIM_CACHE_DIR" in line
    assert built(tmp_path / "cache") == []


def test_cache_folder_that_cannot_be_written(run, tmp_path, compiler):
    (tmp_path / "cache").write_text("a file, not a folder")
    line = said(run, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=compiler())
    assert "cannot write the emulated HPU" in line and "HPUSHIM_CACHE_DIR" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only folder")
def test_read_only_cache_folder(run, tmp_path, compiler):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o555)
    line = said(run, HPUSHIM_CACHE_DIR=str(cache), CXX=compiler())
    assert "cannot write the emulated HPU" in line


def test_a_library_that_does_not_load_is_named(run, tmp_path, compiler):
    code = "from hpushim.emulator import device; device.load()"
    line = said(run, code, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=compiler())
    assert "does not load" in line and "delete" in line and str(tmp_path) in line


def test_a_prebuilt_wheel_needs_no_compiler(run, tmp_path):
    import zipfile

    from hpushim.emulator.prebuild import make_wheel

    wheel = make_wheel(tmp_path / "wheels")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = """
    import hpushim.emulator, torch
    hpushim.emulator.enable()
    assert torch.ones(2, device="hpu").sum().item() == 2
    """
    env = {
        "HPUSHIM_CACHE_DIR": str(tmp_path / "cache"),
        "CXX": "no-such-compiler",
        "PYTHONPATH": str(tmp_path / "site"),
    }
    run(code, **env)
    assert built(tmp_path / "cache") == [], "nothing was compiled"
