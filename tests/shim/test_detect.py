"""Who counts as a Gaudi: the vendor's package where it is installed, never a look-alike of the emulator's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hpushim.emulator
from hpushim.shim import detect

SITE = Path(hpushim.emulator.__file__).parent / "site"


def package(folder: Path) -> str:
    (folder / "habana_frameworks").mkdir(parents=True)
    (folder / "habana_frameworks" / "__init__.py").write_text("")
    return str(folder)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``sys.path`` without any of the two; what is imported of them is out of sight."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "habana_frameworks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "hpushim" not in type(f).__module__])  # fmt: skip
    kept = [one for one in sys.path if not Path(one, "habana_frameworks").exists()]
    monkeypatch.setattr(sys, "path", kept)
    return kept


def test_the_vendors_package_counts_and_the_look_alike_does_not(
    path: list[str], tmp_path: Path
) -> None:
    assert not detect.gaudi_software()
    assert (SITE / "habana_frameworks").is_dir()
    path.append(str(SITE))
    assert not detect.gaudi_software()
    path.insert(0, package(tmp_path))
    assert detect.gaudi_software()


def test_a_folder_beside_the_emulator_is_not_the_emulator(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "__file__", str(tmp_path / "shim" / "detect.py"))
    path.append(package(tmp_path / "emulator_of_another"))
    assert detect.gaudi_software()
    path.insert(0, package(tmp_path / "emulator" / "site"))
    assert not detect.gaudi_software()
