"""The option through which ``torch.distributed.launch`` gives a process its rank."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.launches import PASSES_RANK
from ..edits.arguments import add

_OLD, _NEW = "--local_rank", "--local-rank"


class RankOption(Rule):
    """``parser.add_argument("--local_rank")`` of a program that ``torch.distributed.launch`` starts."""

    HPU327 = Code("rank-option-renamed", severity="error", fix="safe")
    wants = Wants(calls=("add_argument",), required=(_OLD,), facts=(PASSES_RANK,))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        names = [module.constant(given) for given in node.args]
        if _OLD not in names or _NEW in names or not module.project.names(PASSES_RANK.name):
            return
        if any(_NEW in map(module.constant, call.args) for call in module.index.calls("add_argument")):  # fmt: skip
            return
        given = node.args[names.index(_OLD)]
        mark = module.source(given)[-1]
        yield self.finding(
            given,
            f"from torch 2.0 on, `torch.distributed.launch` passes `{_NEW}`, which this program refuses; name the option both ways",
            fix=Rewrite(f"add {_NEW}", "safe", (add(node, f"{mark}{_NEW}{mark}", behind=given),)),
        )
