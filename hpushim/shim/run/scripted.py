"""A function that TorchScript reads from its source, with CUDA's names and questions turned into HPU's."""

from __future__ import annotations

import ast
import sys
from typing import Any

from hpushim.compare import Comparison, Form, find, texts
from hpushim.pycode.source import Source
from hpushim.shim import devices, log
from hpushim.shim.patches.torchscript import ADVICE


def translated(tree: ast.Module, place: tuple[str, int]) -> ast.Module:
    compared = {one.node: one for one in find(Source.of_tree(tree)) if not one.handled and one.sure}
    changed = _Names(compared, place).visit(tree)
    ast.fix_missing_locations(changed)
    return changed  # type: ignore[no-any-return]


class _Names(ast.NodeTransformer):
    """Rewrites one function in the part of Python that TorchScript knows."""

    def __init__(self, compared: dict[Any, Comparison], place: tuple[str, int]) -> None:
        self._compared = compared
        self._place = place

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        one = self._compared.get(node)
        self.generic_visit(node)
        return node if one is None else ast.copy_location(self._widened(node, one), node)

    def _widened(self, node: ast.Compare, one: Comparison) -> ast.expr:
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        word = one.texts[0] if len(one.texts) == 1 else None
        if len(node.ops) == 1 and word in (left, right) and texts.is_beginning(word):
            subject = right if one.texts[0] is left else left
            text = getattr(one.texts[0], "value", None)
            if one.form is Form.EQUAL and isinstance(text, str):
                inside = ast.In() if isinstance(operator, ast.Eq) else ast.NotIn()
                words: list[ast.expr] = [ast.Constant(text), ast.Constant(devices.text(text))]
                # A slice is as long as CUDA's word: of `hpu:0` it holds the colon too.
                if isinstance(subject, ast.Subscript):
                    words.append(ast.Constant(f"{devices.DEVICE}:"))
                return ast.Compare(subject, [inside], [ast.List(words, ast.Load())])
            if one.form is Form.SEARCH and isinstance(text, str):
                tests: list[ast.expr] = [
                    ast.Compare(ast.Constant(word), [operator], [subject])
                    for word in (text, text.replace("cuda", devices.DEVICE))
                ]
                both = ast.Or() if isinstance(operator, ast.In) else ast.And()
                return ast.BoolOp(both, tests)
        if one.form is Form.MEMBER and one.texts and isinstance(right, ast.List | ast.Tuple):
            more = [ast.Constant(devices.text(str(getattr(t, "value", "")))) for t in one.texts]
            right.elts = [*right.elts, *more]
            return node
        return self._refuse(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr != "is_cuda":
            return node
        kind = ast.Attribute(ast.Attribute(node.value, "device", ast.Load()), "type", ast.Load())
        words: list[ast.expr] = [ast.Constant("cuda"), ast.Constant(devices.DEVICE)]
        test = ast.Compare(kind, [ast.In()], [ast.List(words, ast.Load())])
        return ast.copy_location(test, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        one = self._compared.get(node)
        self.generic_visit(node)
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if one is not None:
            return ast.copy_location(self._either(node, one), node)
        if name == "cuda" and isinstance(called, ast.Attribute):
            called.attr = "to"
            node.args, node.keywords = [ast.Constant(devices.DEVICE)], []
        elif name in ("to", "device") and node.args:
            node.args[0] = _on_hpu(node.args[0])
        for keyword in node.keywords:
            if keyword.arg in ("device", "type"):
                keyword.value = _on_hpu(keyword.value)
        return node

    def _either(self, node: ast.Call, one: Comparison) -> ast.expr:
        """``text.startswith("cuda")``."""
        called = node.func
        word = getattr(one.texts[0], "value", "") if len(one.texts) == 1 else ""
        if isinstance(called, ast.Attribute) and called.attr == "startswith" and node.args == [*one.texts] and word.startswith("cuda"):  # fmt: skip
            other = ast.Call(called, [ast.Constant(str(word).replace("cuda", devices.DEVICE))], [])
            return ast.BoolOp(ast.Or(), [node, other])
        return self._refuse(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if node in self._compared:
            return self._refuse(node)
        self.generic_visit(node)
        return node

    def _refuse(self, node: ast.expr) -> ast.expr:
        file, line = self._place
        if _is_torchs(file):
            return node  # what torch scripts when it is imported requests from its own lists, which know HPU
        log.refuse(
            "HPU512",
            f"TorchScript compiles {ast.unparse(node)}, which requests CUDA and does not work on HPU",
            ADVICE,
            at=(file, line + node.lineno - 1),
        )


def _is_torchs(file: str) -> bool:
    """Is it one of torch's own files?"""
    package: str = getattr(sys.modules.get("torch"), "__file__", None) or ""
    return bool(package) and file.startswith(package.removesuffix("__init__.py"))


def _on_hpu(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return ast.copy_location(ast.Constant(devices.text(node.value)), node)
    return node
