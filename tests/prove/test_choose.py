"""``hpushim migrate --prove``: which unsafe rewrites are kept, how many proofs that needs, what is written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import warm

from hpushim.model import Edit, FileResult, Finding, Fix, Origin, Report, Span, Target
from hpushim.prove import choose
from hpushim.prove.choose import Candidate
from hpushim.prove.covered import Coverage
from hpushim.prove.trial import Outcome

TRAIN = """\
import sys

import torch
import torch.nn as nn


class Wrapped:
    def __init__(self, data):
        self.data = data

    def cuda(self):
        return Wrapped(self.data.cuda())

    def to(self, device):
        return Wrapped(self.data.to(device))


def put(thing):
    return thing.cuda()


device = torch.device("cuda")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    x = vars()["put"](torch.ones(8, 8))
    scale = torch.rand(8, 4, device="cuda").half()
    loss = (model(x) * scale.float()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if len(sys.argv) > 2:
    model.half()
"""


def _hpushim(*words: str, cwd: Path) -> Any:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    return warm.run(
        [sys.executable, "-m", "hpushim", *words],
        cwd=cwd,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


#: Its CPU run is in float32; on hpu the last lines fail, for NumPy has no bfloat16.
READ = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        y = model(torch.randn(8, 8).to(device))
        loss = y.square().mean()
    loss.backward()
    optimizer.step()
print(f"mean {y.detach().cpu().numpy().mean():.3f}")
with open("least.txt", "a") as log:
    log.write(f"{y.detach().cpu().numpy().min():.6f}\\n")
"""


def test_a_rewrite_without_which_the_script_fails_on_hpu_is_kept(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(READ)
    proof = tmp_path / "proof.json"
    done = _hpushim("migrate", "--certificate", str(proof), "--prove", "train.py", cwd=project)
    assert (project / "train.py").read_text().count(".cpu().float().numpy()") == 2, done.stderr
    found = json.loads(proof.read_text())
    fates = [one["fate"] for one in found["unsafe_rewrites"]]
    assert (found["verdict"], fates) == ("equal within", ["kept", "kept"])
    first, *others = [row["notes"] for row in found["comparisons"]]
    assert first[0].startswith("the original fails on hpu, and the copy goes on: TypeError")
    assert others[-1] == ["both without autocast"]


def test_what_a_few_steps_cannot_show_is_not_kept(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    loader = "from torch.utils.data import DataLoader\nloader = DataLoader(torch.ones(8, 8), batch_size=4, shuffle=True)\n"
    text = TRAIN.replace("for step in range(3):\n", f"{loader}for step, _ in enumerate(loader):\n")
    (project / "train.py").write_text(text)
    proof = tmp_path / "proof.json"
    _hpushim("migrate", "--no-cpu", "--certificate", str(proof), "--prove", "train.py", cwd=project)
    found = {one["code"]: one for one in json.loads(proof.read_text())["unsafe_rewrites"]}
    assert (
        found["HPU526"]["fate"] == "not tested" and "depends on the data" in found["HPU526"]["why"]
    )
    assert "drop_last" not in (project / "train.py").read_text()


def test_what_is_equal_is_kept_and_undone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    proof = tmp_path / "proof.json"
    words = ("--no-cpu", "--certificate", str(proof), "--prove", "train.py", "--steps")
    done = _hpushim("migrate", *words, cwd=project)
    migrated = (project / "train.py").read_text()
    assert 'return thing.to("hpu")' in migrated, done.stderr
    assert '"hpu").half()' in migrated and "model.half()" in migrated
    fates = {one["line"]: one["fate"] for one in json.loads(proof.read_text())["unsafe_rewrites"]}
    lines = [TRAIN.splitlines().index(text) + 1 for text in ("    return thing.cuda()", "    model.half()")]  # fmt: skip
    assert [fates.pop(line) for line in lines] == ["kept", "did not run"]
    assert list(fates.values()) == ["taken back"]
    assert "1 kept, 1 taken back, 0 not tested, 1 did not run; 5 runs" in done.stdout
    again = json.loads(proof.read_text())["again"]
    assert again == "hpushim migrate --no-cpu --prove train.py --steps"
    assert _hpushim("migrate", "--undo", cwd=project).returncode == 0
    assert (project / "train.py").read_text() == TRAIN


Judge = Callable[[frozenset[str]], str]


def _chosen(monkeypatch: pytest.MonkeyPatch, names: str, assess: Judge) -> tuple[str, int, int]:
    """The candidates that are kept, by letters, the runs, and how many have a reason."""
    choice = _choice(monkeypatch, names, assess)
    kept = "".join(one.code for one in choice.candidates if one.fate == "kept")
    assert not any(one.fate == "did not run" for one in choice.candidates)
    return kept, choice.runs, sum(bool(one.why) for one in choice.candidates)


def _candidates(monkeypatch: pytest.MonkeyPatch, names: str, assess: Judge) -> Sequence[Candidate]:
    return _choice(monkeypatch, names, assess).candidates


def _choice(monkeypatch: pytest.MonkeyPatch, names: str, assess: Judge) -> choose.Choice:
    def prove(request: Any, say: Any) -> Outcome:
        made = request.unsafe or frozenset()
        verdict: Any = assess(frozenset(one.code for one in made))
        runs: Any = [_Run(), _Run()]
        return Outcome(verdict, "why", Path(), runs, [], Coverage(), None, None, None)  # type: ignore[arg-type]

    candidates = [
        Candidate("a.py", 1, name, name, origins=[Origin("a.py", name, 1)]) for name in names
    ]
    monkeypatch.setattr(choose, "prove", prove)
    monkeypatch.setattr(choose, "_all_made", lambda request: None)
    monkeypatch.setattr(choose, "_candidates", lambda report: candidates)
    monkeypatch.setattr(choose.covered, "wanted", lambda report: _Wanted())
    monkeypatch.setattr(choose.covered, "covered", lambda *_: Coverage(rewrites_run=candidates))  # type: ignore[arg-type]
    from hpushim.prove.trial import Request
    from hpushim.prove.words import parse

    return choose.choose(Request(command=parse(("a.py",))))


class _Run:
    class record:
        lines: ClassVar[set[Any]] = set()
        files: ClassVar[set[Any]] = set()


class _Wanted:
    lines: ClassVar[dict[str, Any]] = {}


def _unless(*bad: str) -> Judge:
    return lambda made: "different" if made & set(bad) else "equal"


def test_all_together_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chosen(monkeypatch, "abcdefgh", _unless()) == ("abcdefgh", 3, 0)


@pytest.mark.parametrize(("bad", "runs"), [("a", 9), ("h", 6), ("ah", 11)])
def test_then_divided(monkeypatch: pytest.MonkeyPatch, bad: str, runs: int) -> None:
    kept = "".join(name for name in "abcdefgh" if name not in bad)
    assert _chosen(monkeypatch, "abcdefgh", _unless(*bad)) == (kept, runs, len(bad))


def test_two_that_differ_only_together(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, _, taken = _chosen(
        monkeypatch, "abcd", lambda made: "different" if {"a", "d"} <= made else "equal"
    )
    assert (kept, taken) == ("abc", 1)


def test_a_copy_that_needs_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def assess(made: frozenset[str]) -> str:
        return "equal" if "c" in made and "a" not in made else "different"

    kept, _, taken = _chosen(monkeypatch, "abcd", assess)
    assert (kept, taken) == ("bcd", 1)


def test_none_is_kept_where_none_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chosen(monkeypatch, "abcd", lambda made: "different")[0] == ""
    assert _chosen(monkeypatch, "abcd", lambda made: "not proved") == ("", 2, 4)


def test_what_ran_and_was_not_tried_did_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for verdict in ("not proved", "not distinguishable"):
        some = _candidates(monkeypatch, "ab", lambda made, verdict=verdict: verdict)
        assert {one.fate for one in some} == {"not tested"}
        assert {one.why for one in some} == {f"with the safe rewrites alone: {verdict}: why"}


def test_parts_that_need_each_other_say_why_they_fail_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def assess(made: frozenset[str]) -> str:
        return {0: "equal", 1: "different"}.get(len(made), "not distinguishable")

    some = _candidates(monkeypatch, "ab", assess)
    assert {one.why for one in some} == {"different: why; all together: not distinguishable: why"}


def test_what_all_rewrites_would_make_is_asked_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from hpushim.engine import project
    from hpushim.prove.trial import Request
    from hpushim.prove.words import parse

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").touch()
    monkeypatch.chdir(tmp_path / "sub")
    asked: list[Any] = []
    files = (FileResult("sub/a.py", "changed"), FileResult("sub/b/c.py", "changed"))

    def migrate(*given: Any, **how: Any) -> Report:
        asked.append((given, how))
        return Report("hpushim", Target(), files, root=str(tmp_path))

    monkeypatch.setattr(project, "migrate", migrate)
    matrix: Any = object()
    request = Request(command=parse(("a.py",)), matrix=matrix, select=("A",), ignore=("B",), exclude=("c",))  # fmt: skip
    found = choose._all_made(request)
    folder = tmp_path / "sub"
    assert asked == [(((folder,), Target()), {"matrix": matrix, "select": ("A",), "ignore": ("B",), "exclude": ("c",), "unsafe": True, "write": False})]  # fmt: skip
    assert ([file.path for file in found.files], found.root) == (["a.py", "b/c.py"], str(folder))


def test_unsafe_rewrites_that_are_made_together_are_one_candidate() -> None:
    def finding(code: str, start: int, safety: Any = "unsafe", applied: bool = True, fix: bool = True, edits: tuple[int, ...] = (1,)) -> Finding:  # fmt: skip
        made = Fix("t", safety, tuple(Edit(Span(at, at + 1), "x", "y") for at in edits)) if fix else None  # fmt: skip
        return Finding(code, "n", "warning", safety, "m", Span(start, start + 1), start, 1, start, 2, fix=made, applied=applied)  # fmt: skip

    text = b"x = 1\ny = 2\nz = 3\n"
    some = (finding("HPU101", 2), finding("HPU102", 3, "safe"), finding("HPU103", 4, applied=False), finding("HPU003", 5), finding("HPU104", 6, fix=False))  # fmt: skip
    report = Report("hpushim", Target(), (FileResult("a.py", "changed", None, some, text, text), FileResult("n.ipynb", "changed", None, (finding("HPU101", 2), finding("HPU105", 9)), text, text)))  # fmt: skip
    found = choose._candidates(report)
    assert [(one.file, one.line, one.code, one.name, one.fate) for one in found] == [("a.py", 2, "HPU101", "n", "did not run"), ("a.py", 6, "HPU104", "n", "did not run"), ("n.ipynb", 2, "HPU101", "n", "did not run")]  # fmt: skip
    assert [one.origins for one in found] == [[Origin("a.py", "HPU101", 2)], [Origin("a.py", "HPU104", 6)], [Origin("n.ipynb"), Origin("n.ipynb")]]  # fmt: skip
