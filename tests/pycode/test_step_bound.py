"""The bound of the work on one file: it is named, the others go on, and under `hpushim run` it stays as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hpushim.cli.output import exit_code
from hpushim.engine.project import analyse, migrate
from hpushim.model import Target
from hpushim.pycode import steps
from hpushim.pycode.source import Source
from hpushim.shim.run import compiling

LONG = "import torch\ndef f(x):\n" + '    if x.device.type == "cuda": x = x.cuda()\n' * 50
SHORT = "import torch\nx = torch.ones(2).cuda()\n"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that the short file keeps to and the long one does not."""
    monkeypatch.setattr(steps, "_STEPS", 300)
    monkeypatch.setattr(steps, "_STEPS_PER_BYTE", 0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("work", [analyse, lambda *a: migrate(*a, write=False)])
def test_the_file_is_named_and_the_others_go_on(tmp_path: Path, work: object) -> None:
    (tmp_path / "long.py").write_text(LONG)
    (tmp_path / "short.py").write_text(SHORT)
    report = work([tmp_path], Target())  # type: ignore[operator]
    long, short = report.files
    assert (long.status, [f.code for f in long.findings]) == ("failed", ["HPU002"])
    assert long.reason == "takes more than 300 steps to look at; not changed"
    assert [f.code for f in short.findings] == ["HPU102"]
    assert exit_code(report) == 3


@pytest.mark.usefixtures("few")
def test_a_module_that_is_run_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[object, ...]] = []
    monkeypatch.setattr(compiling.log, "warn", lambda *words, at: said.append((*words, at)))
    assert ast.dump(compiling.parsed("a.py", LONG.encode())) == ast.dump(ast.parse(LONG))
    why = "takes more than 300 steps to look at: its comparisons with 'cuda' are not rewritten"
    assert said == [("HPU107", why, ("a.py", 1))]


@pytest.mark.usefixtures("few")
def test_what_a_file_asks_of_its_tree_is_counted() -> None:
    source = Source(LONG)
    names = source.index.names("x")
    assert source.steps.taken == len(names)
    with pytest.raises(steps.TooManySteps):
        for name in names:
            list(source.ancestors(name))


def test_the_bound_grows_with_the_file() -> None:
    assert Source(SHORT * 100).steps.most > Source(SHORT).steps.most
