"""What a rewrite does to a data file: only one that was whole before is held to be whole afterwards."""

from __future__ import annotations

import pytest

from hpushim.engine.data.wellformed import unproven

WHOLE = {
    "yaml": b"device: cuda\n",
    "json": b'{"device": "cuda"}',
    "notebook": b'{"cells": []}',
    "toml": b'device = "cuda"\n',
    "shell": b"python a.py\n",
}
BROKEN = {
    "a bracket": b"device: [cuda\n",
    "a quote": b'{"device": "cuda',
    "not UTF-8": b"\xff",
    "nested too deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("what", BROKEN)
def test_only_what_was_whole_and_is_not_is_unproven(kind: str, what: str) -> None:
    whole, broken = WHOLE[kind], BROKEN[what]
    said = unproven(kind, whole, broken)  # type: ignore[arg-type]
    if kind == "shell":  # nothing here reads it
        assert said is None
    else:
        assert said is not None and said.startswith(f"the result is not valid {kind} (")
    for before, after in ((broken, broken), (broken, whole), (whole, whole)):
        assert unproven(kind, before, after) is None  # type: ignore[arg-type]
