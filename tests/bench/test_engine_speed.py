"""What the engine costs next to ``ast.parse`` of the same text: ratios and counts, no seconds.

The bounds are about three times what was measured when they were written, so that a busy machine does not fail
them and a walk that became quadratic does.
"""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpushim.engine import assess, one_file
from hpushim.engine.context import Context
from hpushim.engine.project import analyse, migrate
from hpushim.engine.python.module import Module
from hpushim.matrix import load
from hpushim.model import Target

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Some thousand lines of Python: this repository's own, and its demo project of CUDA code."""
    files = [
        *sorted((ROOT / "hpushim").rglob("*.py")),
        *sorted((ROOT / "tests/projects").rglob("*.py")),
    ]
    return [text for file in files if (text := file.read_text(encoding="utf-8")).strip()]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing but the work itself is measured."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def ratio(work: Callable[[str], object], texts: list[str]) -> float:
    """CPU time of ``work`` over that of ``ast.parse``, the best of three turns each, in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(3):
        for place, call in enumerate((ast.parse, work)):
            begin = time.process_time()
            for text in texts:
                call(text)
            best[place] = min(best[place], time.process_time() - begin)
    return best[1] / best[0]


@pytest.mark.bench
def test_names_and_scopes_cost_little_more_than_the_parser(texts: list[str]) -> None:
    matrix = load()
    assert ratio(lambda text: Module(text, "a.py", Target(), matrix), texts) < 4


@pytest.mark.bench
def test_all_rules_cost_a_few_times_the_parser(texts: list[str]) -> None:
    context = Context(Target(), load())
    kept = [text for text in texts if assess.interesting(text.encode(), "python", "a.py")]
    assert ratio(lambda text: one_file.examine(text, "python", "a.py", context), kept) < 8


@pytest.mark.bench
def test_cost_grows_with_the_text_and_no_faster() -> None:
    context = Context(Target(), load())
    part = (
        "def step_{n}(model, x, device='cuda:0'):\n"
        "    if torch.cuda.is_available():\n        x = x.cuda()\n"
        "    with torch.cuda.amp.autocast():\n        loss = model(x.to(device))\n"
        "    loss.backward()\n    optimizer.step()\n    return loss.item()\n\n\n"
    )

    def cost(count: int) -> float:
        text = "import torch\n" + "".join(part.format(n=n) for n in range(count))
        return ratio(lambda one: one_file.examine(one, "python", "a.py", context), [text])

    assert cost(400) < 4 * cost(50)


def test_a_file_is_parsed_once_to_check_and_twice_to_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text("import os\n" * 50)
    (tmp_path / "cuda.py").write_text("import torch\nx = torch.zeros(2).cuda()\n")
    parsed: list[str] = []

    class Counted(Module):
        def __init__(self, text: str, path: str, *rest: object) -> None:
            parsed.append(path)
            super().__init__(text, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(assess, "Module", Counted)
    analyse([tmp_path], Target(), jobs=1)
    assert parsed == ["cuda.py"]
    parsed.clear()
    report = migrate([tmp_path], Target(), write=False, jobs=1)
    assert [item.status for item in report.files] == ["changed", "unchanged"]
    assert parsed == ["cuda.py"] * 2
