"""Every statement of Python's grammar at every level: what reads programs comes to an end, and what it writes parses.

What only the compiler refuses (a ``return`` outside of a function) is read as well: whoever edits a file may be in the middle of it.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from crossed import crossed

from hpushim.compare import find
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.pycode.source import Source
from hpushim.shim.run import rewrite

#: At least one of each kind; what they bind is compared below them.
STATEMENTS = r"""
def place(place=place, *places, only="cuda", **more): return place
async def place(place: str = "cuda"): await place
class place(place, metaclass=place): place = x.device.type
return place.device.type == "cuda"
del place, place.other, places["cuda"]
place = other = x.device.type
place, *places = x.device.type, "cuda"
place.kind = places["cuda"] = x.device
place += "cuda"
place: str = x.device.type
place: str
for place in ["cpu", "cuda"]: x.to(place)
for place, places in enumerate(places): x.to(places)
while place == "cuda": x = x.cuda()
if (place := x.device.type) == "cuda": x = x.cuda()
with torch.cuda.device(place) as place, place: x = x.cuda()
match place:\n    case "cuda": x = x.cuda()\n    case [place, *places] | {"cuda": place, **places}: pass\n    case torch.device(type="cuda") as place if place == "cuda": pass
raise RuntimeError("cuda") from place
try: x = x.cuda()\nexcept RuntimeError as place: x = x.cpu()\nelse: place = "cuda"\nfinally: place = "cpu"
assert place == "cuda", place
import torch.cuda as place
from torch import cuda as place, device
from torch import *
global place
nonlocal place
place.startswith("cuda")
print([place == "cuda" for place in places if (other := place)], lambda place: place == "cuda", {**places}, (yield place))
pass
break
continue
"""
#: That not every release has.
NEWER = {
    "AsyncFor": "async for place in places: x.to(place)",
    "AsyncWith": "async with place as place: x = x.cuda()",
    "TryStar": 'try: x = x.cuda()\nexcept* RuntimeError as place: place = "cuda"',
    "TypeAlias": "type place[places] = list[place]",
}
LEVELS = {
    "module": "{}",
    "def": "def f(x, place):\n{}",
    "async def": "async def f(x, place):\n{}",
    "class": "class C:\n{}",
    "for": "for x in places:\n{}",
    "else": "while place: pass\nelse:\n{}",
    "if": 'if x.device.type == "cuda":\n{}',
    "elif": "if place: pass\nelif x.is_cuda:\n{}",
    "with": "with place as x:\n{}",
    "match": 'match x.device.type:\n    case "cuda":\n{}',
    "try": "try:\n{}\nfinally: pass",
    "except": "try: pass\nexcept OSError as x:\n{}",
    "finally": "try: pass\nfinally:\n{}",
}
AFTER = 'x.to(place)\nplace == "cuda"\nplace.replace("cuda", "cpu")\ntorch.device(place)\n'
#: Lines of ours that reading one of these programs takes at most; none took more than a fifth of it.
STEPS = 500_000


def _parts() -> list[str]:
    newer = [text for kind, text in NEWER.items() if hasattr(ast, kind)]
    return [text.replace("\\n", "\n") for text in STATEMENTS.strip().splitlines()] + newer


def _nested(body: str, *levels: str) -> str:
    for level in reversed(levels):
        frame = LEVELS[level]
        deeper = "" if level == "module" else "        " if level == "match" else "    "
        body = frame.replace("{}", textwrap.indent(body, deeper)) + "\n"
    return body


def _program(*levels: str) -> str:
    return f"import torch\n{_nested(chr(10).join(_parts()) + chr(10) + AFTER, *levels)}{AFTER}"


def _stepped(work: Callable[[], Any]) -> int:
    """How many lines it takes; fails where it takes too many."""
    steps = 0

    def count(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal steps
        steps += event == "line"
        if steps > STEPS:
            raise AssertionError("it does not come to an end")
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def test_every_statement_is_there() -> None:
    here = {type(node) for node in ast.walk(ast.parse(_program("async def")))}
    every = {kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.stmt)}  # fmt: skip
    assert every - here == {ast.stmt}


@pytest.mark.parametrize(("statement", "level"), crossed(_parts(), LEVELS, rounds=1))
def test_one_statement(statement: str, level: str) -> None:
    tree = ast.parse(f"{_nested(f'{statement}{chr(10)}{AFTER}', level)}{AFTER}")
    assert _stepped(lambda: find(Source.of_tree(tree))) > 100


@pytest.mark.parametrize("levels", crossed(LEVELS, LEVELS, rounds=1))
def test_all_statements_two_levels_deep(levels: tuple[str, str]) -> None:
    text = _program(*levels)
    tree = ast.parse(text)
    _stepped(lambda: rewrite.apply(tree))
    ast.parse(ast.unparse(tree))
    after = settle(text, "python", "a.py", _CONTEXT).text
    ast.parse(after)
    assert not any(f.code == "HPU004" for f in settle(after, "python", "a.py", _CONTEXT).findings)


_CONTEXT = Context(Target(), load())
