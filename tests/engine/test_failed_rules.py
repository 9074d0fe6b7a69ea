"""A rule that fails takes back all that it said and claimed of the file, whenever it fails; the others' stays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

import pytest
import toys

from hpushim.engine.base.code import Code
from hpushim.engine.one_file import examine
from hpushim.engine.python.module import Module
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Claim, Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

#: What is claimed of the statement in which ``mine`` stands, and how: by itself, or with a finding.
CLAIMS: list[Callable[[Module, ast.Name], ast.AST]] = [
    lambda module, node: module.tree,
    lambda module, node: module.statement(node),
    lambda module, node: module.parent(node) or node,
]


def _rule(which: int, alone: bool, fails: str) -> type[Rule]:
    class Claims(Rule):
        """Claims what is around ``mine``, and may fail."""

        HPU951 = Code("claims", fix="safe")
        wants = Wants(words=("mine",))

        def on_module(self, module: Module) -> Yield:
            if fails == "before":
                raise KeyError("mine")
            for node in module.index.names("mine"):
                claimed = CLAIMS[which](module, node)
                if alone:
                    yield Claim(claimed)
                else:
                    yield self.finding(node, "`mine` is mine", claims=(claimed,))
            if fails == "behind":
                raise KeyError("mine")

    return Claims


@pytest.mark.parametrize("which", range(len(CLAIMS)))
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("fails", ["", "before", "behind"])
@pytest.mark.parametrize("first", [True, False])
def test_a_rule_that_failed_claims_nothing(monkeypatch: pytest.MonkeyPatch, which: int, alone: bool, fails: str, first: bool) -> None:  # fmt: skip
    rule = _rule(which, alone, fails)
    toys.use(monkeypatch, *((rule, toys.Swap) if first else (toys.Swap, rule)))
    found = examine("call(mine, old_name)\n", "python", "a.py", toys.context())
    told = sorted(one.code for one in found)
    if fails:
        assert len(told) == 2 and "HPU901" in told and "HPU951" not in told
    else:
        assert told == ["HPU951"] * (not alone)


@pytest.mark.parametrize("fails", [True, False])
def test_a_rule_that_fails_at_the_end_leaves_what_the_others_found(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:  # fmt: skip
    class Ends(Rule):
        """Finishes, or fails there."""

        HPU952 = Code("ends", fix="safe")
        wants = Wants(words=("mine",))

        def on_module(self, module: Module) -> Yield:
            return ()

        def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
            if fails:
                raise KeyError("mine")
            return [self.finding(module.index.names("mine")[0], "at the end")]

    toys.use(monkeypatch, Ends, toys.Swap)
    told = {one.code for one in examine("call(mine, old_name)\n", "python", "a.py", toys.context())}
    assert "HPU901" in told and len(told) == 2
    assert ("HPU952" in told) is not fails
