"""The names of real code, down to those that occur once, and every public name of torch.cuda and its neighbours: work, or a code.

``idioms/tail.tsv`` lists what 99 public repositories contain, by frequency, each with what shows it: ``name …`` is touched here and
called where it can be; a key is a snippet of ``test_idioms.py``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import warm

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from idiom_files import FOLDER, idioms  # noqa: E402

torch = pytest.importorskip("torch", reason="the shim patches torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

ROOTS = (
    "torch.cuda",
    "torch.cuda.amp",
    "torch.backends.cuda",
    "torch.backends.cudnn",
    "torch.amp",
)
# Found nowhere else than in what the shim says: the answers to a name.
VERDICTS = {"works", "refused", "absent", "error"}
# Constructed by nobody, on CUDA neither.
NOT_CALLED = {"torch.cuda._CudaDeviceProperties"}
# Wait for another process.
WAITS = {"torch.distributed.recv", "torch.distributed.irecv", "torch.distributed.rendezvous"}


def rows() -> list[tuple[str, int, str]]:
    """Idiom, occurrences, what shows it."""
    lines = (FOLDER / "tail.tsv").read_text(encoding="utf-8").splitlines()[1:]
    split = [line.split("\t") for line in lines]
    return [(idiom, int(count), shown) for idiom, count, shown in split]


def touched(names: list[str], *options: str) -> dict[str, tuple[str, str]]:
    """Verdict and detail of each name, from a process of its own."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(HERE.parents[1])]))
    done = warm.run(
        [sys.executable, str(HERE / "tail_runner.py"), *options],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HPUSHIM_LOG": "quiet", "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert [name for name, *_ in found] == names
    return {name: (verdict, detail) for name, verdict, detail in found}


@cache
def real_names() -> dict[str, tuple[str, str]]:
    """The verdicts on the names that real code uses."""
    names = dict.fromkeys(shown[5:] for _, _, shown in rows() if shown.startswith("name "))
    return touched([name for name in names if name not in NOT_CALLED | WAITS])


def public() -> Iterator[str]:
    """Every public name of torch.cuda, torch.backends.cuda and cudnn, torch.amp and the modules below them."""
    for root in ROOTS:
        package = importlib.import_module(root)
        below = pkgutil.iter_modules(getattr(package, "__path__", []))
        names = [root, *(f"{root}.{m.name}" for m in below if not m.name.startswith("_"))]
        for module in map(importlib.import_module, names):
            for name, value in sorted(inspect.getmembers(module)):
                home = str(getattr(value, "__module__", "torch"))
                if not (name.startswith("_") or inspect.ismodule(value)) and home.startswith(
                    "torch"
                ):
                    yield f"{module.__name__}.{name}"


def test_every_row_is_shown() -> None:
    keys = {one.key for one in idioms()}
    others = ("name ", "not Python", "environment", "a library's own", "another device's")
    lost = [
        idiom for idiom, _, shown in rows() if not shown.startswith(others) and shown not in keys
    ]
    assert lost == [] and len(rows()) == 1009


def test_real_names_work_or_are_refused_with_a_code() -> None:
    defects = {n: d for n, (verdict, d) in real_names().items() if verdict not in VERDICTS}
    assert defects == {}
    counted = Counter(verdict for verdict, _ in real_names().values())
    assert counted["works"] > counted["error"] + counted["refused"]


def test_names_that_are_absent_are_absent_from_torch() -> None:
    absent = [name for name, (verdict, _) in real_names().items() if verdict == "absent"]
    plain = touched(absent, "--plain")
    assert [name for name, (verdict, _) in plain.items() if verdict != "absent"] == []


def test_every_public_name_works_or_is_refused_with_a_code() -> None:
    names = list(dict.fromkeys(public()))
    assert len(names) > 250
    verdicts = touched(names)
    bad = {n: d for n, (verdict, d) in verdicts.items() if verdict in ("defect", "absent")}
    assert bad == {}


def test_a_defect_would_be_seen() -> None:
    """Without the shim the same names fail in torch's own words."""
    verdicts = touched(["torch.cuda.synchronize", "torch.cuda.MemPool"], "--plain")
    assert {verdict for verdict, _ in verdicts.values()} == {"defect"}


def main() -> None:
    """Prints the counts."""
    for title, verdicts in (
        ("names of real code", real_names()),
        ("public names", touched(list(dict.fromkeys(public())))),
    ):
        counted = Counter(verdict for verdict, _ in verdicts.values())
        print(title, len(verdicts), dict(counted))
        for name, (verdict, detail) in verdicts.items():
            if verdict in ("defect", "error"):
                print(f"  {verdict} {name}: {detail}")


if __name__ == "__main__":
    main()
