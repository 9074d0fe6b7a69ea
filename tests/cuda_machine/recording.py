"""CUDA's own answers: the idioms of the tests and the campaign's programs, recorded on a CUDA machine and compared with the shim's.

    python tests/cuda_machine/recording.py record cuda.json      # where torch has a working CUDA device; hpushim stays off
    python tests/cuda_machine/recording.py alone cuda.json       # on the same machine: `import hpushim` leaves every answer as it is
    python tests/cuda_machine/recording.py compare cuda.json     # on the emulated HPU; exit code 1 where an answer differs

Of each idiom: whether it runs, the error that it raises, and what its names hold: types, texts, numbers, devices. Of each program: its
exit code and what it prints; and what the small programs of ``device_programs.txt`` print. Each is recorded twice, with two seeds; what the second time gives otherwise is not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "shim"), str(TESTS / "programs")]
import device_programs  # noqa: E402
import idiom_files  # noqa: E402

Way = Literal["cuda", "auto", "shim"]
SEEDS = (1, 2)
LIMIT = 300  # seconds for one process
PROGRAMS, PROGRAMS_SEED = 40, 500_000
#: Relative difference of numbers: float32 on two devices, and with a narrower format somewhere.
FLOAT32, NARROW = 1e-3, 0.08
_NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?|\bnan\b|[-+]?\binf\b")
#: A device of the shim's is spelled hpu where CUDA's is spelled cuda; the documents say so.
_SPELLED = re.compile(r"\bhpu\b")


#: What stopped an idiom on the recorded machine and says nothing about CUDA: fewer devices, no such package, too slow.
_OF_THE_MACHINE = re.compile(
    r"invalid device ordinal|device_count\(\) is|^ModuleNotFoundError|^TimeoutError|Invalid device id"
)


@dataclass(frozen=True)
class Odd:
    """One answer of the shim's that is not CUDA's: of which idiom or program, of what kind, in words."""

    key: str
    kind: Literal["outcome", "error", "answer", "output", "missing"]
    what: str


def record(
    way: Way, *, processes: tuple[str, ...] = (), programs: int = PROGRAMS, jobs: int = 1
) -> dict[str, Any]:
    """The answers of one way of running; the snippets of the named processes, all of them by default."""
    chosen = processes or tuple(sorted({one.process for one in idiom_files.idioms()}))
    with _side_by_side(jobs) as each:
        runs = [*each(lambda one: _idioms(way, *one), itertools.product(chosen, SEEDS))]
        twice = [_twice(*pair) for pair in zip(runs[::2], runs[1::2], strict=True)]
        printed = [*each(lambda seed: _program(way, seed), _seeds(programs))]
    small = _device_programs(way) if programs else {}
    return {
        "schema_version": 1,
        "way": way,
        "machine": _machine(way),
        "idioms": {key: one for process in twice for key, one in process.items()},
        "programs": dict(zip(map(str, _seeds(programs)), printed, strict=True)),
        "device_programs": small,
    }


@contextlib.contextmanager
def _side_by_side(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """How to call a function for each of several things: one after the other, or ``jobs`` at a time."""
    if jobs == 1:
        yield map
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield pool.map


def odd(cuda: dict[str, Any], shim: dict[str, Any]) -> Iterator[Odd]:
    """Where the shim answers otherwise than CUDA did, apart from what the idioms say that it refuses."""
    known = {one.key: one for one in idiom_files.idioms()}
    for key, theirs in cuda["idioms"].items():
        ours = shim["idioms"].get(key)
        if key not in known:
            continue  # an idiom that is no longer in the tests
        if ours is None:
            yield Odd(key, "missing", "the shim's run has no such idiom")
            continue
        refusals = known[key].expect.split("|") if shim["way"] == "shim" else []
        yield from _odd_idiom(key, theirs, ours, refusals)
    for one in device_programs.PROGRAMS:
        printed = cuda.get("device_programs", {}).get(one.module)
        if printed is not None and printed != list(one.prints):
            yield Odd(one.name, "output", f"is to print {one.prints}, on CUDA {printed}")
    for key, theirs in cuda["programs"].items():
        if key in shim["programs"]:
            yield from _odd_program(f"program {key}", theirs, shim["programs"][key])


def _odd_idiom(
    key: str, theirs: dict[str, Any], ours: dict[str, Any], expected: list[str]
) -> Iterator[Odd]:
    if _OF_THE_MACHINE.search(theirs["outcome"]):
        return
    refused = [code for code in expected if code != "ok" and code in ours["outcome"]]
    if refused or (theirs["outcome"] != "ok" and ours["outcome"] == theirs["outcome"]):
        return
    # An assertion that fails on CUDA was written for the shim: the answers until then are compared.
    ran = _kind(theirs["outcome"]) in ("ok", "AssertionError"), ours["outcome"] == "ok"
    if ran == (False, False):
        if _kind(ours["outcome"]) != _kind(theirs["outcome"]):
            yield Odd(key, "error", f"{ours['outcome']!r}, on CUDA {theirs['outcome']!r}")
        return
    if ran != (True, True):
        yield Odd(key, "outcome", f"{ours['outcome']!r}, on CUDA {theirs['outcome']!r}")
        return
    for name, theirs_is in theirs["answers"].items():
        ours_is = ours["answers"].get(name)
        if ours_is is not None and not _alike(theirs_is, ours_is):
            yield Odd(key, "answer", f"{name} is {ours_is}, on CUDA {theirs_is}")


def _odd_program(key: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Odd]:
    if (theirs["code"] == 0) != (ours["code"] == 0):
        yield Odd(key, "outcome", f"exit code {ours['code']}, on CUDA {theirs['code']}")
        return
    for theirs_is, ours_is in zip(theirs["lines"], ours["lines"], strict=False):
        if theirs_is is not None and ours_is is not None and not _alike(theirs_is, ours_is):
            yield Odd(key, "output", f"prints {ours_is!r}, on CUDA {theirs_is!r}")
            return


def _kind(outcome: str) -> str:
    return outcome.partition(":")[0]


def _alike(theirs: Any, ours: Any) -> bool:
    """Whether two answers are the same: texts but for the spelling of the device, numbers but for rounding, classes by their last word."""
    if theirs == ours:
        return True
    if isinstance(theirs, list) and isinstance(ours, list) and theirs[:1] == ours[:1] and theirs[:1] in (["object"], ["class"]):  # fmt: skip
        return str(theirs[1]).rpartition(".")[2] == str(ours[1]).rpartition(".")[2]
    if isinstance(theirs, list) and isinstance(ours, list):
        narrow = any("float16" in str(one) for one in theirs[:3])
        if len(theirs) != len(ours):
            return False
        return all(
            _near(a, b) if narrow else _alike(a, b) for a, b in zip(theirs, ours, strict=True)
        )
    if isinstance(theirs, str) and isinstance(ours, str):
        return _near(theirs, _SPELLED.sub("cuda", ours), FLOAT32)
    return type(theirs) is type(ours) and bool(theirs == ours)


def _near(theirs: Any, ours: Any, within: float = NARROW) -> bool:
    if not (isinstance(theirs, str) and isinstance(ours, str)):
        both = isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours)
        return all(_near(a, b, within) for a, b in zip(theirs, ours, strict=True)) if both else theirs == ours  # fmt: skip
    ours = _SPELLED.sub("cuda", ours)
    within = NARROW if "float16" in theirs else within
    if _NUMBER.sub("#", theirs) != _NUMBER.sub("#", ours):
        return False
    pairs = zip(map(float, _NUMBER.findall(theirs)), map(float, _NUMBER.findall(ours)), strict=True)
    return all(math.isclose(a, b, rel_tol=within, abs_tol=within * 1e-3) or (math.isnan(a) and math.isnan(b)) for a, b in pairs)  # fmt: skip


def _twice(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The answers that repeat."""
    for key, one in first.items():
        again = second.get(key, {}).get("answers", {})
        one["answers"] = {n: v for n, v in one["answers"].items() if n in again and again[n] == v}
    return first


def _idioms(way: Way, process: str, seed: int) -> dict[str, Any]:
    """Of a process that does not come to its end, the idioms that ran until then."""
    words = [str(TESTS / "shim" / "idiom_runner.py"), process, way, str(seed)]
    done = _ran(words, way, seed)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    if done.returncode:
        print(f"the process {process} ended early, after {len(lines)} idioms:\n{done.stderr[-2000:]}", file=sys.stderr)  # fmt: skip
    results = {key: one for line in lines if "results" not in line for key, one in line.items()}
    return {key: {"outcome": one[0], "answers": one[2]} for key, one in results.items()}


def _seeds(count: int) -> range:
    return range(PROGRAMS_SEED, PROGRAMS_SEED + count)


def _program(way: Way, number: int) -> dict[str, Any]:
    """Exit code and printed lines of a generated program as it stands; None for a line that a second run prints otherwise."""
    import grammar

    files, words, _ = grammar.rendered(grammar.drawn(number))
    runs = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
            before = [] if way == "cuda" else ["-m", "hpushim", "run"]
            runs.append(_ran([*before, *words], way, seed, folder))
    first, second = (done.stdout.splitlines() for done in runs)
    lines = [one if one == other else None for one, other in zip(first, second, strict=False)]
    return {"code": runs[0].returncode, "lines": lines}


def _device_programs(way: Way) -> dict[str, list[str]]:
    """The lines that each of ``device_programs.txt`` prints; those of CUDA were written down by people."""
    with tempfile.TemporaryDirectory() as folder:
        for one in device_programs.PROGRAMS:
            (Path(folder) / f"{one.module}.py").write_text(one.code, encoding="utf-8")
        main = device_programs.MAIN % [one.module for one in device_programs.PROGRAMS]
        (Path(folder) / "main.py").write_text(main, encoding="utf-8")
        before = [] if way == "cuda" else ["-m", "hpushim", "run"]
        done = _ran([*before, "main.py"], way, SEEDS[0], folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("printed ")]
    found: dict[str, list[str]] = json.loads(lines[-1].partition(" ")[2]) if lines else {}
    return found


def _ran(
    words: list[str], way: Way, seed: int, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    paths = [str(TESTS.parent), str(TESTS / "cuda_machine"), env.get("PYTHONPATH", "")]
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": str(seed),
    }
    if way != "auto":
        env |= {"HPUSHIM": "off"} if way == "cuda" else {"HPUSHIM_LOG": "quiet"}
    words = [sys.executable, *words]
    try:
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)  # fmt: skip
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode(errors="replace")
        return subprocess.CompletedProcess(words, -9, printed, f"still running after {LIMIT} s")


def _machine(way: Way) -> dict[str, str]:
    import torch

    found = {"torch": torch.__version__, "python": sys.version.split()[0]}
    if way != "shim":
        if not torch.cuda.is_available():
            raise SystemExit("no working CUDA device: record on a machine that has one")
        found |= {"device": torch.cuda.get_device_name(0), "cuda": str(torch.version.cuda)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["record", "alone", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.what == "record":
        made = record("cuda", programs=given.programs, jobs=given.jobs)
        given.file.write_text(json.dumps(made, indent=1))
        return 0
    cuda = json.loads(given.file.read_text())
    way: Way = "auto" if given.what == "alone" else "shim"
    count = min(given.programs, len(cuda["programs"]))
    found = list(odd(cuda, record(way, programs=count, jobs=given.jobs)))
    for one in found:
        print(f"{one.kind:<8} {one.key}: {one.what}")
    print(f"{len(cuda['idioms'])} idioms and {len(cuda['programs'])} programs of {cuda['machine'].get('device')}, {len(found)} answers differ")  # fmt: skip
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
