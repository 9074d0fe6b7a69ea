"""Kills and interrupts at random moments: every file is old or new, and --undo gives back every byte.

::

    python tests/hostile/kills.py --count 1000          # a thousand runs cut short; the table of what came of it
    python tests/hostile/kills.py --count 50 --seed 7

One run at a time and two; in analysis, while files are written, while they are put back; by SIGKILL and by SIGINT. After each:
every file is old or new; then either --undo, or migrate again and --undo, must give back the project as it was (bytes, modes,
times), with no temporary file left.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import runs

BODY = "import torch\n\n\ndef f(x):\n    return x.cuda()  # {number}\n"
FILES = 30


@dataclass
class Tally:
    """What was done and what came of it; every name in ``faults`` should stay at nothing."""

    done: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def expect(self, held: bool, fault: str, example: object) -> None:
        if not held:
            self.faults[fault] += 1
            if len(self.examples) < 10:
                self.examples.append(f"{fault}: {example}")


class Campaign:
    """A project that is laid out anew, cut short, and put back, again and again."""

    def __init__(self, zygote: runs.Zygote, top: Path, seed: int) -> None:
        self.zygote, self.top = zygote, top
        self.project = top / "project"
        self.chance = random.Random(seed)
        self.tally = Tally()
        self._lay()
        self.before = self._files()
        begin = time.monotonic()
        writing = self._started("migrate", ".")
        self._until_recorded(writing)
        recorded = time.monotonic()
        done = writing.end()
        assert done.code == 0, done.said
        #: How long a run takes until its journal is there, and from then on.
        self.first, self.rest = recorded - begin, time.monotonic() - recorded
        self.after = self._files()
        assert sum(self.after[name] != item for name, item in self.before.items()) == FILES + 4

    def _lay(self) -> None:
        shutil.rmtree(self.project, ignore_errors=True)
        (self.project / "sub" / "deep").mkdir(parents=True)
        for number in range(FILES):
            path = self.project / ("", "sub", "sub/deep")[number % 3] / f"m{number}.py"
            path.write_text(BODY.format(number=number) + "# padding\n" * (number % 5 * 2000))
            path.chmod((0o644, 0o755, 0o600)[number % 3])
        Path(os.fsdecode(os.fsencode(self.project) + b"/caf\xe9\n.py")).write_text(BODY)
        (self.project / "run.sh").write_text("export CUDA_VISIBLE_DEVICES=0\npython m0.py\n")
        (self.project / "two.py").write_text(BODY)
        os.link(self.project / "two.py", self.project / "sub" / "two.py")
        (self.project / "plain.py").write_text("x = 1\n")
        for number, path in enumerate(sorted(self.project.rglob("*"))):
            if path.is_file():
                os.utime(path, ns=(10**18 + number, 10**18 + number))

    def _files(self) -> dict[str, Any]:
        """Contents, modes and times, without the journal."""
        return runs.state(self.project, leave_out=(".hpushim",))

    def _started(self, *words: str) -> runs.Running:
        return self.zygote.start(*words, cwd=self.project)

    def _recorded(self) -> int:
        """How many runs have their journal."""
        try:
            return sum(1 for _ in (self.project / ".hpushim" / "runs").glob("*/journal"))
        except OSError:
            return 0

    def _until_recorded(self, running: runs.Running, *, there: int = 0) -> None:
        until = time.monotonic() + runs.SECONDS
        while self._recorded() <= there and running.poll() is None and time.monotonic() < until:
            time.sleep(0.0003)

    def _undone(self) -> None:
        """Puts back run after run; fails the trial where that does not end."""
        for _ in range(6):
            done = self.zygote.run("migrate", "--undo", ".", cwd=self.project)
            self.tally.expect(done.code == 0, "--undo refused", done.said[-300:])
            if "nothing to undo" in done.out or done.code:
                return

    def trial(self, number: int) -> None:
        self._lay()
        kind = self.chance.choices(("writing", "anywhere", "undo"), (5, 2, 2))[0]
        how = self.chance.choices((signal.SIGKILL, signal.SIGINT), (4, 1))[0]
        two = self.chance.random() < 0.4
        if kind == "undo":
            assert self._started("migrate", ".").end().code == 0
            words: tuple[str, ...] = ("migrate", "--undo", ".")
        else:
            words = ("migrate", ".")
        running = [self._started(*words)]
        if two:
            other = ("migrate", ".") if kind != "undo" or self.chance.random() < 0.5 else words
            running.append(self._started(*other))
        if kind == "writing":
            self._until_recorded(running[0])
            time.sleep(self.chance.random() * self.rest * (1.6 if two else 1.0))
        elif kind == "anywhere":
            time.sleep(self.chance.random() * (self.first + self.rest))
        else:
            time.sleep(self.chance.random() * self.rest * 1.5)
        hit = [item for item in running if item.poll() is None]
        writing = kind != "undo" and self._recorded() > 0
        if two and self.chance.random() < 0.5:
            hit = hit[:1]
        for item in hit:
            item.signal(how)
        for item in running:
            code = item.end().code
            if item in hit:
                cut = code in (-how, 130)
                self.tally.done["cut short" if cut else "already ending"] += 1
                if cut:
                    name = "undo" if kind == "undo" else "writing" if writing else "analysis"
                    self.tally.done[f"{how.name} during {name}"] += 1
                    self.tally.done["two at once" if two else "one at a time"] += 1
        self._assess(number)

    def _assess(self, number: int) -> None:
        tally = self.tally
        now = self._files()
        drafts = [name for name in now if name.endswith(".tmp")]
        tally.done["runs that left a temporary file"] += bool(drafts)
        for name, old in self.before.items():
            data = now.get(name, (0, 0, 0, None))[3:4] if len(old) > 3 else ()
            whole = data in (old[3:4], self.after[name][3:4])
            if not whole and name.endswith("two.py"):
                tally.done["files of two names torn until the next run"] += 1
            else:
                tally.expect(whole, "neither old nor new", f"{number} {name}")
        if self.chance.random() < 0.5:
            done = self.zygote.run("migrate", ".", cwd=self.project)
            tally.expect(done.code == 0, "migrate again", done.said[-300:])
            again = self._files()
            tally.expect(not any(n.endswith(".tmp") for n in again), "temporary file left", number)
            tally.expect(
                {n: i[3:4] for n, i in again.items()} == {n: i[3:4] for n, i in self.after.items()},
                "not all new after the next run", number,
            )  # fmt: skip
        self._undone()
        back = self._files()
        tally.expect(back == self.before, "not as it was after --undo",
                     f"{number} {[n for n in back.keys() | self.before.keys() if back.get(n) != self.before.get(n)]}")  # fmt: skip
        left = [p.name for p in self.project.glob(".hpushim*")]
        tally.expect(not left, "something is left of the journal", f"{number} {left}")


def campaign(count: int, seed: int, top: Path) -> Tally:
    """So many runs cut short."""
    zygote = runs.Zygote()
    try:
        made = Campaign(zygote, top, seed)
        number = 0
        while made.tally.done["cut short"] < count:
            made.trial(number)
            number += 1
        return made.tally
    finally:
        zygote.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        tally = campaign(options.count, options.seed, Path(top))
    for name, number in sorted(tally.done.items()):
        print(f"{number:6d}  {name}")
    for name, number in sorted(tally.faults.items()):
        print(f"{number:6d}  FAULT: {name}")
    print(*tally.examples, sep="\n")
    print("every file old or new, every byte back" if not tally.faults else "faults")
    sys.exit(bool(tally.faults))


if __name__ == "__main__":
    main()
