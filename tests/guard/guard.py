"""What the engine finds and writes, recorded at one commit and compared at another.

    python tests/guard/guard.py record STORE [--quick] [--only REGEX] [--jobs N]
    python tests/guard/guard.py compare STORE [OTHER] [--quick] [--only REGEX] [--jobs N] [--wanted FILE …] [--samples N]

``record`` keeps every finding and every rewrite of this tree in the folder STORE; ``compare`` finds them anew (or reads the
store OTHER) and prints what differs, by kind and code: findings that are new, gone or changed, and places that are rewritten
otherwise. It exits with 1 when a difference is left that nobody has reviewed, with 2 when there is nothing to compare.

An item is one of these; ``--only`` is searched in its name, so ``--only 'nanoGPT|^forms'`` compares some:

- ``repos/OWNER+NAME/native/portable``: each open repository below HPUSHIM_CORPORA (folders ``owner+name``), in each style and mode.
  Nothing is written there. Its commit, from ``commits.tsv`` beside that folder or above it, must be the same in both stores.
- ``pages/STEM``: the examples of a rule's page, each with the options that it names.
- ``forms/NAME``: the forms of tests/compare, what the finder answers and what ``migrate`` makes of them.
- ``campaign/SEED``: programs of tests/programs/grammar.py.

``--quick`` takes some of the repositories in one style and mode, and all items of the other kinds. FILE is TOML, a list of differences
that somebody has read and wants; each entry's expressions are searched, absent ones match all, ``why`` must be there::

    [[wanted]]
    kind = "gone"                 # new, gone, code, message, severity, safety, row, applied, edit, status
    code = "HPU125"
    item = "native"
    place = "train.py:12"
    text = "device_id"            # in what is printed of it
    why = "`device_id = x.device` is a device, not a number"

The store has lines of the repositories: keep it outside this tree.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tomli

from hpushim.engine import project
from hpushim.model import FileResult, Finding, Target
from hpushim.report import lines

TESTS = Path(__file__).resolve().parents[1]
STYLES, MODES = ("native", "dual"), ("portable", "eager")
SEEDS = range(1, 101)
#: Those that between them have most idioms: scripts, trainers, AMP, ranks, settings in files, notebooks, kernels.
QUICK = (
    "CompVis+latent-diffusion",
    "HobbitLong+SupContrast",
    "NVIDIA+tacotron2",
    "NVlabs+stylegan2-ada-pytorch",
    "clovaai+deep-text-recognition-benchmark",
    "codertimo+BERT-pytorch",
    "facebookresearch+SlowFast",
    "facebookresearch+dino",
    "facebookresearch+dlrm",
    "facebookresearch+mae",
    "karpathy+nanoGPT",
    "openai+guided-diffusion",
    "pytorch+examples",
    "rosinality+stylegan2-pytorch",
    "salesforce+awd-lstm-lm",
    "thuml+Time-Series-Library",
    "ultralytics+yolov5",
    "vwxyzjn+cleanrl",
    "xinntao+Real-ESRGAN",
)
#: Inference engines and collections that take minutes each and show nothing that the others do not.
LEFT_OUT = ("HabanaAI+vllm-fork", "NVIDIA+DeepLearningExamples", "NVIDIA+Megatron-LM")
#: Seconds of processor time for one item, after which it is recorded as endless.
LIMIT = 900.0

#: What is recorded of an item: a file's name → its status, findings and rewritten places.
Record = dict[str, Any]


class _Late(BaseException):
    """The time of an item is up."""


@dataclass(frozen=True)
class Item:
    """One thing to record; ``commit`` is that of what is looked at, where it has one."""

    name: str
    work: Callable[[], Record]
    commit: str = ""


# -- what is recorded -------------------------------------------------------------------------


def items(*, quick: bool) -> Iterator[Item]:
    """All items, those that are done soon first."""
    for folder in ("", "programs", "compare"):
        sys.path.insert(0, str(TESTS / folder))
    yield from _pages()
    yield from _forms()
    for seed in SEEDS:
        yield Item(f"campaign/{seed}", partial(_campaign, seed))
    yield from _repositories(quick=quick)


def _repositories(*, quick: bool) -> Iterator[Item]:
    corpora = os.environ.get("HPUSHIM_CORPORA")
    if not corpora:
        print("HPUSHIM_CORPORA names no folder of repositories: without them", file=sys.stderr)
        return
    folder = Path(corpora)
    commits = _commits(folder)
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        name, _, commit = path.name.partition("@")
        if name in LEFT_OUT or (quick and name not in QUICK):
            continue
        for style in STYLES[:1] if quick else STYLES:
            for mode in MODES[:1] if quick else MODES:
                target = Target(style=style, mode=mode)  # type: ignore[arg-type]
                work = partial(_migrated, path, target)
                yield Item(f"repos/{name}/{style}/{mode}", work, commit or commits.get(name, ""))


def _commits(folder: Path) -> dict[str, str]:
    for path in (folder / "commits.tsv", folder.parent / "commits.tsv"):
        if path.is_file():
            rows = (line.split("\t") for line in path.read_text().splitlines())
            return {row[0]: row[2] for row in rows if len(row) > 2}
    return {}


def _migrated(folder: Path, target: Target) -> Record:
    report = project.migrate([folder], target, write=False, jobs=1)
    return {result.path: found for result in report.files if (found := _file(result))}


def _file(result: FileResult) -> Record | None:
    if result.status == "unchanged" and not result.findings:
        return None
    found: Record = {"status": f"{result.status} {result.reason or ''}".strip()}
    found["findings"] = sorted(map(_finding, result.findings), key=str)
    if result.after is not None:
        assert result.before is not None
        found |= _rewritten(result.before, result.after)
    return found


def _finding(one: Finding) -> list[Any]:
    return [one.line, one.column, one.code, one.severity, one.safety, one.row, one.applied, one.message]  # fmt: skip


def _rewritten(before: bytes, after: bytes) -> Record:
    old, new = (lines.split(data.decode("utf-8", "replace")) for data in (before, after))
    steps = [step for step in lines.steps(old, new) if step[0] != "equal"]
    edits = [[i1 + 1, "".join(old[i1:i2]), "".join(new[j1:j2])] for _, i1, i2, j1, j2 in steps]
    return {"sha": hashlib.sha256(after).hexdigest()[:20], "edits": edits}


def _pages() -> Iterator[Item]:
    import test_rules

    from hpushim.engine.rules import page

    for path in page.pages().values():
        yield Item(f"pages/{path.stem}", partial(_page, path, test_rules))


def _page(path: Path, rules: Any) -> Record:
    from hpushim.engine.context import Unparsable
    from hpushim.engine.rules import page

    found: Record = {}
    blocks = page.whole(path).blocks
    for block, following in zip_longest(blocks, blocks[1:]):
        shown = block.role == "" and following is not None and following.role == "findings"
        if block.role not in ("before", "same") and not shown:
            continue
        # By what it is, so that an example may move on its page.
        name = hashlib.sha256(f"{block.text}{block.options}".encode()).hexdigest()[:8]
        try:
            settled = rules._run(block)
        except Unparsable as error:
            found[name] = {"findings": [_finding(error.finding)]}
            continue
        found[name] = {"findings": sorted(map(_finding, settled.findings), key=str)}
        if settled.text != block.text:
            found[name] |= _rewritten(block.text.encode(), settled.text.encode())
    return found


def _forms() -> Iterator[Item]:
    from forms import FORMS

    for case in FORMS:
        yield Item(f"forms/{case.name}", partial(_form, case.code))


def _form(code: str) -> Record:
    from test_forms import found, verdict

    told = sorted([one.line, 0, verdict(one), "", "", None, False, ""] for one in found(code))
    made = _laid_out({"form.py": code})
    return {**made, "finder": {"findings": told}} if told else made


def _campaign(seed: int) -> Record:
    import grammar

    files, _, _ = grammar.rendered(grammar.drawn(seed))
    return _laid_out(files)


def _laid_out(files: dict[str, str]) -> Record:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, text in files.items():
            ast.parse(text) if file.endswith(".py") else None
            (folder / file).write_text(text)
        return _migrated(folder, Target())


# -- the store --------------------------------------------------------------------------------


def _found(item: Item) -> tuple[str, Record]:
    with _limited():
        try:
            files = item.work()
        except _Late:
            files = {"": {"status": f"endless: over {LIMIT:.0f} s"}}
        except Exception:
            files = {"": {"status": f"internal error: {traceback.format_exc()[-600:]}"}}
    return item.name, {"commit": item.commit, "files": files}


@contextmanager
def _limited() -> Iterator[None]:
    """Raises in the block after so much processor time; not the engine's own clock."""

    def up(_signal: int, _frame: object) -> None:
        raise _Late

    signal.signal(signal.SIGPROF, up)
    signal.setitimer(signal.ITIMER_PROF, LIMIT, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


_chosen: list[Item] = []


def _numbered(number: int) -> tuple[str, Record]:
    return _found(_chosen[number])


def _all(chosen: list[Item], jobs: int) -> Iterator[tuple[str, Record]]:
    """The record of each item, in their order."""
    global _chosen
    if jobs < 2:
        yield from map(_found, chosen)
        return
    _chosen = chosen
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        yield from pool.map(_numbered, range(len(chosen)))


def _path(store: Path, name: str) -> Path:
    kept = re.sub(r"[^\w.+-]+", "_", name)[:80]
    return store / f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json.gz"


def _read(store: Path, name: str) -> Record | None:
    path = _path(store, name)
    if not path.is_file():
        return None
    record: Record = json.loads(gzip.decompress(path.read_bytes()))
    return record


def _here() -> str:
    words = ["git", "-C", str(TESTS), "describe", "--always", "--abbrev=12", "--dirty=+"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def record(store: Path, chosen: list[Item], jobs: int) -> None:
    """Keeps the records of these items."""
    store.mkdir(parents=True, exist_ok=True)
    by = _here()
    for name, found in _all(chosen, jobs):
        data = json.dumps({**found, "by": by}, separators=(",", ":")).encode()
        _path(store, name).write_bytes(gzip.compress(data, 6, mtime=0))
        if name.startswith("repos/"):
            print(f"{name}: {len(found['files'])} files", flush=True)


# -- differences ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """One difference: its kind, the code it is about, where, and what to show of it."""

    kind: str
    code: str
    item: str
    place: str
    text: str


_FIELDS = {3: "severity", 4: "safety", 5: "row", 6: "applied", 7: "message"}


def differences(name: str, before: Record, after: Record) -> Iterator[Difference]:
    """What differs between two records of one item."""
    old, new = before["files"], after["files"]
    for file in sorted(old.keys() | new.keys()):
        one, other = old.get(file, {}), new.get(file, {})
        if one == other:
            continue
        make = partial(_difference, name, file)
        was, now = (record.get("status", "unchanged") for record in (one, other))
        if {was, now} - {"changed", "unchanged"} and was != now:
            yield make("status", "", 0, f"{was} → {now}")
        yield from _of_findings(make, one.get("findings", []), other.get("findings", []))
        if one.get("sha") != other.get("sha"):
            yield from _of_edits(make, one, other)


def _difference(item: str, file: str, kind: str, code: str, line: int, text: str) -> Difference:
    return Difference(kind, code, item, f"{file}:{line}", text)


def _of_findings(
    make: Callable[..., Difference], old: list[Any], new: list[Any]
) -> Iterator[Difference]:
    was, now = (Counter(map(tuple, found)) for found in (old, new))
    gone, come = sorted((was - now).elements(), key=str), sorted((now - was).elements(), key=str)
    for same in (slice(0, 3), slice(0, 2)):  # first those with the same code, then any other there
        for one in list(gone):
            other = next((other for other in come if other[same] == one[same]), None)
            if other is None:
                continue
            gone.remove(one)
            come.remove(other)
            yield from _changed(make, one, other)
    for kind, found in (("gone", gone), ("new", come)):
        for one in found:
            yield make(kind, one[2], one[0], f"{one[3]} {one[4]}: {one[7]}")


def _changed(
    make: Callable[..., Difference], one: tuple[Any, ...], other: tuple[Any, ...]
) -> Iterator[Difference]:
    if one[2] != other[2]:
        yield make("code", f"{one[2]} → {other[2]}", one[0], f"{one[7]} → {other[7]}")
        return
    for number, kind in _FIELDS.items():
        if one[number] != other[number]:
            yield make(kind, one[2], one[0], f"{one[number]} → {other[number]}")


def _of_edits(make: Callable[..., Difference], one: Record, other: Record) -> Iterator[Difference]:
    old, new = ({(e[0], e[1]): e[2] for e in record.get("edits", [])} for record in (one, other))
    for line, text in sorted(old.keys() | new.keys()):
        was, now = (edits.get((line, text), text) for edits in (old, new))
        if was != now:
            shown = [f"  - {part}" for part in text.splitlines()]
            shown += ["  was:", *(f"    {part}" for part in was.splitlines())]
            shown += ["  now:", *(f"    {part}" for part in now.splitlines())]
            yield make("edit", "", line, "\n" + "\n".join(shown))


@dataclass
class Wanted:
    """An entry of a reviewed list."""

    why: str
    kind: str = ""
    code: str = ""
    item: str = ""
    place: str = ""
    text: str = ""
    count: int = 0

    def covers(self, one: Difference) -> bool:
        """Whether each expression that it has is found."""
        return all(
            re.search(expression, getattr(one, name))
            for name in ("kind", "code", "item", "place", "text")
            if (expression := getattr(self, name))
        )


def wanted(files: Iterable[Path]) -> list[Wanted]:
    """The entries of reviewed lists."""
    return [Wanted(**entry) for file in files for entry in tomli.loads(file.read_text())["wanted"]]


def compare(
    before: Path, pairs: Iterable[tuple[str, Record]], reviewed: list[Wanted], samples: int
) -> int:
    """Prints what differs; returns the exit code."""
    classes: dict[tuple[str, str], list[Difference]] = {}
    compared = other_commit = 0
    for name, now in pairs:
        was = _read(before, name)
        if was is None:
            continue
        if was["commit"] != now["commit"]:
            other_commit += 1
            continue
        compared += 1
        for one in differences(name, was, now):
            entry = next((entry for entry in reviewed if entry.covers(one)), None)
            if entry:
                entry.count += 1
            else:
                classes.setdefault((one.kind, one.code), []).append(one)
    for (kind, code), found in sorted(classes.items(), key=lambda item: (-len(item[1]), item[0])):
        places = {(one.item.split("/")[1], one.place) for one in found}
        print(f"\n## {kind} {code}: {len(found)} ({len(places)} places)")
        for one in found[:: max(1, len(found) // samples)][:samples]:
            print(f"{one.item} {one.place}: {one.text}"[:1500])
    print()
    for entry in reviewed:
        print(f"wanted, {entry.count}: {entry.why}")
    left = Counter(kind for (kind, _), found in classes.items() for _ in found)
    print(f"{compared} items compared, {sum(left.values())} differences not reviewed {dict(left)}")
    if other_commit:
        print(f"{other_commit} items are of another commit of their repository, not compared")
    return 2 if not compared else 1 if left else 0


def _stored(store: Path, chosen: list[Item]) -> Iterator[tuple[str, Record]]:
    for item in chosen:
        found = _read(store, item.name)
        if found is not None:
            yield item.name, found


def main() -> int:
    """Records or compares; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("store", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument(
        "--quick", action="store_true", help="some repositories, one style and mode"
    )
    parser.add_argument("--only", default="", help="items whose name has this expression")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wanted", type=Path, action="append", default=[])
    parser.add_argument("--samples", type=int, default=4, help="shown of each class")
    options = parser.parse_args()
    chosen = [item for item in items(quick=options.quick) if re.search(options.only, item.name)]
    if options.what == "record":
        record(options.store, chosen, options.jobs)
        return 0
    known = [item for item in chosen if _path(options.store, item.name).is_file()]
    new = len(chosen) - len(known)
    if new:
        print(f"{new} items are not in the store, for example {(set(chosen) - set(known)).pop().name}")  # fmt: skip
    pairs = _stored(options.other, known) if options.other else _all(known, options.jobs)
    return compare(options.store, pairs, wanted(options.wanted), max(1, options.samples))


if __name__ == "__main__":
    sys.exit(main())
