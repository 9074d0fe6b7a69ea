"""What public reports say fails on a Gaudi (docs/refusals.md), the emulated HPU does not do under the policy ``faithful``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import tomli

from hpushim import emulator

pytestmark = pytest.mark.usefixtures("served")

pytest.importorskip("torch")

HERE = Path(__file__).parent
PROGRAMS: list[dict[str, Any]] = tomli.loads((HERE / "known_refusals.toml").read_text("utf-8"))["program"]  # fmt: skip
#: What the page says under "Emulated", by ``how`` of the program.
WORDS = {"refused": "refused", "cpu": "on the CPU", "differs": "other result"}
RUN = """
import json, sys
import torch
programs, done = json.loads(sys.argv[1]), []
if not programs[0].get("bare"):
    import habana_frameworks.torch
import torch.distributed as dist
for program in programs:
    try:
        exec(program["do"], {"torch": torch})
        done.append("accepted")
    except Exception as error:
        done.append(f"{type(error).__name__}: {error}")
    if dist.is_initialized():
        dist.destroy_process_group()
print(json.dumps(done))
"""


def how_of(program: dict[str, Any]) -> str:
    """What the program does on a Gaudi in place of what its author wanted."""
    return str(program.get("how", "refused"))


def settings(program: dict[str, Any]) -> tuple[str, str, str, str, bool]:
    """Programs with the same settings share a process, but for those of one statement before the import."""
    return (
        str(program.get("release", "1.24.1")),
        "1" if program.get("lazy") else "0",
        str(program.get("gaudi", "gaudi2")),
        "strict" if how_of(program) == "cpu" else "faithful",
        bool(program.get("bare")),
    )


GROUPS: dict[tuple[str, str, str, str, bool], list[dict[str, Any]]] = defaultdict(list)
for one in PROGRAMS:
    GROUPS[settings(one)].append(one)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: "-".join(map(str, group)))
def test_what_is_reported_to_fail_is_not_accepted(group: tuple[str, str, str, str, bool]) -> None:
    release, lazy, gaudi, policy, _ = group
    programs = GROUPS[group]
    variables = {
        "HPUSHIM": "off",
        "HPUSHIM_STACK": release,
        "PT_HPU_LAZY_MODE": lazy,
        "HPUSHIM_POLICY": policy,
    }
    given = os.environ | variables | emulator.environment(gaudi=gaudi, stack=release)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(programs)],
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    done = json.loads(ended.stdout.splitlines()[-1])
    expected = {"refused": "", "cpu": "NotImplementedError: .*runs on the CPU", "differs": "AssertionError"}  # fmt: skip
    wrong = [
        (program["do"], said)
        for program, said in zip(programs, done, strict=True)
        if said == "accepted"
        or said.startswith(("NameError", "SyntaxError", "ModuleNotFoundError"))
        or not re.match(expected[how_of(program)], said, re.DOTALL)
    ]
    assert wrong == []


def test_the_page_says_what_becomes_of_each_report() -> None:
    page = (HERE.parents[1] / "docs" / "refusals.md").read_text("utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| [")]  # fmt: skip
    said = {re.sub(r"\[(.*?)\].*", r"\1", link): emulated for link, *_, emulated in cells}
    assert len(said) == len(cells) >= 120
    run = {report: WORDS[how_of(program)] for program in PROGRAMS for report in program["reports"]}
    assert {report: word for report, word in said.items() if word != "–"} == run
