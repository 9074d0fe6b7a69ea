"""The catalogue of codes beside the rules is the one that the rules give."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from hpushim.engine.base.code import SEVERITIES
from hpushim.engine.rules.catalogue import ROOMS, catalogue, codes, free, start
from hpushim.engine.rules.page import SECTIONS
from hpushim.engine.rules.registry import every_rule, home
from hpushim.errors import HpushimError
from hpushim.model import Safety

FILE = Path(__file__).resolve().parent.parent / "codemods" / "README.md"


def test_the_catalogue_is_fresh() -> None:
    assert FILE.read_text(encoding="utf-8") == catalogue(), (
        "run: hpushim explain --all > codemods/README.md"
    )


def test_no_code_is_given_twice() -> None:
    found = codes()
    assert len(found) == len(set(found)), sorted(c for c in set(found) if found.count(c) > 1)
    assert all(re.fullmatch(r"HPU[0-8]\d\d", code) for code in found)


def test_a_folder_is_a_range_of_codes() -> None:
    for rule in every_rule():
        folder = home(rule).parent.name
        assert rule.code.startswith(f"HPU{ROOMS[folder]}"), f"{rule.code} in {folder}"


def test_a_new_rule_gets_a_free_code_and_something_to_begin_with() -> None:
    for folder in ROOMS:
        code = free(folder)
        assert code not in codes()
        rule, _, page = start(folder).partition(f"# codemods/{folder}/STEM.md\n")
        ast.parse(rule)
        assert f"{code} = Code(" in rule
        assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(SECTIONS)
    with pytest.raises(HpushimError, match="one of tool, devices"):
        free("nowhere")


def test_codes_are_declared_whole() -> None:
    every = [one for rule in every_rule() for one in rule.codes.items()]
    assert len(every) > 100
    for number, code in every:
        lower = [SEVERITIES.index(severity) for severity in code.lower]
        assert all(place > SEVERITIES.index(code.severity) for place in lower), number
        assert all(code.lower.values()), f"{number}: a lower severity without a reason"
        assert code.safeties == tuple(s for s in get_args(Safety) if s in code.safeties), number
        assert code.effect != "kernel" or code.effort == "none", (
            f"{number}: a kernel has no counterpart"
        )


def test_a_module_gives_the_codes_that_its_rules_declare() -> None:
    declared: dict[Path, set[str]] = {}
    for rule in every_rule():
        declared.setdefault(home(rule).with_suffix(".py"), set()).update(rule.codes)
    given = {
        file: {
            node.value.value
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.keyword)
            and node.arg == "code"
            and isinstance(node.value, ast.Constant)
        }
        for file in declared
    }
    assert any(given.values())
    assert {file: codes - declared[file] for file, codes in given.items() if codes - declared[file]} == {}  # fmt: skip
