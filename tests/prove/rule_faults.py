"""Faults planted into the rules: how many ``hpushim prove`` finds in what they write, and whether it names the line.

    python tests/prove/rule_faults.py [NAME …]        # all, or those named; exit code 1 where one is missed

Each is one change of one rule, in a temporary copy of the packages that the whole proof runs from: the shim knows nothing of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import warm
from faults import PAIR, PROJECT, Fault

ROOT = Path(__file__).resolve().parents[2]


#: The command line with the packages of the folder that RULES names, whatever is installed.
_MAIN = """\
import os, sys
sys.path.insert(0, os.environ["RULES"])
import hpushim.codemods
assert hpushim.codemods.__file__.startswith(os.environ["RULES"]), hpushim.codemods.__file__
from hpushim.cli import main
sys.exit(main(sys.argv[1:]))
"""


#: ``old`` in a file of the packages becomes ``new``; ``line`` is text of the line of ``planted/`` that is to be named.
RULE_FAULTS = (
    Fault("gloo for nccl", "codemods/edits/spelling.py", 'BACKEND = "hccl"', 'BACKEND = "gloo"', "init_process_group", PAIR),
    Fault("the CPU for the card", "codemods/edits/spelling.py", 'DEVICE = "hpu"', 'DEVICE = "cpu"', "on_card = "),
    Fault("no mark behind backward", "codemods/execution/mark_step.py", "if not is_marked(", "if site.step is Step.UPDATE and not is_marked(", "scaler.scale(loss).backward()"),
    Fault("no mark behind the update", "codemods/execution/mark_step.py", "if not is_marked(", "if site.step is Step.BACKWARD and not is_marked(", "scaler.step(optimizer)"),
    Fault("mark before the step", "codemods/execution/mark_step.py", "return (Insert(statement, mark),)", "return (Insert(statement, mark, after=False),)", "scaler.scale(loss).backward()"),
    Fault("float32 for float16", "codemods/precision/half_precision.py", "return (Replace(node, text), *needed)", 'return (Replace(node, text.replace("bfloat16", "float32")), *needed)', '"float16": torch.float16'),
    Fault("autocast of the CPU", "codemods/precision/autocast.py", "front = f\"device_type={quoted(module, 'hpu')}\"", "front = f\"device_type={quoted(module, 'cpu')}\"", "autocast("),
    Fault("step gone with the scaler", "codemods/precision/grad_scaler.py", "return Replace(use, _step_of_argument)", "return Remove(module.statement(use))", "scaler.step(optimizer)"),
    Fault("another loss than was scaled", "codemods/precision/grad_scaler.py", "    return unwrapped(node, node.args[0].value)", '    return unwrapped(node, call_of(node.args[0].value, ".exp()"))', "scaler.scale(loss).backward()"),
    Fault("is_cuda turned round", "codemods/devices/is_cuda.py", '_compared(there, "==", word)', '_compared(there, "!=", word)', "mask = torch.tril"),
    Fault("move dropped", "codemods/devices/cuda_call.py", '            node = renamed_method(node, "to")\n', "            return node.func.value\n", ".cuda(rank)"),
    Fault("another backend asked", "codemods/devices/availability.py", "return self.rename(module, use, self.code, target,", 'return self.rename(module, use, self.code, "torch.backends.mps.is_available",', "on_card = "),
)  # fmt: skip


def proved(fault: Fault, folder: Path) -> dict[str, object]:
    """The certificate of a proof by packages with one fault in them."""
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hpushim", folder / "hpushim", ignore=no_caches)
    shutil.copytree(ROOT / "codemods", folder / "hpushim" / "codemods", ignore=no_caches)
    for facts in ROOT.glob("*.toml"):
        shutil.copy2(facts, folder)
    path = folder / "hpushim" / fault.file
    text = path.read_text()
    if text.count(fault.old) < 1:
        raise ValueError(f"{fault.name}: {fault.old!r} is not in {fault.file}")
    path.write_text(text.replace(fault.old, fault.new, 1))
    project = folder / "project"
    shutil.copytree(PROJECT, project)
    certificate = folder / "certificate.json"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, "-c", _MAIN, "prove", "--no-cpu", "--steps", "0", "--certificate", str(certificate), *fault.words],
        cwd=project,
        env={**clean, "RULES": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if not certificate.is_file():
        raise RuntimeError(f"{fault.name}: no proof was made: {done.stderr[-1000:]}")
    found: dict[str, object] = json.loads(certificate.read_text())
    return found


def lines_of(fault: Fault) -> set[tuple[str, int]]:
    """The lines of the original that the faulty rule rewrites, and that may be named."""
    return {
        (name, number)
        for name in ("train.py", "model.py")
        for number, text in enumerate((PROJECT / name).read_text().splitlines(), 1)
        if fault.line in text
    }


def main(names: list[str]) -> int:
    """Plants the faults; prints a table."""
    chosen = [fault for fault in RULE_FAULTS if not names or fault.name in names]
    missed = named = 0
    for fault in chosen:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = proved(fault, Path(os.path.realpath(folder)))
        cause = found["cause"]
        where = cause if isinstance(cause, dict) else {}
        line = any(
            where.get("file") == file and abs(int(where.get("line", 0)) - number) <= 1
            for file, number in lines_of(fault)
        )
        is_found = found["verdict"] == "different"
        missed += not is_found
        named += line
        print(f"{'found ' if is_found else 'MISSED'} {'line' if line else '-   '} {time.monotonic() - begin:5.0f} s  {fault.name:30} {where.get('code', '')} {where.get('file', '')}:{where.get('line', '')} {found['reason']}", flush=True)  # fmt: skip
    print(f"{len(chosen) - missed} of {len(chosen)} found, the line named for {named}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
