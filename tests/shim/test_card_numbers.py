"""A card that is not here: every way of asking for it answers for the one card and says so once (HPU121), or is refused with a code."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import warm

torch = pytest.importorskip("torch", reason="the shim needs torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)

HERE = Path(__file__).parent


def run(*arguments: str, **variables: str) -> str:
    """The last line that the program of this folder prints, under the shim on an emulated card."""
    done = warm.run(
        [sys.executable, *arguments],
        env={**os.environ, "HPUSHIM": "emulate", "HPUSHIM_LOG": "quiet", "PYTHONPATH": str(HERE.parents[1]), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@cache
def ways() -> dict[str, tuple[int, str, list[str]]]:
    """For each way: the number of the card, what was answered, what HPU121 said of the number."""
    rows: dict[str, tuple[int, str, list[str]]] = json.loads(
        run(str(HERE / "card_numbers_script.py"))
    )
    return rows


def test_every_way_is_told_once_or_refused() -> None:
    silent = {
        name: (answer, told)
        for name, (_, answer, told) in ways().items()
        if len(told) != 1 and not re.match(r"UnsupportedOnHpu: HPU\d{3} ", answer)
    }
    assert silent == {}


def test_every_way_has_the_same_answer() -> None:
    texts = {re.sub(r"cuda:\d+", "cuda:N", told[0]) for _, _, told in ways().values() if told}
    assert texts == {
        "cuda:N runs on hpu:0, the one device of this process; only 1 device is here, so CUDA would raise an invalid device ordinal"
    }
    failed = {name: answer for name, (_, answer, told) in ways().items() if told and re.match(r"\w+Error: (?!HPU)", answer)}  # fmt: skip
    assert failed == {}


def test_the_walk_finds_what_takes_a_card() -> None:
    walked = [name for name in ways() if name.startswith("torch.cuda")]
    assert len(walked) >= 35
    assert {"torch.cuda.Stream", "torch.cuda.memory_allocated", "torch.cuda.device", "torch.cuda.set_rng_state"} <= set(walked)  # fmt: skip


@pytest.mark.parametrize(
    "call", ["synchronize", "memory_allocated", "get_device_name", "current_stream", "Stream"]
)
def test_a_device_of_another_kind_is_torchs_error(call: str) -> None:
    code = (
        "import hpushim; hpushim.activate(); import torch\n"
        f"try: torch.cuda.{call}(torch.device('cpu'))\n"
        "except ValueError as error: print(error)"
    )
    assert run("-c", code) == "Expected a cuda device, but got: cpu"


def test_the_card_of_its_own_rank_is_not_told() -> None:
    code = (
        "import hpushim; hpushim.activate(); import torch\n"
        "from hpushim.shim import log\n"
        "torch.cuda.memory_allocated(3), torch.zeros(1, device='cuda:3'), torch.cuda.Stream(3)\n"
        "print([one['text'] for one in log.fired() if one['code'] == 'HPU121'])"
    )
    assert run("-c", code, LOCAL_RANK="3") == "[]"
