"""Small choices of the engine, each at its border: patterns of paths, what an undo leaves open, which changes belong together."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from codemods.execution import inference_loops
from hpushim.engine.files import ignore, journal
from hpushim.engine.python.module import Module
from hpushim.model import Target
from hpushim.prove import hunks


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("a/b", ["a/b"], ["a", "b", "a/b/c", "x/a/b"]), ("**/b", ["b", "a/b", "a/x/b"], ["b/c", "a"]), ("a/**", ["a/b", "a/b/c"], ["a", "b/a"]), ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/b"], ["a", "b", "a/b/c", "a/x"]), ("**/a/**/b", ["a/b", "x/a/y/b", "x/a/a/b"], ["a", "x/b"]),
        ("**", ["a", "a/b"], []), ("*/b", ["a/b"], ["b", "x/a/b"]), ("**/a/*/b", ["a/x/b", "a/a/x/b", "q/a/x/b"], ["a/b", "a/x/y/b"]), ("a/**/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/x"]), ("**/a/b/**", ["a/b/c", "x/a/b/c", "a/a/b/c"], ["a/b"]),
    ],
)  # fmt: skip
def test_which_paths_a_pattern_fits(pattern: str, fits: list[str], not_: list[str]) -> None:
    tokens = ignore._tokens(pattern)
    assert tokens is not None
    made = ignore._Path(tokens)
    assert [made.fits(path.split("/")) for path in (*fits, *not_)] == [True] * len(fits) + [False] * len(not_)  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "restored", "refused", "done"),
    [
        ("...", 3, [], ["dropped", "all dropped"]), ("r..", 2, ["refused"], ["kept 1", "finished"]), ("t..", 2, ["refused"], ["kept 1"]), ("tr.", 1, ["refused", "refused"], ["kept 2"]), ("rt.", 1, ["refused", "refused"], ["kept 2"]), ("rrr", 0, ["refused"] * 3, ["finished"]), ("ttt", 0, ["refused"] * 3, []),
        ("o..", 2, ["cannot be written: full"], ["kept 1", "finished"]),
    ],
)  # fmt: skip
def test_what_an_undo_leaves_open(monkeypatch: pytest.MonkeyPatch, ends: str, restored: int, refused: list[str], done: list[str]) -> None:  # fmt: skip
    said: list[str] = []

    class Entry:
        def __init__(self, number: int) -> None:
            self.number, self.path = number, f"f{number}.py"

    def put_back(project: Any, run: Any, entry: Entry, force: bool) -> None:
        made: dict[str, OSError] = {"r": journal.Refused("refused"), "t": journal.Torn("refused"), "o": OSError(28, "full")}  # fmt: skip
        if (error := made.get(ends[entry.number])) is not None:
            raise error

    class Home:
        project = None

        def drop(self, name: str) -> None:
            said.append("dropped")

        def drop_all(self) -> None:
            said.append("all dropped")

    monkeypatch.setattr(journal, "_put_back", put_back)
    monkeypatch.setattr(journal.runs, "reopen", lambda run: None)
    monkeypatch.setattr(journal.runs, "keep", lambda run, left: said.append(f"kept {len(left)}"))
    monkeypatch.setattr(journal.runs, "finish", lambda run: said.append("finished"))
    entries: Any = [Entry(n) for n in range(3)]
    found = journal._restored(Home(), "run", None, entries, entries, False)  # type: ignore[arg-type]  # fmt: skip
    assert (len(found.restored), [why for _, why in found.refused], said) == (restored, refused, done)  # fmt: skip


def test_changes_of_other_files_do_not_end_the_search_for_those_that_belong_together() -> None:
    def hunk(file: str, start: int, old: str, new: str) -> hunks.Hunk:
        return hunks.Hunk(file, start, start + 1, start, start + 1, (old,), (new,))

    some = [hunk("a.yaml", 0, "b: 1\n", "bb: 1\n"), hunk("t.py", 1, "b = 1\n", "bb = 1\n"), hunk("t.py", 5, "print(b)\n", "print(bb)\n"), hunk("u.py", 2, "b = 2\n", "c = 2\n")]  # fmt: skip
    parts = [[(one.file, one.start) for one in part] for part in hunks.units(some)]
    assert parts == [[("a.yaml", 0)], [("t.py", 1), ("t.py", 5)], [("u.py", 2)]]


@pytest.mark.parametrize(
    ("call", "computes"),
    [("torch.ones(2)", True), ("torch.manual_seed(0)", False), ("torch.cat([tensor])", True), ("print(torch.ones(2))", False), ("math.sqrt(2)", False), ("mine.ones(2)", False), ("tensor.cpu()", False)],
)  # fmt: skip
def test_a_function_of_torch_that_gives_a_tensor_computes(call: str, computes: bool) -> None:
    module = Module(f"import torch, math, mine\ntensor = torch.zeros(1).cuda()\nx = {call}\n", "a.py", Target(), None)  # type: ignore[arg-type]  # fmt: skip
    last = module.tree.body[-1]
    assert isinstance(last, ast.Assign) and isinstance(last.value, ast.Call)
    assert inference_loops._computes(module, last.value) is computes
