"""Some input of each kind that fuzz.py draws, and what it has found: it runs for hours by ``make fuzz``, here for seconds."""

from __future__ import annotations

import os
from pathlib import Path

import fuzz
import pieces
import pytest

pytestmark = [pytest.mark.hostile("drawn")]
COUNT = int(os.environ.get("HPUSHIM_HOSTILE_EXAMPLES", "30"))
SEEDS = Path(__file__).with_name("seeds.txt").read_text().splitlines()
FOUND = [seed for line in SEEDS if not line.startswith("#") for seed in line.split()]
DRAWN = [name for name in fuzz.KINDS if name != "real"]


@pytest.mark.parametrize("kind", DRAWN)
def test_what_is_drawn_is_held(kind: str) -> None:
    """programs, files, edits, rows, settings, ledgers and command lines, drawn by number"""
    several = COUNT if kind == "edits" else max(COUNT // 5, 3)
    wrong = {number: fault for number in range(several) if (fault := fuzz.tried(kind, number))}
    assert not wrong


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_is_held(seed: str) -> None:
    """what was found before"""
    kind, _, number = seed.partition(":")
    assert fuzz.tried(kind, int(number)) is None


@pytest.mark.parametrize("version", [10, 11, 12, 13, 14])
def test_the_grammar_is_pythons(version: int) -> None:
    """programs of each version parse where Python knows it, and nowhere take hpushim by surprise"""
    import random

    newest = 0
    for number in range(COUNT):
        grammar = pieces.Grammar(random.Random(number), version)
        text = grammar.program()
        newest = max(newest, grammar.needs)
        if grammar.needs <= fuzz.VERSION:
            compile(text, "a.py", "exec", fuzz.ast.PyCF_ONLY_AST)
    assert newest <= version
