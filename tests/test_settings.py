"""The environment variables of hpushim: what each takes, and what is said of a value that means nothing."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import warm

from hpushim import settings
from hpushim.errors import HpushimError

ROOT = Path(__file__).resolve().parent.parent
CLOSED = [name for name, one in settings.SETTINGS.items() if one.values or one.pattern]


@pytest.mark.parametrize("name", CLOSED)
def test_a_value_that_means_nothing_is_an_error_that_lists_what_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "nonsense")
    setting = settings.SETTINGS[name]
    with pytest.raises(HpushimError) as caught:
        settings.check()
    assert name in str(caught.value) and "nonsense" in str(caught.value)
    assert all(value in str(caught.value) for value in setting.values)
    assert not setting.pattern or setting.expected in str(caught.value)


@pytest.mark.parametrize("name", CLOSED)
def test_every_value_and_spelling_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = settings.SETTINGS[name]
    monkeypatch.delenv(name, raising=False)
    assert settings.read(name) == setting.default
    for text in (*setting.values, *setting.also, setting.default):
        monkeypatch.setenv(name, f" {text.upper()} ")
        assert settings.read(name) in (*setting.values, setting.default)


def test_a_misspelled_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPUSHIM_POLCY", "strict")
    assert settings.unknown() == ["HPUSHIM_POLCY"]
    assert "HPUSHIM_POLICY" in settings.nearest("HPUSHIM_POLCY")


def test_every_variable_that_the_package_reads_is_known() -> None:
    named = set()
    for file in (ROOT / "hpushim").rglob("*.py"):
        named |= set(re.findall(r'"(HPUSHIM_[A-Z_]+)"', file.read_text(encoding="utf-8")))
    assert named <= settings.SETTINGS.keys() | settings._OTHERS


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert not [name for name in settings.SETTINGS if f"| `{name}` |" not in text]


@pytest.mark.parametrize("name", ["HPUSHIM_LOG", "HPUSHIM_SAVE_TAG", "HPUSHIM_CUDA_AVAILABLE"])
def test_a_run_ends_before_the_script_begins(name: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('began')\n")
    done = warm.run(
        [sys.executable, "-m", "hpushim", "run", str(script)],
        env={**os.environ, "HPUSHIM": "emulate", name: "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "began" not in done.stdout
    assert name in done.stderr and "Traceback" not in done.stderr
