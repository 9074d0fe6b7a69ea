"""The runner of torch's own device-type tests: its counts, its table, and a sample where torch's test folder is at hand."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
import torch_suite

pytestmark = pytest.mark.usefixtures("served")

pytest.importorskip("expecttest", reason="torch's test library needs the package expecttest")

WRITTEN_FOR_ANY_DEVICE = """
    import os
    import torch
    from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA
    from torch.testing._internal.common_utils import TestCase, notThere

    class TestAny(TestCase):
        def test_passes(self, device):
            self.assertEqual(torch.ones(3, device=device).sum().item(), 3)

        @notThere
        def test_differs(self, device):
            self.assertEqual(torch.ones(1, device=device).device.type, "cpu")

        def test_sparse(self, device):
            torch.ones(2, 2, device=device).to_sparse()

        def test_fails_anywhere(self, device):
            self.assertEqual(torch.ones(1, device=device).item(), 2)

        @onlyCUDA
        def test_other_device(self, device):
            raise AssertionError

        def test_ends_the_process(self, device):
            if device != "cpu":
                os._exit(3)

    instantiate_device_type_tests(TestAny, globals())
"""


def test_what_passes_fails_and_is_explained_is_counted_apart(tmp_path: Path):
    (tmp_path / "test_any.py").write_text(textwrap.dedent(WRITTEN_FOR_ANY_DEVICE))
    counts = torch_suite.run_file(
        "test_any.py", torch_suite.Options(tmp_path), torch_suite.expected_differences()
    )
    assert counts.problem == ""
    assert (counts.tests, counts.passed) == (6, 1)
    assert {name.split(".")[1]: reason.split(":")[0] for name, reason in counts.failed} == {
        "test_differs_hpu": "failed",
        "test_ends_the_process_hpu": "crashed",
    }
    assert [name for name, _ in counts.expected] == ["TestAnyHPU.test_sparse_hpu"]
    assert [name for name, _ in counts.cpu_too] == ["TestAnyHPU.test_fails_anywhere_hpu"]
    assert list(counts.skipped.values()) == [1]


def test_every_expected_difference_has_a_reason_and_its_row_exists():
    from hpushim.matrix import load

    matrix = load()
    names = {row.name for row in matrix.rows}
    for entry in torch_suite.expected_differences():
        assert entry["reason"]
        assert entry.keys() <= {"test", "message", "reason", "row"}
        assert len(entry) > 1
        assert entry.get("row", "torch.sparse_coo_tensor") in names


@pytest.mark.slow
@pytest.mark.parametrize("file", ["test_view_ops.py", "test_indexing.py", "test_reductions.py"])
def test_a_sample_of_torchs_own_suite(file: str):
    where = os.environ.get("HPUSHIM_TORCH_TESTS", "")
    if not (Path(where) / file).is_file() or not where:
        pytest.skip(f"HPUSHIM_TORCH_TESTS names no folder with torch's own {file}")
    options = torch_suite.Options(Path(where).resolve(), every=30)
    counts = torch_suite.run_file(file, options, torch_suite.expected_differences())
    assert counts.problem == ""
    assert counts.passed > 0
    assert counts.failed == []
