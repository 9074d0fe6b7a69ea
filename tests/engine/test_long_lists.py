"""Many changes in one list: each at its place, and the list is gone through once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import pytest

from hpushim.engine.base.edits import splice
from hpushim.engine.python import slots
from hpushim.engine.python.changes import Replace
from hpushim.engine.python.module import Module
from hpushim.engine.python.rewrite import rewrite
from hpushim.model import Target

MANY = 100


@pytest.mark.parametrize(
    "text",
    [
        "y = [" + "old,\n" * MANY + "]\n",
        "y = {" + "old: [1, old],\n" * MANY + "}\n",
        "y = f(old, " + "".join(f"a{n}=old,\n" for n in range(MANY)) + "*rest, **old)\n",
        "class C(old, " + "".join(f"a{n}=old, " for n in range(MANY)) + "): pass\n",
        "def f(a, " + "".join(f"a{n}=old,\n" for n in range(MANY)) + "*, z=old): pass\n",
        "y = " + "old < " * 20 + "old\n",
        "y = z[" + "old, " * MANY + "1:old]\n",
    ],
)
def test_each_item_is_changed_at_its_place(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone_through: list[int] = []

    def counted(nodes: Sequence[object]) -> Iterator[tuple[int, object]]:
        gone_through.append(len(nodes))
        return enumerate(nodes)

    monkeypatch.setattr(slots, "enumerate", counted, raising=False)
    module = Module(text, "a.py", Target(), None)  # type: ignore[arg-type]
    changes = [
        Replace(node, "new(1)")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "old"
    ]
    edits, _ = rewrite(module, changes)
    assert splice(module.data, edits).decode() == text.replace("old", "new(1)")
    assert sum(length >= MANY for length in gone_through) <= 2
