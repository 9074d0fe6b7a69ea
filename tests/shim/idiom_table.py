"""Prints the idioms with what became of each on the emulated HPU, and the counts: ``python tests/shim/idiom_table.py [--all]``.

The list of reference by number; with ``--all`` every snippet. ``right``: the snippet's own assertions hold; ``warned``: they hold
and the shim said a code; ``refused``: an error with a code; ``same``: the error that CUDA gives, too; ``wrong``: anything else.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import warm

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import idiom_files  # noqa: E402
from idiom_files import Idiom, Reference  # noqa: E402


@cache
def run_process(process: str) -> dict[str, Any]:
    """What the runner printed for the snippets of one process."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HPUSHIM_LOG": "quiet",
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    done = warm.run(
        [sys.executable, str(HERE / "idiom_runner.py"), process],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def outcome(idiom: Idiom) -> tuple[str, list[str]]:
    """``ok`` or the error's first line, and the codes that were said."""
    text, codes, _ = run_process(idiom.process)["results"][idiom.key]
    return text, codes


def verdict(idiom: Idiom) -> str:
    """``right``, ``warned``, ``refused`` or ``wrong``; with the codes."""
    text, codes = outcome(idiom)
    if text == "ok":
        return f"warned {' '.join(codes)}" if codes else "right"
    expected = [code for code in idiom.expect.split("|") if code != "ok"]
    if any(code in text for code in expected) and text.partition("HPU")[2][:3].isdigit():
        return f"refused {' '.join(word for word in text.split() if word.startswith('HPU'))}"
    if any(code in text for code in expected):
        return f"same {text}"
    return f"wrong: {text}"


def verdict_of(row: Reference) -> str:
    """The worst of its snippets; without one ``not shown``."""
    order = ("wrong", "same", "refused", "warned", "right")
    by_key = {one.key: one for one in idiom_files.idioms()}
    verdicts = [verdict(by_key[key]) if key in by_key else f"wrong: no {key}" for key in row.keys]
    return min(verdicts, key=lambda text: order.index(text.split()[0].rstrip(":")))


def main(*arguments: str) -> None:
    """Prints the table."""
    if "--all" in arguments:
        rows = [(one.key, verdict(one)) for one in idiom_files.idioms()]
    else:
        rows = [(f"{r.number:3d}  {r.idiom}", verdict_of(r)) for r in idiom_files.reference()]
    for name, text in rows:
        print(f"{name:72s} {text}")
    counts = Counter(text.split()[0].rstrip(":") for _, text in rows)
    print(f"{len(rows)} (emulated): " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
