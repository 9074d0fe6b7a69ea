"""The option through which ``torch.distributed.launch`` gives a process its rank."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.engine.rules.wants import ProjectFact
from hpushim.patterns import lazily

from ..edits.arguments import add

_OLD, _NEW = "--local_rank", "--local-rank"
_JOINED = lazily(rb"\\\r?\n")
_LAUNCH = lazily(rb"-m[ \t]+torch\.distributed\.launch[ \t]([^\n`]*)")
#: With this the launcher gives the rank in the environment alone.
_IN_ENVIRONMENT = lazily(rb"--use[_-]env\b")


def _launched(data: bytes) -> Iterable[bytes]:
    if b"torch.distributed.launch" in data:
        for found in _LAUNCH.finditer(_JOINED.sub(b" ", data)):
            if not _IN_ENVIRONMENT.search(found[1]):
                yield b"launched"


PASSED = ProjectFact(
    "launches that pass the rank as an option",
    _launched,
    ("markdown", "shell", "makefile", "yaml", "dockerfile"),
)


class RankOption(Rule):
    """``parser.add_argument("--local_rank")`` of a program that ``torch.distributed.launch`` starts."""

    HPU327 = Code("rank-option-renamed", severity="error", fix="safe")
    wants = Wants(calls=("add_argument",), required=(_OLD,), facts=(PASSED,))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        names = [module.constant(given) for given in node.args]
        if _OLD not in names or _NEW in names or not module.project.names(PASSED.name):
            return
        if any(_NEW in map(module.constant, call.args) for call in module.index.calls("add_argument")):  # fmt: skip
            return
        given = node.args[names.index(_OLD)]
        mark = module.source(given)[0]
        yield self.finding(
            given,
            f"from torch 2.0 on, `torch.distributed.launch` passes `{_NEW}`, which this program refuses; name the option both ways",
            fix=Rewrite(f"add {_NEW}", "safe", (add(node, f"{mark}{_NEW}{mark}", behind=given),)),
        )
