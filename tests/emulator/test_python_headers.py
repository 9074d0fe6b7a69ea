"""What the device asks of Python is declared by the headers of every Python that hpushim is for.

A Python is looked for as ``python3.10`` and so on; one that is not on PATH, or has no headers, is skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpushim.emulator import compiling

torch = pytest.importorskip("torch", reason="the device is compiled against torch's headers")
SOURCES = [
    path for path in sorted(compiling.SOURCES.glob("*.cpp")) if "<Python.h>" in path.read_text()
]


def headers(python: str) -> str:
    """The folder of a Python's headers. Skips where there is none."""
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    found = shutil.which(python)
    done = found and subprocess.run(
        [found, "-c", code], capture_output=True, text=True, check=False
    )
    if not done or done.returncode:
        pytest.skip(f"no {python} that runs on PATH")
    folder = done.stdout.strip()
    if not Path(folder, "Python.h").exists():
        pytest.skip(f"{python} has no headers in {folder}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_compiles_with_the_headers_of(version):
    assert SOURCES
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the Python that runs: the device is built with its headers anyway")
    folder = headers(f"python{version}")
    options = [*compiling.flags(torch), "-isystem", folder, *compiling.folders(torch)]
    for source in SOURCES:
        done = subprocess.run(
            [compiling.compiler(), *options, "-fsyntax-only", str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:2000]
