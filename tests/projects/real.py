"""Proves shim and codemod on real repositories: original under the shim, migrated copy natively, both against CPU.

    python tests/projects/real.py [NAME …] [--out DIR] [--jobs 1] [--limit S] [--resume] [--only shim|native] [--style STYLE] [--list] [--recipes FILE]

Looks outside this tree, at HPUSHIM_CORPORA (folders owner+name[@commit]), HPUSHIM_CORPORA_DATA (data sets) and
HPUSHIM_CORPORA_PYTHON (an interpreter that has the workloads' packages and hpushim; default: this one). Without
names it runs every recipe. Prints a table, keeps it with logs and ledgers in DIR; --resume takes up a proof that was
cut off: what came out well at the same commit with the same recipe stands. A workload may take --limit seconds.
Exits with 1 when a check failed and with 2 when nothing could be checked.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from recipes import HERE, RECIPES, Place, Workload, absent, workloads
from running import LIMIT
from trial import Trial
from verdict import Verdict, coverage, sums, table


def commit() -> str:
    """The commit of this tree, with a plus when something in it differs; "unknown" without git."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=12", "--dirty=+"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


@dataclass(frozen=True)
class Proof:
    """One run over many workloads at one commit; its verdicts lie in ``out`` and can be taken up again."""

    place: Place
    out: Path
    limit: float
    resume: bool
    only: str
    style: str = "native"
    commit: str = field(default_factory=commit)

    def path(self, work: Workload) -> Path:
        """Where the workload's verdict lies."""
        return self.out / f"{work.name}.json"

    def earlier_seconds(self, work: Workload) -> float:
        """How long the workload took when it last ran with this ``out``, 0 when it never did."""
        path = self.path(work)
        return float(json.loads(path.read_text())["seconds"]) if path.is_file() else 0.0

    def of(self, work: Workload) -> Verdict:
        """Proves one workload, or gives what an interrupted run found at this commit."""
        key = f"{self.commit} {self.only} {self.style} {work}"
        kept = Verdict.kept(self.path(work), key) if self.resume else None
        if kept:
            return kept
        try:
            verdict = Trial(work, self.place, self.out, self.limit, self.style).prove(self.only)
        except Exception as error:  # one workload's trouble must not hide the others
            verdict = Verdict(work.name, wrong=[f"{type(error).__name__}: {error}"])
        verdict.keep(self.path(work), key)
        print(f"{work.name}: {verdict.outcome} {verdict.cells} {verdict.seconds:.0f} s", flush=True)
        for text in verdict.wrong:
            print(f"    {text}", flush=True)
        return verdict


def main() -> int:
    """Runs the chosen workloads; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads, as regular expressions; default: all")
    parser.add_argument("--recipes", type=Path, default=RECIPES)
    parser.add_argument("--out", type=Path, default=Path(".demo/real"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a workload")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only", choices=["shim", "native"], default="")
    parser.add_argument("--style", choices=["native", "dual", "agnostic"], default="native")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    every = workloads(options.recipes)
    chosen = [
        w for w in every if not options.names or any(re.fullmatch(n, w.name) for n in options.names)
    ]
    if options.list:
        print("\n".join(f"{w.name:32} {w.repo}" for w in chosen))
        return 0
    place = Place.from_environment()
    if place is None or not chosen:
        print(
            "nothing to check: set HPUSHIM_CORPORA and HPUSHIM_CORPORA_DATA, and name workloads that exist (--list)"
        )
        return 2
    begin = time.monotonic()
    proof = Proof(
        place, options.out.resolve(), options.limit, options.resume, options.only, options.style
    )
    # the long ones first, so that none is left running alone at the end
    order = sorted(chosen, key=lambda work: -proof.earlier_seconds(work))
    with ThreadPoolExecutor(options.jobs) as pool:
        done = dict(zip((work.name for work in order), pool.map(proof.of, order), strict=True))
    verdicts = [done[work.name] for work in chosen]
    text = "\n\n".join(
        (
            f"hpushim {proof.commit}; `{' '.join(sys.argv)}`; {time.monotonic() - begin:.0f} s",
            table(verdicts),
            sums(verdicts),
            "The HPU of every figure is emulated. Columns shim, native: relative difference to the CPU's loss.",
            coverage(
                place.repositories(),
                ((w.repo, w.name) for w in every),
                absent(options.recipes),
            ),
        )
    )
    (proof.out / "table.md").write_text(text + "\n")
    print(f"\n{text}")
    return 1 if any(verdict.wrong for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
