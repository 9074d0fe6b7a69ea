"""What it costs to load and index the matrix, beside parsing its TOML alone."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import pytest
import tomli

from hpushim.matrix import default_path, reader


def _least(call: Callable[[], object], times: int = 9) -> float:
    """Least CPU seconds of several runs."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return min(spent)


def _load() -> None:
    reader._load.cache_clear()
    reader.load()


@pytest.mark.bench
def test_loading_costs_less_than_twice_the_parsing() -> None:
    text = default_path().read_text()
    parsing, loading = _least(lambda: tomli.loads(text)), _least(_load)
    print(
        f"tomli {parsing * 1e3:.1f} ms, load and index {loading * 1e3:.1f} ms: {loading / parsing:.2f}"
    )
    assert loading / parsing < 2


@pytest.mark.bench
def test_the_loaded_matrix_is_small() -> None:
    tracemalloc.start()
    reader._load.cache_clear()
    kept = reader.load()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{len(kept.rows)} rows hold {size / 2**20:.1f} MiB")
    assert size < 20 * 2**20


@pytest.mark.bench
def test_a_fresh_process_loads_without_torch_and_libcst() -> None:
    code = (
        "import sys, time; start = time.process_time(); from hpushim.matrix import load; load(); "
        "print(time.process_time() - start); assert not {'torch', 'libcst', 'click', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"import, load and index in a fresh process: {float(done.stdout) * 1e3:.0f} ms CPU")
