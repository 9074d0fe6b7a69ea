"""A report beside a run: ``hpushim report PATH --ledger FILE``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.ledgers.join import join, text_of
from hpushim.ledgers.reading import read
from hpushim.ledgers.summary import summarize
from hpushim.matrix import load
from hpushim.model import Target

pytestmark = pytest.mark.usefixtures("served")

PROGRAMS = Path(__file__).parent / "programs"
VARIABLE = ("16", "16", "24", "16", "24", "32", "16")


def joined(path: Path, ledger: Path):
    return join(analyse((path,), Target(), matrix=load()), summarize(read(ledger), load()))


def line_of(text: str) -> int:
    lines = (PROGRAMS / "gpt.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_what_was_predicted_happened(ran):
    found = joined(PROGRAMS / "gpt.py", ran("gpt", *VARIABLE).file)
    assert [(one.line, one.event.kind, one.event.count) for one in found.happened] == [
        (line_of("loss.item()"), "host_sync", 7)
    ]
    assert {finding.code for finding in found.happened[0].findings} == {"HPU513"}
    assert found.unseen == ()


def test_what_no_rule_had_said_is_told_once_at_its_first_line(ran):
    """The lengths come from the command line, which no rule can see: one entry, though forty operators compiled again."""
    found = joined(PROGRAMS / "gpt.py", ran("gpt", *VARIABLE).file)
    assert [(one.line, one.event.kind) for one in found.unpredicted] == [
        (line_of("torch.arange"), "recompilation"),
        (line_of("optimizer.step()"), "recompilation_by_number"),
    ]


def test_copies_of_a_checkpoint_after_training_are_no_surprise(ran):
    found = joined(PROGRAMS / "resnet.py", ran("resnet").file)
    assert [one.event.kind for one in found.unpredicted if one.event.bytes] == []


def test_what_was_predicted_and_did_not_happen(start, tmp_path):
    """A read in a branch that this run did not take."""
    copy = tmp_path / "resnet.py"
    shutil.copy(PROGRAMS / "resnet.py", copy)
    text = copy.read_text()
    text = text.replace(
        "        optimizer.step()\n",
        "        optimizer.step()\n        if args.steps > 99:\n            print(loss.item())\n",
    )
    copy.write_text(text.replace("if step % 3 == 0", "if step > 99"))
    done = start("resnet.py")
    assert done.status == 0, done.stderr[-2000:]
    found = joined(copy, done.file)
    assert [one for one in found.happened if one.event.kind == "host_sync"] == []
    assert "HPU513" in {one.finding.code for one in found.unseen}


def test_a_ledger_of_another_project_is_said(ran, tmp_path):
    (tmp_path / "train.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    found = joined(tmp_path, ran("gpt").file)
    assert found.seen_files == 0
    assert "belongs to another project" in text_of(found)


def test_the_command_prints_it_after_the_report(ran):
    ledger = str(ran("gpt", *VARIABLE).file)
    command = [
        sys.executable,
        "-m",
        "hpushim",
        "report",
        str(PROGRAMS / "gpt.py"),
        "--ledger",
        ledger,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "predicted and observed: 1" in done.stdout
    assert "observed but not predicted: 2" in done.stdout
    refused = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, timeout=300, check=False
    )
    assert refused.returncode == 2 and "--output" in refused.stderr and refused.stdout == ""
