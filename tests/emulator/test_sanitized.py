"""The command that runs the device under sanitizers sees what it is for."""

from __future__ import annotations

import subprocess

import pytest
import sanitized

from hpushim.emulator import compiling

pytestmark = pytest.mark.usefixtures("served")


@pytest.mark.parametrize("name", ["address", "thread"])
def test_each_fault_made_for_the_check_is_reported(name, tmp_path):
    kind = sanitized.KINDS[name]
    for library in kind.preloaded:
        asked = [compiling.compiler(), f"-print-file-name={library}"]
        if (
            subprocess.run(asked, capture_output=True, text=True, check=True).stdout
            == f"{library}\n"
        ):
            pytest.skip(f"the compiler has no {library}")
    assert kind.finds
    assert sanitized.blind_to(kind, tmp_path) == []


def test_reports_without_a_frame_of_the_device_are_left_out(tmp_path):
    line = "=" * 18
    (tmp_path / "report.1").write_text(
        f"{line}\nrace in csrc/memory.cpp:3\n{line}\nrace in torch\n"
    )
    assert sanitized.reports(tmp_path) == ["race in csrc/memory.cpp:3"]
