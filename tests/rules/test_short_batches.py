"""The last batch of a loader, however its class is chosen, and padding in files of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target


def codes(text: str) -> set[str]:
    return {f.code for f in examine(text, "python", "data.py", Context(Target(), load()))}


CHOSEN = {
    "return DataLoader({0})": True,
    "loader = DataLoader\n    return loader({0})": True,
    "kind = DataLoader if many else Other\n    return kind({0})": True,
    "kind = Other if many else torch.utils.data.DataLoader\n    batches = kind({0})\n    return batches": True,
    "if many:\n        kind = DataLoader\n    else:\n        kind = Other\n    return kind({0})": True,
    "kind = Other\n    return kind({0})": False,
}
GIVEN = {
    "rows, batch_size=8, shuffle=True": True,
    "rows, batch_size=8, sampler=sampler": True,
    "rows, batch_size=8, sampler=RandomSampler(rows)": True,
    "rows, batch_size=8, sampler=DistributedSampler(rows, shuffle=False)": False,
    "rows, batch_size=8, shuffle=True, drop_last=True": False,
    "rows, batch_size=1, shuffle=True": False,
    "rows, batch_size=8": False,
}


@pytest.mark.parametrize(("chosen", "given"), crossed(list(CHOSEN), list(GIVEN), rounds=3))
def test_a_loader_whose_class_is_in_a_variable(chosen: str, given: str) -> None:
    text = f"import torch\nfrom torch.utils.data import DataLoader, DistributedSampler, RandomSampler\n\n\ndef make(rows, many, rank):\n    torch.ones(2).cuda()\n    sampler = DistributedSampler(rows) if rank != -1 else None\n    {chosen.format(given)}\n"
    assert ("HPU526" in codes(text)) == (CHOSEN[chosen] and GIVEN[given])


PADDED = ["return pad_sequence([row['x'] for row in rows], batch_first=True)", "rows = pad_sequence(rows)\n    return rows, rows.ne(0)"]  # fmt: skip


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("other", ["x.cuda()", "x.cpu()"])
def test_padding_in_a_collator_of_another_file(tmp_path: Path, padded: str, other: str) -> None:
    (tmp_path / "data.py").write_text(
        f"import torch\nfrom torch.nn.utils.rnn import pad_sequence\n\n\ndef collate(rows):\n    {padded}\n"
    )
    (tmp_path / "train.py").write_text(f"import torch\n\n\ndef f(x):\n    return {other}\n")
    told = {each.code for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "data.py" for each in f.findings}  # fmt: skip
    assert ("HPU525" in told) == ("cuda" in other)


@pytest.mark.parametrize("used", ["DataLoader(rows, 8, shuffle=True)", "DataLoader(rows, batch_size=4, sampler=RandomSampler(rows))"])  # fmt: skip
@pytest.mark.parametrize("other", ["x.cuda()", "x.cpu()"])
def test_a_loader_in_a_file_without_a_device(tmp_path: Path, used: str, other: str) -> None:
    (tmp_path / "data.py").write_text(
        f"from torch.utils.data import DataLoader, RandomSampler\n\n\ndef make(rows):\n    return {used}\n"
    )
    (tmp_path / "train.py").write_text(f"import torch\n\n\ndef f(x):\n    return {other}\n")
    told = {each.code for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "data.py" for each in f.findings}  # fmt: skip
    assert ("HPU526" in told) == ("cuda" in other)
