"""Branches for XLA devices: what a program does there, a Gaudi often needs as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

_DEVICES = ("xla", "tpu")
_NAMES = ("is_xla_tensor", "is_xla_device", "is_torch_xla_available", "is_tpu", "use_xla", "use_tpu", "tpu", "xla")  # fmt: skip


class XlaBranch(Rule):
    """``if x.device.type == "xla":``, ``if is_xla_tensor(x):``."""

    HPU523 = Code("branch-for-xla", severity="note")
    also = Wants(words=_NAMES, required=("torch",))

    def on_module(self, module: Module) -> Yield:
        tests = {test: None for node in _of_xla(module) for test in _tests(module, node)}
        for test in tests:
            found = next(part for part in walk(test) if _is_of_xla(module, part))
            yield self.finding(
                found,
                f"`{module.source(found)}` selects code for XLA devices; its static shapes and fewer "
                "host reads may help on Gaudi too: decide whether Gaudi takes this branch",
            )


def _of_xla(module: Module) -> Iterator[ast.AST]:
    """The names, attributes and comparisons of the file that request XLA."""
    index = module.index
    for name in _NAMES:
        yield from (
            n for n in (*index.names(name), *index.attributes(name)) if _is_of_xla(module, n)
        )
    for device in _DEVICES:
        for text in index.strings(device):
            parent = module.parent(text)
            if isinstance(parent, ast.Compare) and _is_of_xla(module, parent):
                yield parent


def _is_of_xla(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return any(module.constant(side) in _DEVICES for side in sides)
    if isinstance(node, ast.Attribute):
        return node.attr in _NAMES and not (module.qualified(node) or "").startswith("torch.")
    return isinstance(node, ast.Name) and node.id in _NAMES


def _tests(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The conditions of ``if`` that a node is a part of."""
    while not isinstance(node, (ast.stmt, ast.match_case)):
        above = module.parent(node)
        if isinstance(above, (ast.If, ast.IfExp)) and above.test is node:
            yield above.test
        if above is None:
            return
        node = above
