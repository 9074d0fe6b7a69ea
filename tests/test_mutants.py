"""The reviewed list of equivalent mutants names mutants that there are."""

from __future__ import annotations

import mutants
import tomli


def test_each_equivalent_mutant_is_one_of_its_line() -> None:
    table = tomli.loads((mutants.ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))
    listed = {(one["file"], one["line"], one["before"], one["after"]) for one in table["equivalent"]}  # fmt: skip
    files = {file for file, *_ in listed}
    there = {(m.file, m.text(), m.before, m.after) for file in files for m in mutants.mutants(file)}
    assert sorted(listed - there) == []
    assert all(len(one["why"]) > 20 for one in table["equivalent"])
