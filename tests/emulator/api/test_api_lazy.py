"""The cases of lazy_cases.py, and the names once more, in a process of lazy mode: the mode is read once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent
FILES = ("lazy_cases.py", "test_api_names.py")


def _cases() -> list[str]:
    text = (HERE / "lazy_cases.py").read_text(encoding="utf-8")
    return [*re.findall(r"^def (test_\w+)", text, re.MULTILINE), "test_lazy_names_follow_the_mode",
            "test_names_and_signatures", "test_unmodelled_names_stay_missing"]  # fmt: skip


@cache
def _run(folder: str) -> dict[str, list[str]]:
    """For each case the messages of its failures; every case of the run is a key."""
    report = Path(folder) / "lazy.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}",
         *(str(HERE / name) for name in FILES)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PT_HPU_LAZY_MODE": "1", "HPUSHIM": "off", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failures = found.setdefault(case.get("name", "").split("[")[0], [])
        failures += [
            f"{case.get('name')}: {problem.text}" for problem in case if problem.tag != "properties"
        ]
    return found


@pytest.mark.parametrize("case", _cases())
def test_in_lazy_mode(case: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = _run(str(tmp_path_factory.getbasetemp()))
    assert case in found, "the case did not run"
    skips = [text for text in found[case] if "pytest.skip" in text]
    if skips:
        pytest.skip(skips[0][-200:])
    assert not found[case], "\n".join(found[case])
