"""Building the device: the cache, two builders at once, and what is said when it cannot be done.

A stand-in compiler answers at once, so these tests see the build's own behaviour and not the real compiler's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from environments import plain_environment

pytestmark = pytest.mark.usefixtures("served")

COMPILER = """#!/bin/sh
# a stand-in: writes its output file
{before}
while [ $# -gt 0 ]; do
  if [ "$1" = "-o" ]; then echo built > "$2"; fi
  shift
done
"""

READY = "from hpushim.emulator import build; print(build.readiness())"
BUILD = "from hpushim.emulator import build; print(build.build())"


@pytest.fixture
def compiler(tmp_path):
    def write(before: str = ":") -> str:
        path = tmp_path / "compiler"
        path.unlink(missing_ok=True)  # a killed build may still run the earlier one
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
    assert run(READY, **env).stdout.startswith("compiled at first use by ")
    first = run(BUILD, **env)
    assert run(READY, **env).stdout == f"built: {first.stdout}"
    told = first.stderr.splitlines()
    assert len(told) == 2, "without a terminal: a line at the start and one at the end"
    assert "building the emulated HPU for torch" in told[0] and "prebuild" in told[0]
    assert "is built, in" in told[1] and "\r" not in first.stderr
    calls = log.read_text()
    second = run(BUILD, **env)
    assert second.stderr == "" and log.read_text() == calls
    assert first.stdout == second.stdout
    assert len(built(cache)) == 1


def test_a_terminal_shows_one_line_that_counts(tmp_path, compiler):
    import pty

    ours, theirs = pty.openpty()
    env = plain_environment(
        HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=compiler("sleep 1"), HPUSHIM_LOG="summary"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD], env=env, stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    said = re.findall(r"hpushim: (\d+) %, \d+ s", shown.decode())
    assert said and list(map(int, said)) == sorted(map(int, said))
    assert "is built, in" in shown.decode().splitlines()[-1]


def test_what_is_done_goes_on_while_one_part_is_compiled():
    """By the compiler's processor time, children's too: not "0 of 5 parts" for two minutes."""
    from hpushim.emulator.compiling import COSTS, UNITS, Progress, progress_text

    assert {*UNITS, "link"} == {*COSTS}
    busy = "while :; do :; done"
    progress = Progress("2.13")
    command = ["sh", "-c", f"sh -c '{busy}' & wait"]
    shares = []
    with (
        subprocess.Popen(command, start_new_session=True) as work,
        progress.part("device") as began,
    ):
        began(work.pid)
        while len(shares) < 4:
            now = progress.share()
            if not shares or now > shares[-1]:
                shares.append(now)
        os.killpg(work.pid, signal.SIGKILL)
    assert 0 <= shares[0] < shares[-1] < COSTS["device"] / sum(COSTS.values()) == progress.share()
    assert progress_text(0.25, 10.0) == "25 %, 10 s, about 30 s more"
    assert progress_text(0.0, 1.0) == "0 %, 1 s"


def test_every_source_is_in_one_unit():
    from hpushim.emulator.compiling import SOURCES, UNITS

    units = {path.stem: path.read_text() for path in SOURCES.glob("units/*.cpp")}
    assert units.keys() == UNITS.keys()
    named = [
        line.split('"')[1]
        for text in units.values()
        for line in text.splitlines()
        if line.startswith("#include")
    ]
    assert sorted(named) == sorted(f"../{path.name}" for path in SOURCES.glob("*.cpp"))


@pytest.mark.parametrize("count", [2, 4])
def test_first_uses_at_once_compile_once(tmp_path, compiler, count):
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
        for _ in range(count)
    ]
    results = [p.communicate(timeout=120) for p in processes]
    assert [p.returncode for p in processes] == [0] * count, results
    assert len({out for out, _ in results}) == 1
    assert len(log.read_text().split()) == calls_of_a_build()
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


# A builder ends by kill -9 at a moment of its own: at the nth call of the compiler (the last one links), and right
# before and after the finished library is put in its place.
DIES_BEFORE_PLACING = """
import os, pathlib, signal
place = pathlib.Path.replace
def replace(self, target):
    if {after}: place(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.replace = replace
from hpushim.emulator import build
build.build()
"""


def calls_of_a_build() -> int:
    from hpushim.emulator.compiling import UNITS

    return len(UNITS) + 1


@pytest.mark.parametrize("moment", ["first", "second", "middle", "linking", "placing", "placed"])
def test_killed_at_any_moment_the_next_use_works(tmp_path, compiler, run, moment):
    cache, log = tmp_path / "cache", tmp_path / "calls"
    calls = calls_of_a_build()
    nth = {"first": 1, "second": 2, "middle": calls // 2, "linking": calls}.get(moment, 0)
    killer = (
        f'echo x >> {log}; [ "$(wc -l < {log})" -ge {nth} ] && [ {nth} -gt 0 ] && kill -9 $PPID'
    )
    code = (
        DIES_BEFORE_PLACING.format(after=moment == "placed") if moment.startswith("plac") else BUILD
    )
    died = run(code, check=False, HPUSHIM_CACHE_DIR=str(cache), CXX=compiler(killer))
    assert died.returncode == -signal.SIGKILL
    whole = [name for name in built(cache) if not name.startswith(".")]
    assert len(whole) == (moment == "placed"), "a library is there whole or not at all"
    place = run(BUILD, HPUSHIM_CACHE_DIR=str(cache), CXX=compiler()).stdout.strip()
    assert Path(place).read_text() == "built\n"
    # What an orphaned compiler still writes after the next build has swept goes with the build after that.
    assert len([name for name in built(cache) if not name.startswith(".")]) == 1


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
    assert "cannot write the emulated HPU" in line and "set HPUSHIM_CACHE_DIR" in line
    assert list(cache.iterdir()) == []


def test_a_read_only_cache_that_has_the_library_is_used(run, tmp_path):
    """The real library, in a folder where no lock and no mark can be written."""
    from hpushim.emulator import build

    library = build.build()
    there = tmp_path / "device" / library.parent.name
    shutil.copytree(library.parent, there)
    for folder in (there, there.parent):
        folder.chmod(0o555)
    code = """
    import hpushim.emulator.device as device
    print(device.load().memory_stats()["live"])
    """
    done = run(code, HPUSHIM_CACHE_DIR=str(tmp_path), CXX="no-such-compiler")
    for folder in (there.parent, there):
        folder.chmod(0o755)
    assert done.stdout == "0\n"


def test_a_file_system_that_takes_no_writes(run, compiler):
    line = said(run, HPUSHIM_CACHE_DIR="/proc/hpushim", CXX=compiler())
    assert "cannot write the emulated HPU to /proc/hpushim" in line


def test_files_that_may_not_grow(run, tmp_path, compiler):
    """A limit on file sizes, and a compiler that writes beyond it: said, and nothing stays."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" + BUILD
    cache = tmp_path / "cache"
    big = compiler("head -c 100000 /dev/zero > $TMPDIR/spill || exit 1")
    line = said(run, code, HPUSHIM_CACHE_DIR=str(cache), CXX=big)
    assert "compiling" in line and "for the emulated HPU failed" in line
    assert built(cache) == []
    run(BUILD, HPUSHIM_CACHE_DIR=str(cache), CXX=compiler())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 100 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_while_compiling(run, small_disk, compiler):
    big = compiler("head -c 60000 /dev/zero > $TMPDIR/part.$$ || exit 1")
    line = said(run, HPUSHIM_CACHE_DIR=str(small_disk), CXX=big)
    assert "no space left in" in line and "HPUSHIM_CACHE_DIR" in line
    assert built(small_disk) == []
    run(BUILD, HPUSHIM_CACHE_DIR=str(small_disk), CXX=compiler())
    assert len(built(small_disk)) == 1


@pytest.mark.parametrize("asked", ["build", "readiness"])  # the latter is what doctor asks
def test_torch_without_headers(run, tmp_path, compiler, asked):
    code = f"import torch; torch.__file__ = {str(tmp_path / 'torch' / '__init__.py')!r}\n"
    code += BUILD.replace("build.build()", f"build.{asked}()")
    line = said(run, code, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=compiler())
    assert "torch's C++ headers are not in" in line and "hpushim.emulator.prebuild" in line


def test_a_library_that_does_not_load_is_named_and_removed(run, tmp_path, compiler):
    code = "from hpushim.emulator import device; device.load()"
    line = said(run, code, HPUSHIM_CACHE_DIR=str(tmp_path / "cache"), CXX=compiler())
    assert "does not load" in line and "start again to build it anew" in line
    assert built(tmp_path / "cache") == []


def entries(cache, count: int) -> list[str]:
    """Old libraries in the cache, the oldest first."""
    names = [f"torch2.{n}-old" for n in range(count)]
    for age, name in enumerate(names):
        folder = cache / "device" / name
        folder.mkdir(parents=True)
        (folder / "library.so").write_text("old")
        (folder / "used").touch()
        os.utime(folder / "used", (age + 1, age + 1))
        (cache / "device" / f"{name}.lock").touch()
    return names


def test_old_libraries_are_dropped_by_last_use(run, tmp_path, compiler):
    from hpushim.emulator import cache as keeping

    old = entries(tmp_path, keeping.KEPT + 3)
    os.utime(tmp_path / "device" / old[0] / "used")  # the oldest was used just now
    (tmp_path / "device" / f".{old[2]}.killed").mkdir()
    run(BUILD, HPUSHIM_CACHE_DIR=str(tmp_path), CXX=compiler())
    kept = built(tmp_path)
    assert len(kept) == keeping.KEPT and old[0] in kept and old[-1] in kept and old[1] not in kept
    locks = {p.name.removesuffix(".lock") for p in (tmp_path / "device").glob("*.lock")}
    assert locks == set(kept)


def test_a_library_in_use_is_kept(run, tmp_path, compiler):
    from hpushim.emulator import cache as keeping

    old = entries(tmp_path, keeping.KEPT + 2)
    code = f"""
    import subprocess, sys, pathlib
    from hpushim.emulator import cache
    library = pathlib.Path({str(tmp_path)!r}, "device", {old[0]!r}, "library.so")
    assert cache.hold(library)
    import os; os.utime(library.parent / "used", (1, 1))  # used for long
    subprocess.run([sys.executable, "-c", {BUILD!r}], check=True)
    assert library.is_file()
    """
    run(code, HPUSHIM_CACHE_DIR=str(tmp_path), CXX=compiler())
    assert old[0] in built(tmp_path) and old[1] not in built(tmp_path)


def test_a_library_dropped_before_it_was_held_is_built_again(run, tmp_path, compiler):
    code = """
    import shutil
    from hpushim.emulator import build, cache
    place = build.build()
    shutil.rmtree(place.parent)
    assert not cache.hold(place)
    assert build.build() == place
    """
    run(code, HPUSHIM_CACHE_DIR=str(tmp_path), CXX=compiler())


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
    assert run(READY, **env).stdout.startswith("prebuilt, from a hpushim-device wheel: ")
