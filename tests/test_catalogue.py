"""The catalogue of codes beside the rules is the one that the rules give."""

from __future__ import annotations

import re
from pathlib import Path

from hpushim.engine.rules.catalogue import catalogue, codes

FILE = Path(__file__).resolve().parent.parent / "codemods" / "README.md"


def test_the_catalogue_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == catalogue(), (
        "run: hpushim explain --all > codemods/README.md"
    )


def test_no_code_is_given_twice() -> None:
    found = codes()
    assert len(found) == len(set(found)), sorted(c for c in set(found) if found.count(c) > 1)
    assert all(re.fullmatch(r"HPU[0-8]\d\d", code) for code in found)
