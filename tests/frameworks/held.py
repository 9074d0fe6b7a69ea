"""Runs examples of libraries' own repositories: on the CPU, unmodified under the shim, and migrated on the emulated HPU.

``python tests/frameworks/held.py [NAME ...] [--out FOLDER]`` runs those of ``held.toml`` whose file or library contains a name, each by
``hpushim prove``, and writes a table. Looks outside this tree, at HPUSHIM_CORPORA (folders owner+name) and HPUSHIM_HELD_DATA (what
``held_data.py`` has made); HPUSHIM_FRAMEWORKS_PYTHON are the Pythons. An example whose repository or library is not there is
skipped, and the table says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tomli
from framework_runs import python_with

HERE = Path(__file__).parent
_HEAD = """# Examples of the libraries themselves

Written by `python tests/frameworks/held.py`; do not edit. Synthetic data, tiny random models, and everything on hpu is **emulated**.
Each example runs three times: as it is on the CPU, as it is under the shim, and migrated. "Ran on hpu": both of the last two came to
their end there, with this share of the compute operators on the emulated device. "Told" is what `hpushim` says of it: the notes of the
comparison, and the findings of `hpushim migrate` whose lines ran. Examples of the list that are not here were not run.

| library | example | ran on hpu | shim against CPU | migrated against shim | losses, first to last step | told |
|---|---|---|---|---|---|---|
"""


class Example(NamedTuple):
    """A line of ``held.toml``."""

    library: str
    repo: str
    file: str
    args: tuple[str, ...]
    cpu: str | None
    launch: tuple[str, ...]
    data: tuple[str, ...]
    beside: tuple[str, ...]
    steps: int
    devices: int
    no_cpu: str
    left_out: str

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return self.file + (
            f" ({' '.join(self.launch[:2])}, {self.processes})" if self.launch else ""
        )

    @property
    def processes(self) -> str:
        """How many the launcher starts."""
        return next((word for word in self.launch if word.isdigit()), "1")


def examples() -> Iterator[Example]:
    """All of them."""
    table: dict[str, Any] = tomli.loads((HERE / "held.toml").read_text(encoding="utf-8"))
    for group in table["group"]:
        for one in group["examples"]:
            words = shlex.split(group.get("args", "")) + shlex.split(one.get("args", ""))
            yield Example(
                group["library"],
                group["repo"],
                one["file"],
                tuple(words),
                one.get("cpu", group.get("cpu")),
                tuple(shlex.split(one.get("launch", ""))),
                (*group.get("data", ()), *one.get("data", ())),
                tuple(one.get("beside", ())),
                one.get("steps", group.get("steps", 0)),
                one.get("devices", group.get("devices", 0)),
                one.get("no_cpu", ""),
                one.get("left_out", ""),
            )


def missing(example: Example) -> str:
    """Why an example cannot run here; empty if it can."""
    if example.left_out:
        return example.left_out
    corpora, data = os.environ.get("HPUSHIM_CORPORA"), os.environ.get("HPUSHIM_HELD_DATA")
    if not corpora or not data:
        return "HPUSHIM_CORPORA and HPUSHIM_HELD_DATA do not say where repositories and data are"
    python, reason = python_with("torch", example.library.partition(" ")[0])
    if reason:
        return reason
    if not (source(example, python)).is_file():
        return f"{example.repo}/{example.file} is not in HPUSHIM_CORPORA"
    lost = [name for name in example.data if not (Path(data) / name.rpartition(" = ")[2]).exists()]
    if lost:
        return f"not in HPUSHIM_HELD_DATA: {', '.join(lost)}"
    return ""


def source(example: Example, python: str) -> Path:
    """Where an example lies: in its repository, or in the packages of the Python that runs it."""
    if example.repo != "installed":
        return Path(os.environ["HPUSHIM_CORPORA"]) / example.repo / example.file
    words = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()) / example.file


def staged(example: Example, found: Path, place: Path) -> None:
    """The example's folder and its data, as they lie in its repository, in a new folder."""
    (place / example.file).parent.mkdir(parents=True)
    for file in found.parent.iterdir():
        if file == found or (file.is_file() and not _sibling(file)):
            shutil.copy2(file, (place / example.file).parent)
    root = found.parents[len(Path(example.file).parts) - 1]
    for name in example.beside:
        shutil.copytree(root / name, place / name)
    for name in example.data:
        to, _, made = name.rpartition(" = ")
        target = place / (to or made)
        target.parent.mkdir(parents=True, exist_ok=True)
        found = Path(os.environ["HPUSHIM_HELD_DATA"]) / made
        (shutil.copytree if found.is_dir() else shutil.copy2)(found, target)


def _sibling(file: Path) -> bool:
    """Another program beside the example: it is not part of what is proved. A module of its own is."""
    return file.suffix == ".py" and "__main__" in file.read_text(encoding="utf-8")


def prove(example: Example, timeout: float) -> dict[str, Any]:
    """The certificate, or ``{"told": …}`` where there is none."""
    python, _ = python_with("torch", example.library.partition(" ")[0])
    words = [
        python,
        "-m",
        "hpushim",
        "prove",
        "--steps",
        str(example.steps),
        "--timeout",
        str(timeout),
    ]
    words += [f"--cpu-args={example.cpu}"] if example.cpu is not None else []
    words += ["--no-cpu"] if example.no_cpu else []
    words += ["--devices", str(example.devices)] if example.devices else []
    quiet = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    quiet |= {"HF_HOME": str(Path(os.environ["HPUSHIM_HELD_DATA"]) / "hf"), "HF_HUB_OFFLINE": "1"}
    quiet |= {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    quiet["HOME"] = str(
        Path(os.environ["HPUSHIM_HELD_DATA"]) / "home"
    )  # what examples keep in ~ is made, too
    quiet["PATH"] = f"{Path(python).parent}{os.pathsep}{quiet['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        place, kept = Path(scratch) / "project", Path(scratch) / "certificate.json"
        staged(example, source(example, python), place)
        words += ["--certificate", str(kept), *example.launch, example.file, *example.args]
        done = subprocess.run(
            words, cwd=place, env=quiet, capture_output=True, text=True, check=False
        )
        text = done.stdout + done.stderr
        found: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {}
        return found | {"said": text[-6000:]}


def row(example: Example, found: dict[str, Any]) -> str:
    """A line of the table."""
    cells = [example.library, f"`{example.name}`"]
    if "skipped" in found:
        return "| " + " | ".join([*cells, f"skipped: {found['skipped']}", *[""] * 4]) + " |"
    pairs = {pair["first"]: pair for pair in found.get("comparisons", ())}
    cells += [_ran(found), *(compared(pairs.get(first)) for first in ("cpu", "shim"))]
    runs = {run["way"]: run for run in found.get("runs", ())}
    if example.no_cpu:
        cells[-2] = f"not asked for: {example.no_cpu}"
    first, last = (runs.get("shim", {}).get(name) for name in ("first_loss", "last_loss"))
    cells.append("" if first is None or last is None else f"{first:.6f} to {last:.6f}")
    cells.append(told(found))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _ran(found: dict[str, Any]) -> str:
    runs = {run["way"]: run for run in found.get("runs", ())}
    for way, name in (("shim", "under the shim"), ("native", "migrated")):
        code = runs.get(way, {}).get("exit_code", "nothing")
        if code != 0:
            return f"no: {name} it ended with {code}"
    share = found.get("compute_on_hpu")
    return "no: nothing was trained" if share is None else f"{share:.1%}"


def compared(pair: dict[str, Any] | None) -> str:
    """What a comparison says, short."""
    if pair is None or not pair["steps"]:
        return "not compared"
    steps = f"{pair['steps']} steps"
    if pair["difference"]:
        return f"different: {pair['difference']}"[:160]
    if pair["bit_for_bit"]:
        return f"bit for bit, {steps}"
    return f"within {max(pair['loss'], pair['gradients'], pair['parameters']):.1e}, {steps}"


def told(found: dict[str, Any]) -> str:
    """The notes of the comparison on hpu, then the findings that ran, by code, each once."""
    pairs = [pair for pair in found.get("comparisons", ()) if pair["first"] == "shim"]
    notes = [n for pair in pairs for n in pair["notes"] if not n.startswith("output differs")]
    marks = [note for note in notes if note.startswith("no mark_step")]
    notes = [*marks[:1], *(note for note in notes if note not in marks)]
    named = {
        f"{one['code']} {one['name']}" for one in found.get("coverage", {}).get("findings_run", ())
    }
    rewrites = found.get("coverage", {}).get("rewrites_run", 0)
    shown = [note[:220] for note in notes[:2]] + sorted(named)
    return "; ".join([f"{rewrites} rewrites ran", *shown])


def main() -> int:
    """0: every example that could run is equal in every comparison that was made; 1: not; 2: none could run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=Path(".demo/held"))
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines, verdicts = [], []
    for example in examples():
        called = " ".join([example.library, example.name, *example.args])
        kept = options.out / f"{hashlib.sha256(called.encode()).hexdigest()[:12]}.json"
        chosen = not options.names or any(name in called for name in options.names)
        if chosen:
            reason = missing(example)
            found = {"skipped": reason} if reason else prove(example, options.timeout)
            kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
        elif kept.is_file():
            found = json.loads(kept.read_text(encoding="utf-8"))
        else:
            continue
        lines.append(row(example, found))
        if chosen:
            print(lines[-1], flush=True)
        if "skipped" not in found:
            verdicts.append(found.get("verdict", ""))
    (options.out / "HELD.md").write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(verdicts)} ran, {sum(v.startswith('equal') for v in verdicts)} equal")
    return 2 if not verdicts else int(not all(v.startswith("equal") for v in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
