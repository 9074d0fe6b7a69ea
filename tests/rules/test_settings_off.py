"""Settings that are off by default: whatever a file of settings does not surely turn off is on."""

from __future__ import annotations

import pytest

from hpushim.codemods.analysis.project_facts import SWITCHES

OFF = ("false", "False", "off", "no", "null", "false  # slow", "no\r")
ON = ("true", "yes", "1", "-1", "off-policy", "no-op", "falsehood", "'false'", "true  # fast, needs a kernel", "[..]", "{a: 1}", "&x true")  # fmt: skip
#: YAML in blocks and lists, flow tables, JSON, and the value that ends a file.
FORMS = ("fast: {}\n", "model:\n  - fast: {}\n", "# files that import torch\nfast: {}\nlr: 1\n", "model: {{lr: 1, fast: {}}}\n", '{{"lr": 1, "fast": {}}}', '{{\n "fast": {}\n}}\n', "fast: {}")  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_setting_is_on_unless_it_is_surely_off(form: str) -> None:
    for values, on in ((OFF, False), (ON, True)):
        for value in values:
            if "{" in form.format("") and "#" in value:
                continue  # the comment would take the end of the table
            found = {*SWITCHES.find(form.format(value).encode())}
            assert (b"+fast" in found, b"fast" in found) == (on, not on), (form, value)


@pytest.mark.parametrize(("value", "on"), [("False", False), ("True", True), ("CN()", True), ("0", True)])  # fmt: skip
def test_nodes_of_yacs(value: str, on: bool) -> None:
    code = f"from yacs.config import CfgNode as CN\n_C = CN()\n_C.MODEL.FAST = {value}\n".encode()
    assert (b"+FAST" if on else b"FAST") in {*SWITCHES.find(code)}
    assert b"+x" not in {*SWITCHES.find(b"import torch\ny = {'x': True}\n")}
