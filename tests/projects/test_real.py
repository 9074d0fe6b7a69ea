"""The proof on real repositories, as far as this machine has them (see real.py)."""

from __future__ import annotations

from pathlib import Path

import made_data
import pytest
import recipes
import trial
from verdict import Verdict, coverage, sums, table

PLACE = recipes.Place.from_environment()
WORKLOADS = recipes.workloads()


@pytest.mark.skipif(
    PLACE is None,
    reason="HPUSHIM_CORPORA and HPUSHIM_CORPORA_DATA do not say where repositories are",
)
@pytest.mark.slow
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)
def test_trains_as_on_cpu(work: recipes.Workload, tmp_path: Path) -> None:
    assert PLACE is not None
    verdict = trial.Trial(work, PLACE, tmp_path).prove()
    if verdict.skipped:
        pytest.skip(verdict.skipped)
    assert not verdict.wrong, "\n".join(verdict.wrong)


def test_recipes_are_complete() -> None:
    names = [work.name for work in WORKLOADS]
    assert len(set(names)) == len(names)
    for work in WORKLOADS:
        assert "<n>" in work.loss, work.name
        assert work.within <= 1e-4 or work.why, f"{work.name}: say why {work.within} is allowed"


def test_a_proof_is_taken_up_again(tmp_path: Path) -> None:
    path = tmp_path / "mnist.json"
    good = Verdict("mnist", {"shim": "0.0e+00", "shim on hpu": "100.0%", "unhandled": "0"})
    good.keep(path, "commit recipe")
    assert Verdict.kept(path, "commit recipe") == good
    assert Verdict.kept(path, "commit other recipe") is None
    Verdict("mnist", wrong=["loss"]).keep(path, "commit recipe")
    assert Verdict.kept(path, "commit recipe") is None, "a failure is tried again"


def test_the_summary_counts_every_outcome() -> None:
    verdicts = [
        Verdict("a", {"shim": "1.0e-03", "shim on hpu": "99.5%", "unhandled": "0"}),
        Verdict("b", {"native": "failed", "unhandled": "2"}, wrong=["exit code 1"]),
        Verdict("c", {"shim": "refused"}, refused="HPU124"),
        Verdict("d", skipped="needs gym"),
    ]
    assert [verdict.outcome for verdict in verdicts] == [
        "ok", "FAILED", "refused HPU124", "skipped: needs gym",
    ]  # fmt: skip
    assert sums(verdicts) == (
        "4 workloads: 1 ok, 1 refused, 1 FAILED, 1 skipped; "
        "largest difference 1.0e-03, smallest share on hpu 99.5%, unhandled CUDA calls 2"
    )
    assert len(table(verdicts).splitlines()) == 6
    shown = coverage(["x+one", "x+two"], [("x+one", "a")], {"x+two": "needs data"})
    assert "| x/one | a | – |" in shown and "| x/two | – | needs data |" in shown


def test_every_repository_without_a_recipe_says_why() -> None:
    if PLACE is None:
        pytest.skip("HPUSHIM_CORPORA does not say where repositories are")
    known = {work.repo for work in WORKLOADS} | set(recipes.absent())
    assert set(PLACE.repositories()) <= known


def test_an_edit_that_fits_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("steps = 100\nx = model.cuda(int(rank))\n")
    assert list(trial.edited(tmp_path, ("train.py", r"steps = \d+", "steps = 2"))) == [
        ("train.py", "steps = 2\nx = model.cuda(int(rank))\n")
    ]
    with pytest.raises(ValueError, match="epochs"):
        list(trial.edited(tmp_path, ("train.py", "epochs", "")))


@pytest.mark.parametrize("kind", sorted(made_data.MAKERS))
def test_data_are_made(kind: str, tmp_path: Path) -> None:
    made_data.MAKERS[kind](tmp_path / "made")
    files = [path for path in (tmp_path / "made", *tmp_path.rglob("*")) if path.is_file()]
    assert files
