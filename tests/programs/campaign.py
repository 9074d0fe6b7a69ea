"""The campaign: generated programs run three ways, and compared.

    python tests/programs/campaign.py --count 3000 --seed 1

Prints each disagreement with the smallest program that still shows it, counts by idiom, and a last line with the total.
Exit code 0 when no disagreement is open, else 1.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grammar
import telling
import ways
from grammar import Program

#: Relative differences of losses and sums from those of the plain CPU run: float32, and with bfloat16 somewhere.
FLOAT32, BFLOAT16 = 1e-5, 0.08
#: Of the two runs on the emulated HPU from each other.
EACH_OTHER = 1e-6


@dataclass(frozen=True)
class Outcome:
    """What a program did three ways: what is wrong, and which findings tell of it.

    ``told`` at the line that disagrees or at the statement before it, ``made`` further back among those that made its value.
    """

    wrong: tuple[str, ...]
    told: tuple[str, ...]
    made: tuple[str, ...] = ()
    migrated: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The first thing wrong without its figures, to know the same defect again."""
        return re.sub(r"[-+.\de]*\d", "N", self.wrong[0])[:160] if self.wrong else ""

    @property
    def open(self) -> bool:
        """Whether something is wrong that no finding tells of."""
        return bool(self.wrong) and not self.told and not self.made


def outcome(program: Program, servers: ways.Servers, root: Path) -> Outcome:
    """Runs a program three ways in new folders below ``root``."""
    files, words, expected = grammar.rendered(program)
    plain_files, plain_words, _ = grammar.rendered(program, plain=True)
    migrated = ways.migrated(files)
    runs = {}
    for way, tree, said in (
        ("plain", plain_files, plain_words),
        ("shim", files, words),
        ("native", migrated.files, words),
    ):
        folder = root / way
        env = {"HPUSHIM_DEVICES": "2" if program.structure == "ranks" else "1"}
        shutil.rmtree(folder, ignore_errors=True)
        ways.lay_out(folder, tree)
        runs[way] = servers.run(way, folder, said, env)
        if way == "plain" and runs[way].status is None:
            # Forked processes with gloo end slowly now and then; that is no concern of this comparison.
            (folder / "store").unlink(missing_ok=True)
            runs[way] = servers.run(way, folder, said, env)
    wrong = list(migrated.failed)
    for way, run in runs.items():
        if run.status != 0:
            wrong.append(f"{way}: exit {run.status}: {_last_line(run.output)}")
    if not wrong:
        wrong = [*_compared(program, runs, expected)]
    near, far = _told(wrong, runs, files, migrated)
    outputs = {way: run.output for way, run in runs.items()}
    return Outcome(tuple(wrong), near, far, migrated.files, outputs)


def _compared(program: Program, runs: dict[str, ways.Ran], expected: list[str]) -> Iterator[str]:
    low = program.chosen["precision"] != "float32" or "half_model" in program.extras
    # A seed or a state that is set in the midst is the card's alone; the CPU's stream goes on.
    redraws = program.chosen["network"] == "dropout" and (
        {"rng_state", "seed_all"} & {*program.extras}
        or {"seed", "state"} & {check.action for check in program.checks}
    )
    on_cpu = program.chosen["device"] == "device_words"
    for way in ("shim", "native"):
        run = runs[way]
        for word in ("loss", "params", "number"):
            if redraws:
                break
            far = _distance(runs["plain"].lines(word), run.lines(word))
            if far > (BFLOAT16 if low else FLOAT32):
                yield f"{way}: {word} differs from the CPU's by {far:.1e}"
        wanted = {"cpu"} if on_cpu else {"hpu"}
        found = set(" ".join(run.lines("devices")).replace("cuda", "hpu").split())
        if found != wanted:
            yield f"{way}: parameters on {found}, not on {wanted}"
        counts = run.books.get("compute_operators", {})
        if not on_cpu and program.structure != "ranks" and not counts.get("hpu"):
            yield f"{way}: no operator ran on hpu"
        for call in run.books.get("unhandled_cuda", ()):
            yield f"{way}: unhandled {call.get('name')}"
        if not on_cpu:
            missing = [line for line in expected if line not in run.output.splitlines()]
            if missing:
                yield f"{way}: a card would have it print {missing[0]!r}"
    shim, native = (_comparable(runs[way].output) for way in ("shim", "native"))
    for left, right in zip(shim, native, strict=False):
        if left != right and _distance([left], [right]) > EACH_OTHER:
            yield f"apart: {left!r}, {right!r}"
            break
    if len(shim) != len(native):
        yield f"apart: shim printed {len(shim)} lines, native {len(native)}"


def _comparable(output: str) -> list[str]:
    wanted = ("loss", "params", "number", "said", "place", "memory", "card")
    return [line.replace("cuda", "hpu") for line in output.splitlines() if line.startswith(wanted)]


def _distance(left: list[str], right: list[str]) -> float:
    """The largest relative difference of the numbers in two lists of lines; infinite where the words differ."""
    if len(left) != len(right):
        return float("inf")
    far = 0.0
    for one, other in zip(left, right, strict=True):
        ours, theirs = one.split(), other.split()
        if len(ours) != len(theirs):
            return float("inf")
        sizes = [abs(value) for value in map(_number, ours + theirs) if value is not None]
        for a, b in zip(ours, theirs, strict=True):
            x, y = _number(a), _number(b)
            if a != b and (x is None or y is None):
                return float("inf")
            if a != b and x is not None and y is not None:
                # Of a line the largest number counts: what begins at zero has no size of its own.
                far = max(far, abs(x - y) / max(*sizes, 1e-3))
    return far


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if not line.startswith("hpushim")]
    return lines[-1][:200] if lines else ""


def _told(
    wrong: list[str], runs: dict[str, ways.Ran], files: dict[str, str], migrated: ways.Migrated
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The findings that were not applied and stand at the line that disagrees, or at a statement that made what it shows.

    Those at that line or one step back from it first, then those further back (:mod:`telling`).
    """
    if not wrong or any(text.startswith(("shim", "plain")) for text in wrong):
        return (), ()
    program = telling.Program(files)
    made = program.made(_places(wrong, runs["native"], files, migrated.files))
    near: list[str] = []
    far: list[str] = []
    for path, findings in migrated.findings.items():
        for finding in findings:
            if finding.applied or finding.severity == "note" or finding.code.startswith(_ADVICE):
                continue
            steps = [made[one] for one in program.at([(path, finding.line)]) if one in made]
            if steps:
                text = f"{finding.code} {path}:{finding.line}: {_line(files, path, finding.line)}"
                (near if steps[0] < 2 else far).append(text)
    return tuple(near), tuple(far)


def _line(files: dict[str, str], name: str, number: int) -> str:
    lines = files.get(name, "").splitlines()
    return lines[number - 1].strip() if number <= len(lines) else ""


#: Advice, which explains no difference.
_ADVICE = ("HPU217", "HPU202", "HPU203", "HPU208", "HPU308", "HPU5", "HPU120")


def _places(
    wrong: list[str], native: ways.Ran, before: dict[str, str], after: dict[str, str]
) -> set[telling.Place]:
    """The lines of the original that disagree: where the copy stopped, or what prints that which differs."""
    if native.status != 0:
        stopped = set(telling.stopped_at(native.output, before, after))
        # sys.exit leaves no traceback but its words.
        return stopped or set(telling.saying(_last_line(native.output), before))
    found: set[telling.Place] = set()
    for text in wrong:
        said = re.search(r"'(said|place|card|memory) (\w+ ?\d*)", text)
        value = re.search(r"\b(loss|params|number|memory)\b", text)
        if "parameters on" in text or "no operator ran" in text:
            found.update(telling.printed_by("devices", "", before))
        elif said:
            found.update(telling.printed_by(said[1], said[2].strip(), before))
        elif value:
            found.update(telling.printed_by(value[1], "", before))
    return found


def smallest(program: Program, kind: str, servers: ways.Servers, root: Path) -> Program:
    """The smallest program that is wrong in the same way."""
    again = True
    while again:
        again = False
        for simpler in program.simpler():
            found = outcome(simpler, servers, root)
            if found.open and found.kind == kind:
                program, again = simpler, True
                break
    return program


def main() -> int:
    """Runs the campaign; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many programs")
    parser.add_argument(
        "--seed", type=int, default=1, help="the seed of the first; the others follow"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after these")
    parser.add_argument("--no-shrink", action="store_true", help="show programs as they were drawn")
    parser.add_argument("--only", type=Path, help="a file with the seeds to run, one a line")
    parser.add_argument("--show", type=int, help="print the program of this seed, three ways")
    parser.add_argument("--told", action="store_true", help="print also what findings tell of")
    parser.add_argument("--counts", action="store_true", help="print the counts by idiom")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ways.Servers() as servers:
        root = Path(name).resolve()
        if options.show is not None:
            return _show(grammar.drawn(options.show), servers, root)
        return _campaign(options, servers, root)


def _campaign(options: argparse.Namespace, servers: ways.Servers, root: Path) -> int:
    seen: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    told, made, ran, begin = 0, 0, 0, time.monotonic()
    seeds = range(options.seed, options.seed + options.count)
    for seed in [*map(int, options.only.read_text().split())] if options.only else seeds:
        if time.monotonic() - begin > options.seconds:
            break
        program = grammar.drawn(seed)
        found = outcome(program, servers, root)
        ran += 1
        seen.update(program.idioms)
        told += bool(found.told)
        made += bool(found.made and not found.told)
        if options.told and found.wrong and not found.open:
            how = "told" if found.told else "told further back"
            print(f"{how}, seed {seed}: {found.wrong[0]}\n    {(*found.told, *found.made)[0]}")
        if not found.open:
            continue
        first = found.kind not in kinds
        kinds.setdefault(found.kind, []).append(seed)
        if first:
            small = program if options.no_shrink else smallest(program, found.kind, servers, root)
            print(f"\n#### seed {seed}: {'; '.join(found.wrong)}\n     {', '.join(small.idioms)}")
            sys.stdout.flush()
    print(f"\n{time.monotonic() - begin:.0f} s")
    if options.counts:
        for idiom, count in sorted(seen.items()):
            print(f"{count:6} {idiom}")
    for kind, seeds in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):5} x {kind}  seeds {seeds[:4]}")
    wrong = sum(map(len, kinds.values()))
    print(
        f"{ran} programs from seed {options.seed}, {len(seen)} idioms: {wrong} disagreements open,"
        f" {told} told by a finding at the line that disagrees or at what it reads,"
        f" {made} by one further back at what made that"
    )
    return 1 if wrong else 0


def _show(program: Program, servers: ways.Servers, root: Path) -> int:
    files, words, expected = grammar.rendered(program)
    found = outcome(program, servers, root)
    for title, tree in (("original", files), ("migrated", found.migrated)):
        for name, text in tree.items():
            print(f"==== {title}: {name}\n{text}")
    for way, output in found.outputs.items():
        print(f"==== {way}\n{output}")
    print(words, expected, found.wrong, found.told, found.made, sep="\n")
    return int(found.open)


if __name__ == "__main__":
    sys.exit(main())
