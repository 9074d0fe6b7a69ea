"""Every name that the shim or a rewrite writes has public code that runs it on a card, or is marked as not known to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.matrix.written import appears, written
from hpushim.model import Target
from hpushim.shim import vendor

ROOT = Path(__file__).parents[2]
M = load()
LISTED = {name for item in M.seen for name in item.names}
#: Gaudi's own words in code: names of its package and of torch.hpu, and its variables.
WORD = re.compile(
    r"\btorch\.hpu\.[\w.]+|\bhabana_frameworks[\w.]*|\bhtcore\.\w+|\b(?:PT|HABANA|HCCL)_[A-Z_]+\b"
)
AFTER = re.compile(r"^```\w+ after.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pages() -> set[str]:
    """What the rules' pages show as written."""
    found = set()
    for page in (ROOT / "codemods").rglob("*.md"):
        for block in AFTER.findall(page.read_text("utf-8")):
            found.update(WORD.findall(block))
    assert len(found) > 30
    short = ("htcore.", "habana_frameworks.torch.core.")
    return {name.replace(*short) for name in found}


def test_every_written_name_is_listed_and_every_listed_name_is_written() -> None:
    names = set(written(M.rows)) | {read.name for read in vendor.READS} | pages()
    assert sorted(names - LISTED) == []
    assert sorted(LISTED - names) == []


def test_a_name_is_listed_once() -> None:
    names = [name for item in M.seen for name in item.names]
    assert sorted(names) == sorted(LISTED)


def test_a_row_knows_the_names_that_nobody_ran() -> None:
    row = M.row("torch.cuda.LongTensor")
    assert row is not None
    assert M.unwitnessed(row) == ("torch.hpu.LongTensor",)
    known = M.row("torch.cuda.synchronize")
    assert known is not None
    assert M.unwitnessed(known) == ()


def test_a_rewrite_to_such_a_name_is_unsafe_and_says_so(tmp_path: Path) -> None:
    source = (
        "import torch\n\n"
        "with torch.cuda.device_of(x):\n    torch.cuda.synchronize()\n"
        "y = torch.cuda.LongTensor([1])\n"  # becomes torch.tensor, which is known to run
    )
    (tmp_path / "one.py").write_text(source)
    report = analyse([tmp_path], Target(), jobs=1)
    found = {finding.line: finding for finding in report.files[0].findings}
    assert found[3].safety == "unsafe"
    assert "not tried on Gaudi in public, so test it" in found[3].message
    assert [found[line].safety for line in (4, 5)] == ["safe", "safe"]


def test_the_page_lists_them() -> None:
    page = (ROOT / "MATRIX.md").read_text("utf-8").partition("## Names that nobody")[2]
    unseen = [name for name in written(M.rows) if not M.witness(name)]
    assert unseen
    assert [name for name in unseen if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(
    ("name", "new", "expected"),
    [
        ('torch.load(map_location="hpu")', 'map_location="hpu"', True),
        ('torch.load(map_location="hpu")', '"hpu" if args.cuda else None', True),
        ('torch.load(map_location="hpu")', "map_location=place", True),
        ('torch.load(map_location="hpu")', "torch.load(p)", False),
        ("torch.hpu.synchronize", "torch.hpu.synchronize", True),
        ("torch.hpu.synchronize", "getattr(torch, ACCELERATOR).synchronize", True),
        ("torch.hpu.synchronize", "torch.hpu.empty", False),
    ],
)
def test_a_written_name_appears_in_what_is_written(name: str, new: str, expected: bool) -> None:
    assert appears(name, new) is expected
