"""Examples of the libraries' own repositories, outside this tree: unmodified under the shim and migrated they do the same on hpu."""

from __future__ import annotations

import held
import pytest

pytestmark = pytest.mark.slow
EXAMPLES = list(held.examples())


def test_the_list_is_of_enough_examples() -> None:
    number = {name: sum(one.library == name for one in EXAMPLES) for name in {e.library for e in EXAMPLES}}  # fmt: skip
    least = {"accelerate": 5, "trl": 5, "lightning": 3, "lightning (Fabric)": 3, "diffusers": 3, "deepspeed": 2, "ray": 2}  # fmt: skip
    assert {name for name, wanted in least.items() if number.get(name, 0) < wanted} == set()


def test_a_row_says_whether_it_ran_how_it_compares_and_what_was_told() -> None:
    pair = {"steps": 3, "difference": None, "bit_for_bit": True, "notes": ["no mark_step | here"]}
    run = {"exit_code": 0, "first_loss": 2.0, "last_loss": 1.0}
    found = {
        "runs": [{**run, "way": "shim"}, {**run, "way": "native"}],
        "compute_on_hpu": 1.0,
        "comparisons": [{**pair, "first": "shim"}],
        "coverage": {
            "rewrites_run": 2,
            "findings_run": [{"code": "HPU706", "name": "diffusers"}] * 2,
        },
    }
    cells = held.row(EXAMPLES[0], found).split(" | ")[2:]
    assert cells[:4] == ["100.0%", "not compared", "bit for bit, 3 steps", "2.000000 to 1.000000"]
    assert cells[4] == "2 rewrites ran; no mark_step \\| here; HPU706 diffusers |"
    found["runs"][1]["exit_code"] = 1
    assert "no: migrated it ended with 1" in held.row(EXAMPLES[0], found)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name + " ".join(one.args[-2:]))
def test_example(example: held.Example) -> None:
    reason = held.missing(example)
    if reason:
        pytest.skip(reason)
    found = held.prove(example, 600)
    runs = {run["way"]: run for run in found.get("runs", ())}
    assert "shim" in runs and "native" in runs, found["said"]
    assert runs["native"]["exit_code"] == runs["shim"]["exit_code"] == 0, found["said"]
    assert found["compute_on_hpu"] > 0.99
    pairs = {pair["first"]: pair for pair in found["comparisons"]}
    assert [pair["difference"] for pair in pairs.values()] == [None] * len(pairs)
    assert pairs["shim"]["steps"]
    assert all(pairs["shim"][of] < 1e-12 for of in ("loss", "gradients", "parameters"))
    assert "cpu" in pairs or example.no_cpu
