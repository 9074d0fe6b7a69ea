"""The engine obeys its own proof: what cannot be proved is taken back, and that is reported."""

from __future__ import annotations

import ast

import pytest
import toys

from hpushim.engine.one_file import settle

#: The rewrite opens a string that the comment closes: the result parses, and the call between them is gone.
SWALLOWED = "swallow\nprint('kept')\n# '''\n"


@pytest.mark.parametrize("beside", ["", "old_name()\n"])
@pytest.mark.usefixtures("rules")
def test_a_rewrite_that_swallows_its_neighbours_is_taken_back(beside: str) -> None:
    assert "Call" not in ast.dump(ast.parse(SWALLOWED.replace("swallow", "'''"))), "it parses"
    done = settle(SWALLOWED + beside, "python", "a.py", toys.context())
    assert done.text == SWALLOWED + beside.replace("old_name", "new_name")
    refused = [finding for finding in done.findings if finding.code == "HPU004"]
    assert [finding.line for finding in refused] == [1]
    assert "statement that no change touches" in refused[0].message
