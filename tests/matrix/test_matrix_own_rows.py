"""A project's own rows reach its code: names are found, renamed, and told with the file of the row."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target

ROWS = """
[[row]]
name = "ours.lib.to_gpu"
status = "renamed"
target = "ours.lib.to_hpu"
note = "Moves a batch to the card."

[[row]]
name = "ours.lib.fused_loss"
status = "unsupported"
note = "A CUDA kernel of ours; use ours.lib.loss."

[[row]]
name = "ours.lib.reduce"
status = "changed"
target = "ours.dist.reduce"
note = "Lives in ours.dist on Gaudi."

[[row]]
name = "torch.cuda.synchronize"
status = "noop"
note = "We never wait."
"""


@pytest.fixture
def rewrite(tmp_path: Path) -> object:
    own = tmp_path / "ours.toml"
    own.write_text(ROWS)
    matrix = load(extra=[own])

    def run(text: str, unsafe: bool = False) -> Settled:
        return settle(text, "python", "train.py", Context(Target(), matrix, unsafe=unsafe))

    return run


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import ours.lib\nx = ours.lib.to_gpu(b)\n", "import ours.lib\nx = ours.lib.to_hpu(b)\n"),
        (
            "from ours import lib as l\nx = l.to_gpu(b)\n",
            "from ours import lib as l\nx = l.to_hpu(b)\n",
        ),
        (
            "from ours.lib import to_gpu, other\nx = to_gpu(b)\n",
            "from ours.lib import to_hpu, other\nx = to_hpu(b)\n",
        ),
        (
            "from ours.lib import to_gpu as move\nx = move(b)\n",
            "from ours.lib import to_hpu as move\nx = move(b)\n",
        ),
    ],
)
def test_a_renamed_name_is_rewritten(rewrite: object, before: str, after: str) -> None:
    settled = rewrite(before)  # type: ignore[operator]
    assert settled.text == after
    assert {finding.code for finding in settled.findings} == {"HPU021"}
    assert rewrite(after).findings == ()  # type: ignore[operator]


def test_a_finding_names_the_file_of_its_row(rewrite: object) -> None:
    (finding,) = rewrite("import ours.lib\nours.lib.fused_loss(a)\n").findings  # type: ignore[operator]
    assert finding.message == (
        "`ours.lib.fused_loss`: A CUDA kernel of ours; use ours.lib.loss (row of ours.toml)"
    )
    assert (finding.severity, finding.safety, finding.row) == (
        "error",
        "manual",
        "ours.lib.fused_loss",
    )


def test_a_row_that_overrides_a_shipped_one_is_named_too(rewrite: object) -> None:
    text = "import torch\ntorch.cuda.synchronize()\ntorch.cuda.is_available()\n"
    messages = {
        finding.row: finding.message
        for finding in rewrite(text).findings  # type: ignore[operator]
    }
    assert messages["torch.cuda.synchronize"].endswith("(row of ours.toml)")
    assert "ours.toml" not in messages["torch.cuda.is_available"]


def test_a_target_elsewhere_is_shown_only(rewrite: object) -> None:
    text = "import ours.lib\nours.lib.reduce(a)\n"
    settled = rewrite(text, unsafe=True)  # type: ignore[operator]
    assert settled.text == text
    assert [finding.safety for finding in settled.findings] == ["manual"]


def test_names_of_others_stay(rewrite: object) -> None:
    text = "from theirs.lib import to_gpu\nto_gpu(b)\nself.to_gpu(b)\n"
    assert rewrite(text).text == text  # type: ignore[operator]
    assert rewrite(text).findings == ()  # type: ignore[operator]


def test_the_commands_use_the_rows_of_the_project(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from hpushim.cli import cli

    (tmp_path / "pyproject.toml").write_text('[tool.hpushim]\nmatrix = ["ours.toml"]\n')
    (tmp_path / "ours.toml").write_text(ROWS)
    script = tmp_path / "train.py"
    script.write_text("import ours.lib\n\nx = ours.lib.to_gpu(b)\n")
    checked = CliRunner().invoke(cli, ["check", str(tmp_path)], standalone_mode=False)
    assert checked.return_value == 1
    assert "(row of ours.toml)" in checked.stdout
    CliRunner().invoke(cli, ["migrate", "--allow-dirty", str(tmp_path)], standalone_mode=False)
    assert "ours.lib.to_hpu(b)" in script.read_text()
