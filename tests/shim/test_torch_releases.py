"""Every declared target exists in every torch release that it is declared for, by those releases' own sources.

The facts are in ``torch_targets.json``, written by ``torch_facts.py`` from the sources of the releases.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hpushim.shim.patch import Patch, declared

sys.path.insert(0, str(Path(__file__).parent))
from torch_facts import TABLE, Release

FACTS = json.loads(TABLE.read_text(encoding="utf-8"))
PATCHES = [p for p in declared() if p.module.startswith("torch")]
# Classes that torch's compiled part puts into torch.cuda when it is imported; no source names them.
MADE_AT_IMPORT = "Tensor"


def fact(patch: Patch, release: str) -> Any:
    """What the target is in a release; None where it does not exist."""
    value = None
    for since, found in FACTS["targets"][f"{patch.module}:{patch.path}"].items():
        if FACTS["releases"].index(since) <= FACTS["releases"].index(release):
            value = found
    return value


def release_of(text: str) -> tuple[int, int]:
    """Major and minor."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def test_the_table_knows_every_target() -> None:
    missing = [p.target for p in PATCHES if f"{p.module}:{p.path}" not in FACTS["targets"]]
    assert missing == [], "run tests/shim/torch_facts.py, see its docstring"
    assert len(FACTS["releases"]) >= 10


@pytest.mark.parametrize("release", FACTS["releases"])
def test_targets_exist(release: str) -> None:
    missing = [
        patch.target
        for patch in PATCHES
        if patch.applies_to(release_of(release))
        and not (patch.module.startswith("torch.cuda") and patch.path.endswith(MADE_AT_IMPORT))
        and fact(patch, release) is None
    ]
    assert missing == []


@pytest.mark.parametrize("release", FACTS["releases"])
def test_ranges_are_not_too_narrow(release: str) -> None:
    there = [
        patch.target
        for patch in PATCHES
        if not patch.applies_to(release_of(release)) and fact(patch, release) is not None
    ]
    assert there == []


def test_installed_torch_agrees_with_the_table() -> None:
    torch = pytest.importorskip("torch", reason="compares the table with the torch that is here")
    short = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    known = [r for r in FACTS["releases"] if r.startswith(f"{short}.")]
    if not known:
        pytest.skip(f"the table has no release {short}")
    release = Release(Path(torch.__file__).parents[1])
    for patch in PATCHES:
        assert release.fact(patch.module, patch.path) == fact(patch, known[-1]), patch.target


def test_a_missing_target_would_be_noticed() -> None:
    torch = pytest.importorskip("torch", reason="reads the sources of the torch that is here")
    release = Release(Path(torch.__file__).parents[1])
    assert release.fact("torch.cuda", "no_such_name") is None
    assert release.fact("torch.cuda.no_such_module", "x") is None
    assert release.fact("torch.amp.grad_scaler", "GradScaler.no_such_method") is None
    assert release.fact("torch", "no_such_name") is None
    assert release.fact("torch.cuda", "synchronize") == "device"
    assert release.fact("torch", "Tensor.to") == "C"
