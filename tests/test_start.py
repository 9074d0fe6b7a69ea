"""What `check` loads before it says something: rules when a file wants them, everything else when it is needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hpushim.engine.rules import dispatch
from hpushim.engine.rules.listed import Listed, decoded, encoded
from hpushim.engine.rules.registry import every_rule, rules
from hpushim.engine.rules.rule import Rule
from hpushim.patterns import lazily

CODE = (
    "import sys\nfrom hpushim.cli import main\n"
    "try: main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
)
RULES = {rule.__module__ for rule in every_rule()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where byte code goes, and what is kept beside it."""
    return tmp_path_factory.mktemp("kept")


def loaded(kept: Path, text: str) -> set[str]:
    """What a look at a file loads, when the rules have been listed and the matrix been read before."""
    (file := kept / "a.py").write_text(text)
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(kept)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE, "check", str(file)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
    return set(done.stderr.splitlines()[-1].split())


def test_a_file_without_cuda_loads_no_rule(kept: Path) -> None:
    names = loaded(kept, "x = 1\n")
    assert "hpushim.engine.project" in names and not names & RULES
    assert not names & {"libcst", "torch", "packaging", "tomli", "difflib", "subprocess"}
    assert not names & {"rich", "yaml", "tree_sitter", "pathspec", "hpushim.engine.files.journal"}


def test_a_file_loads_the_rules_that_it_wants(kept: Path) -> None:
    names = loaded(kept, 'import torch\nwith torch.autocast("cuda"):\n    pass\n') & RULES
    assert "hpushim.codemods.precision.autocast" in names and len(names) < len(RULES) / 2


def test_a_look_at_a_program_loads_no_writer_of_code(kept: Path) -> None:
    text = 'import torch\nx = torch.zeros(2).cuda()\nx[x < 0] = 0\nx.backward()\nwith torch.autocast("cuda"):\n    x.to("cuda")\n'
    assert "libcst" not in loaded(kept, text)


def test_what_is_listed_of_a_rule_is_what_it_says() -> None:
    again = decoded(encoded(tuple(map(Listed.of, every_rule()))))
    for rule, entry in zip(every_rule(), again, strict=True):
        assert entry.load() is rule and entry.codes == tuple(rule.codes)
        if issubclass(rule, Rule):
            assert entry.python and entry.facts == (rule.wants | rule.also).facts
            wants = msgspec.structs.replace(entry.wants, facts=entry.facts)
            assert wants == rule.wants | rule.also
        else:
            assert (entry.python, entry.kinds, entry.markers) == (False, rule.kinds, rule.markers)


def test_the_words_of_the_rules_are_kept_as_they_are_worked_out() -> None:
    made = dispatch._made(rules())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=dispatch._Table) == made


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    found = lazily(r"(c)uda", re.IGNORECASE)
    assert "_compiled" not in vars(found)
    assert found.pattern == "(c)uda" and found.flags == re.compile("(c)uda", re.I).flags
    match = found.search("a CUDA device")
    assert match is not None and match.group(1) == "C"
