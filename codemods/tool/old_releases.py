"""Branches for releases of torch or Python that no Gaudi machine has: what never runs stays, and is reported once."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Claim, Code, Module, Rule, Strength, Wants, Yield
from hpushim.pycode.places import TRIES

from ..values.never_run import FLAGS, OTHER_DEVICE, Gone, NeverRun
from ..values.releases import PYTHON, TORCH

#: What a reader looks for in such a branch; without it there is nothing to report.
_CUDA_WORDS = re.compile(
    r"cuda|nccl|gpu|\bapex\b|\bamp\b|autocast|GradScaler|\.half\(|DataParallel", re.I
)
_OLDEST = {"torch": ".".join(map(str, TORCH)), "Python": ".".join(map(str, PYTHON))}


class OldReleases(Rule):
    """``if torch.__version__ < "1.6": from apex import amp``."""

    HPU030 = Code("branch-for-old-release", severity="note")
    also = Wants(texts=("",), facts=(FLAGS,))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        by_line: dict[int, list[Gone]] = {}
        for gone in module.view(NeverRun).gone:
            yield from (Claim(node, Strength.FIRM) for node in gone.nodes)
            if gone.package != OTHER_DEVICE and any(
                _CUDA_WORDS.search(module.source(node)) for node in gone.nodes
            ):
                by_line.setdefault(_place(gone).lineno, []).append(gone)
        for parts in by_line.values():
            oldest, package = _OLDEST[parts[0].package], parts[0].package
            lines, are = _lines([node for gone in parts for node in gone.nodes])
            yield self.finding(
                _place(parts[0]),
                f"{lines} {are} for {package} before {oldest}, the oldest release that hpushim supports: "
                f"{'it never runs' if are == 'is' else 'they never run'} on Gaudi, so nothing is rewritten there",
            )


def _place(gone: Gone) -> ast.expr | ast.ExceptHandler:
    """The condition; of ``try``, what it catches."""
    if not isinstance(gone.condition, TRIES):
        return gone.condition
    handler = gone.condition.handlers[0]
    return handler.type or handler


def _lines(nodes: list[ast.AST]) -> tuple[str, str]:
    """The lines in words, with the verb."""
    first = min(node.lineno for node in nodes)  # type: ignore[attr-defined]
    last = max(node.end_lineno for node in nodes)  # type: ignore[attr-defined]
    if last > first:
        return f"lines {first} to {last}", "are"
    return f"line {first}" if isinstance(nodes[-1], ast.stmt) else f"a part of line {first}", "is"
