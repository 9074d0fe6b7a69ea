"""Compile the C++ device against the headers of other torch releases: errors and warnings are told, nothing is run.

    pip download --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 --python-version 3.11 \\
        -d wheels torch==2.6.0
    unzip -q wheels/torch-2.6.0-*.whl 'torch/include/*' -d HEADERS/2.6.0
    python tests/emulator/compile_headers.py HEADERS [FILE.cpp ...]

HEADERS holds one folder for each release, named after it. The flags are those of the build. Any wheel of a release
will do whose headers this compiler takes: the files that differ by platform are not the device's.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from hpushim.emulator import compiling


def flags(version: str, include: Path) -> list[str]:
    """The build's flags for a release whose headers are in ``include``."""
    import torch

    release = SimpleNamespace(
        __version__=version,
        __file__=str(include.parent / "__init__.py"),
        _C=torch._C,
        distributed=torch.distributed,
    )
    return [
        *compiling.flags(release),
        *compiling.folders(release),
        "-Wall",
        "-Wextra",
        "-fsyntax-only",
    ]


def errors(source: Path, options: list[str]) -> str:
    """The compiler's first errors and warnings on a file; empty when there are none."""
    done = subprocess.run(
        [compiling.compiler(), *options, str(source)], capture_output=True, text=True, check=False
    )
    found = [line for line in done.stderr.splitlines() if "error: " in line or "warning: " in line]
    return "\n".join(found[:5])


def main() -> int:
    """Print a line for each release, with what does not compile; 1 if anything does not."""
    if len(sys.argv) < 2:
        sys.exit("usage: python tests/emulator/compile_headers.py HEADERS [FILE.cpp ...]")
    releases = sorted(
        (path for path in Path(sys.argv[1]).iterdir() if (path / "torch/include/ATen").is_dir()),
        key=lambda path: [int(part) for part in path.name.split(".")],
    )
    sources = [compiling.SOURCES / name for name in sys.argv[2:]] or sorted(
        compiling.SOURCES.glob("*.cpp")
    )
    failed = False
    for release in releases:
        started = time.monotonic()
        options = flags(release.name, release / "torch/include")
        with ThreadPoolExecutor(compiling.JOBS) as pool:
            found = list(pool.map(lambda source, given=options: errors(source, given), sources))
        bad = [f"{s.name}: {text}" for s, text in zip(sources, found, strict=True) if text]
        failed = failed or bool(bad)
        told = "\n  ".join(bad) or f"{len(sources)} files compile"
        sys.stdout.write(f"torch {release.name}: {told} ({time.monotonic() - started:.0f} s)\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
