"""The marks against labels made by hand; the repositories are found outside this tree."""

from __future__ import annotations

import os
from pathlib import Path

import mark_labels
import pytest

CORPORA = [Path(p) for p in os.environ.get("HPUSHIM_CORPORA", "").split(os.pathsep) if p]


def test_the_labels_are_well_formed_and_many() -> None:
    found = list(mark_labels.labels())
    assert sum(len(label.marks) for label in found) >= 150
    assert sum(not label.marks for label in found) >= 50
    assert all(label.first <= line <= label.last for label in found for line in label.marks)
    places = [(label.repository, label.path, label.first) for label in found]
    assert len(set(places)) == len(places)


def test_a_mark_that_is_missing_wrong_or_stale_is_counted(tmp_path: Path) -> None:
    repository = tmp_path / "me+mine@123"
    repository.mkdir()
    (repository / "train.py").write_text(
        "import torch\n\ndef train(loss, optimizer, device):\n    loss.to(device).backward()\n"
        "    optimizer.step()\n    take_a_step(1)\n"
    )
    file = tmp_path / "labels.tsv"
    row = "me+mine@123\ttrain.py\t3-6\t{}\n"
    file.write_text(row.format("4,6") + row.format("1"))
    found = mark_labels.measure([tmp_path], file)
    assert found.right == ["me+mine:train.py:4"]
    assert found.wrong == ["me+mine:train.py:5"]
    assert found.missed == ["me+mine:train.py:6"]
    assert found.stale == ["me+mine:train.py:3"]
    assert (found.precision, found.recall) == (0.5, 0.5)


@pytest.mark.skipif(not CORPORA, reason="HPUSHIM_CORPORA does not say where repositories are")
def test_marks_stand_where_a_person_would_put_them() -> None:
    found = mark_labels.measure(CORPORA)
    if found.functions < 20:
        pytest.skip(f"only {found.functions} labelled functions are in HPUSHIM_CORPORA")
    assert found.precision >= 0.98, found.wrong
    assert found.recall >= 0.95, found.missed
