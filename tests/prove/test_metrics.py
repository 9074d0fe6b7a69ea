"""What a script prints and logs, as numbers with names: which count, how they are compared."""

from __future__ import annotations

import pytest

from hpushim.prove import metrics
from hpushim.prove.records import Record
from hpushim.prove.runs import Run


def _run(output: str = "", logs: dict[str, str] | None = None, **recorded: object) -> Run:
    return Run("shim", "shim", (), 0, 1.0, output, "", Record(**recorded), logs or {})  # type: ignore[arg-type]


def _odd(first: Run, second: Run, limit: float = 1e-6, **how: int) -> list[str]:
    found = metrics.odd(metrics.of(first), metrics.of(second), limit, **how)
    return [f"{one.name}: {one.found:g} for {one.expected:g}" for one in found]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("epoch 3: val loss 0.50", "epoch 3: val loss 0.60", ["'val loss': 0.6 for 0.5"]),
        ("loss=0.1234", "loss=0.1235", []),  # the last place
        ("loss=0.1234", "loss=0.1237", ["'loss': 0.1237 for 0.1234"]),
        ("acc 95 of 100", "acc 94 of 100", ["'acc': 94 for 95"]),
        ("loss 1.5 time 0.3 s", "loss 1.5 time 0.9 s", []),
        ("loss 1.5, time 33.2ms", "loss 3.5, time 41.7ms", ["'loss': 3.5 for 1.5"]),
        ("throughput: 300.5", "throughput: 10.5", []),
        ("3.5 it/s, 12.25 MB", "1.5 it/s, 2.25 MB", []),
        ("2026-11-23 17:01:02,5 start", "2026-11-24 18:09:59,7 start", []),
        ("saved /out/run12/x3.pt", "saved /out/run13/x4.pt", []),
        ("on cuda:0 loss 2.0", "on hpu:0 loss 3.0", ["'on <device> loss': 3 for 2"]),
        ("other 1.0", "words 2.0", []),
        ("loss nan", "loss nan", []),
    ],
)
def test_numbers_are_compared_by_the_text_around_them(
    first: str, second: str, expected: list[str]
) -> None:
    assert _odd(_run(first), _run(second)) == expected


@pytest.mark.parametrize("label", ["", "costs ", "epoch 3 took "])
@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("00: 00: 01", "00: 00: 31"),
        ("00 : 01 : 01", "01 : 00 : 31"),
        ("0:00:01", "0:00:31"),
        ("1h 2m 3s", "1h 3m 9s"),
        ("00h:00m:03s", "00h:01m:03s"),
        ("time cost: 3", "time cost: 9"),
        ("time used 3", "time used 9"),
        ("time taken is 3", "time taken is 9"),
        ("spent 3", "spent 9"),
        ("takes 3", "takes 9"),
    ],
)
def test_what_a_device_takes_longer_for_is_no_metric(label: str, short: str, long: str) -> None:
    """A slower device repeats its own whole seconds, so that measuring again does not show that they are times."""
    found = _odd(_run(f"loss 0.5 {label}{short}"), _run(f"loss 0.7 {label}{long}"))
    assert found == ["'loss': 0.7 for 0.5"]


def test_logs_are_read_as_json_lines_and_as_tables() -> None:
    lines = '{{"step": 1, "loss": 2.5, "time": {0}}}\n{{"step": 2, "loss": {1}, "time": 9}}\n'
    first = _run(logs={"log.jsonl": lines.format(1, 2.25), "a.csv": "step,loss\n1,0.5\n2,0.25\n"})
    second = _run(logs={"log.jsonl": lines.format(7, 2.75), "a.csv": "step,loss\n1,0.5\n2,0.75\n"})
    found = list(metrics.odd(metrics.of(first), metrics.of(second), 0.01))
    assert [(one.where, one.line) for one in found] == [("a.csv", 3), ("log.jsonl", 2)]
    assert [one.name for one in found] == ["'loss'", "'loss'"]


def test_what_a_logging_library_was_given_is_compared_too() -> None:
    first = _run(scalars=[("train/loss", 2.0, 7), ("train/loss", 1.0, 7)])
    second = _run(scalars=[("train/loss", 2.0, 7), ("train/loss", 1.5, 7)])
    assert _odd(first, second) == ["'train/loss': 1.5 for 1"]


def test_ranks_write_in_any_order_and_a_sum_is_no_average() -> None:
    first, turned, summed = "loss 1.0\nloss 3.0", "loss 3.0\nloss 1.0", "loss 2.0\nloss 6.0"
    assert _odd(_run(first), _run(turned), ranks=2) == []
    assert _odd(_run(first), _run(turned)) == ["'loss': 3 for 1"]
    assert _odd(_run(first), _run(summed), ranks=2) == ["'loss': 2 for 1"]


def test_on_another_device_whole_numbers_may_count_cards() -> None:
    first, second = _run("cards 0 loss 1.0"), _run("cards 1 loss 2.0")
    found = list(metrics.odd(metrics.of(first), metrics.of(second), 0.0, decimals=True))
    assert [one.found for one in found] == [2.0]
