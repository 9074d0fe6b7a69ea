"""The examples of the pages run on the emulated HPU: what `before` does under the shim, `after` does natively.

``python tests/rules/test_pages_run.py [STEM]`` prints the counts and what differs.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warm

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.rules import page as pages
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Target

RUNNER = Path(__file__).parent / "page_runner.py"


class Example(NamedTuple):
    """A pair of `before` and `after` of a page, made whole by the `run` block behind it."""

    key: str
    before: str
    after: str
    given: tuple[str, ...]
    lazy: bool
    #: Not empty: a package, or something that no emulation gives, without which it cannot run.
    needs: str
    #: The error that `before` ends with on Gaudi, where the page is about that.
    raises: str
    #: What the two may differ in: names, or ``printed``.
    apart: frozenset[str]
    framed: bool


def _planted(number: int, before: str, after: str) -> Example:
    above = "import torch\n"
    return Example(f"planted:{number}", above + before, above + after, (), True, "", "", frozenset(), True)  # fmt: skip


#: Pairs that do not do the same.
PLANTED = tuple(
    _planted(number, before, after)
    for number, (before, after) in enumerate(
        [
            ("x = torch.ones(2).cuda()", "x = torch.ones(2)"),
            ("x = torch.ones(2)", "x = torch.ones(2) * 2"),
            ("print(1)", "print(2)"),
            ("x = 1", "y = 1"),
            ("x = 1", "x = torch.ones(2).cuda()"),
        ]
    )
)


@cache
def examples() -> tuple[Example, ...]:
    """Every pair of Python blocks, in the order of the pages."""
    found = []
    files = [file for path in pages.pages().values() for file in pages.with_cases(path)]
    for path in files:
        blocks = [
            b for b in pages.read(path).blocks if b.role in ("before", "after", "run", "same")
        ]
        for place, block in enumerate(blocks):
            if block.role != "before" or block.language != "python":
                continue
            behind = blocks[place + 2] if place + 2 < len(blocks) else None
            run = behind if behind is not None and behind.role == "run" else None
            frame = run.text if run else "...\n"
            options = run.options if run else {}
            found.append(
                Example(
                    f"{path.stem}:{block.line}",
                    whole(frame, block.text),
                    whole(frame, blocks[place + 1].text),
                    tuple(filter(None, options.get("with", "").split(","))),
                    options.get("mode", block.options.get("mode", "lazy")) == "lazy",
                    block.options.get("needs", ""),
                    options.get("raises", ""),
                    frozenset(options.get("except", "").split(",")),
                    run is not None,
                )
            )
    return tuple(found)


def whole(frame: str, example: str) -> str:
    """The program: the `run` block with the example in the place of its line ``...``."""
    above, dots, below = ("\n" + frame).partition("\n...\n")
    assert dots, f"a `run` block needs a line `...` for the example: {frame}"
    return f"{above[1:]}\n{example}{below}" if above else f"{example}{below}"


def missing(one: Example) -> str:
    """What the example needs and is not here."""
    return "" if not one.needs or importlib.util.find_spec(one.needs) else one.needs


@cache
def outcomes(way: str, lazy: bool) -> dict[str, Any]:
    """Key → what `before` (way ``shim``) or `after` (``native``) said: as it was kept, or by one process for all the others."""
    cases = {
        one.key: [_program(one, way), list(one.given)]
        for one in (*examples(), *PLANTED)
        if one.lazy is lazy and not missing(one) and (way != "agnostic" or _is_rewritten(one))
    }
    way = "shim" if way == "shim" else "native"  # what two forms of it have in common runs once
    marks = {key: _mark(way, lazy, _sources(), *case) for key, case in cases.items()}
    kept = {} if os.environ.get("HPUSHIM_TESTS") == "all" else _kept()
    asked = {mark: (mark, *cases[key]) for key, mark in marks.items() if mark not in kept}
    answers = {**kept, **(_said(way, lazy, list(asked.values())) if asked else {})}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(answers), encoding="utf-8")
    return {key: answers[mark] for key, mark in marks.items()}


def _program(one: Example, way: str) -> str:
    if way == "agnostic":
        return agnostic(one.before).text
    return one.before if way == "shim" else one.after


def _is_rewritten(one: Example) -> bool:
    """Whether its agnostic form is to do the same, and is another."""
    return not one.raises and agnostic(one.before).text != one.before


@cache
def agnostic(text: str) -> Settled:
    return settle(
        text, "python", "train.py", Context(Target(style="agnostic", mode="eager"), load())
    )


#: The answers of this state of the sources; those of others are dropped.
KEPT = RUNNER.parents[2] / ".pytest_cache" / "pages.json"
#: What no example runs.
ELSEWHERE = {"cli", "engine", "following", "ledgers", "plan", "prove", "report"}


def _kept() -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {mark: said for mark, said in kept.items() if mark.startswith(_sources())}


@cache
def _sources() -> str:
    """A hash of all that an outcome depends on besides the example."""
    root = RUNNER.parents[2]
    found = hashlib.sha256(f"{sys.version}{torch.__version__}".encode())
    found.update(RUNNER.read_bytes() + (root / "compat_matrix.toml").read_bytes())
    for file in sorted((root / "hpushim").rglob("*.*")):
        if file.suffix != ".pyc" and file.relative_to(root / "hpushim").parts[0] not in ELSEWHERE:
            found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _mark(way: str, lazy: bool, sources: str, source: str, given: list[str]) -> str:
    asked = json.dumps([way, lazy, source, given])
    return f"{sources}:{hashlib.sha256(asked.encode()).hexdigest()[:16]}"


def _said(way: str, lazy: bool, cases: list[Any]) -> dict[str, Any]:
    kept = {name: v for name, v in os.environ.items() if not name.startswith(("PT_HPU", "RANK"))}
    environment = {
        **kept,
        "OMP_NUM_THREADS": "1",
        "HPUSHIM_LOG": "quiet",
        "PT_HPU_LAZY_MODE": str(int(lazy)),
        "PYTHONPATH": os.pathsep.join([str(RUNNER.parents[2]), kept.get("PYTHONPATH", "")]),
    }
    done = warm.run(
        [sys.executable, str(RUNNER), "shim" if way == "shim" else "native"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def difference(one: Example, other: str = "native") -> str:
    """What the two ways do not agree on; empty where they do."""
    shim, native = (outcomes(way, one.lazy)[one.key] for way in ("shim", other))
    if "error" in native or ("error" in shim and not one.raises):
        return "; ".join(f"{way}: {said['error']}" for way, said in (("shim", shim), ("native", native)) if "error" in said)  # fmt: skip
    if one.raises:
        ended = shim.get("error", "without an error")
        return "" if one.raises in ended else f"expected {one.raises} under the shim, not {ended}"
    if "printed" not in one.apart and _plain(shim["printed"]) != _plain(native["printed"]):
        return f"printed {shim['printed']!r} under the shim, {native['printed']!r} natively"
    return "\n".join(
        f"{name}: {told} under the shim, {native['names'].get(name)} natively"
        for name, told in shim["names"].items()
        if name not in one.apart
        and _plain(json.dumps(told)) != _plain(json.dumps(native["names"].get(name)))
    )


def _plain(text: str) -> str:
    """What is called CUDA before is called HPU after; an index of the one card says nothing."""
    for word, other in (("cuda", "hpu"), ("nccl", "hccl")):
        text = text.replace(word, other).replace(word.upper(), other.upper())
    return re.sub(r"hpu:\d", "hpu", text)


torch = pytest.importorskip("torch", reason="the examples need torch")
if torch.backends.cuda.is_built():
    pytest.skip("a CUDA build of torch cannot host an hpu device", allow_module_level=True)


@pytest.mark.parametrize("one", examples(), ids=[one.key for one in examples()])
def test_before_under_the_shim_and_after_natively_do_the_same(one: Example) -> None:
    if missing(one):
        pytest.skip(f"needs {one.needs}")
    text = difference(one)
    assert not text


def test_the_agnostic_form_does_the_same_natively_or_what_stays_is_reported() -> None:
    """What torch has no neutral word for is CUDA's afterwards as well: a finding says so."""
    wrong, same, different = {}, 0, 0
    for one in examples():
        if missing(one) or not _is_rewritten(one):
            continue
        after = agnostic(one.before)
        text = difference(one, "agnostic")
        same += not text
        different += bool(text)
        left = [f for f in after.findings if not f.applied and f.severity in ("error", "warning")]
        # Where autocast computes in bfloat16 the scaler is off, and skips no step; a folded flag is gone.
        scaled = one.key.startswith(("skipped_step", "another_device"))
        if text and not left and not scaled and not text.startswith("shim: "):
            wrong[one.key] = text
    assert wrong == {}
    assert same > 2 * different, (same, different)


def test_an_example_that_only_defines_has_lines_that_use_it() -> None:
    """Else nothing of it would run."""
    defines = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    idle = [
        one.key
        for one in examples()
        if not (one.framed or one.needs)
        and all(
            isinstance(node, defines) or isinstance(getattr(node, "value", None), ast.Constant)
            for node in ast.parse(one.before).body
        )
    ]
    assert len(idle) <= 0.05 * len(examples()), idle


def test_most_examples_run() -> None:
    """The others say which package they need, or what else is not here; how those here end is asked above."""
    here = [one for one in examples() if not missing(one)]
    assert len(here) >= 0.8 * len(examples())


@pytest.mark.parametrize("one", PLANTED, ids=[one.key for one in PLANTED])
def test_what_differs_is_told(one: Example) -> None:
    assert difference(one)


def test_a_reader_is_not_shown_what_only_makes_examples_run() -> None:
    for path in pages.pages().values():
        page = pages.read(path)
        shown = page.shown()
        assert "```python run" not in shown
        assert all(b.text in shown for b in page.blocks if b.role != "run")


if __name__ == "__main__":
    asked = sys.argv[1:]
    counts: Counter[str] = Counter()
    for one in examples():
        if missing(one):
            counts[f"without {one.needs}"] += 1
            continue
        text = difference(one)
        counts["differs" if text else "same"] += 1
        if text and (not asked or one.key.partition(":")[0] in asked):
            print(f"{one.key}: {text}"[:600])
    print(dict(counts))
