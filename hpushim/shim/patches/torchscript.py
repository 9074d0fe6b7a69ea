"""TorchScript, which Gaudi does not have: device names in what a program compiles mean HPU, and what cannot is refused."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hpushim.compare import Comparison, Form, find, texts
from hpushim.shim import devices, log
from hpushim.shim.patch import WARN, patch

Original = Callable[..., Any]

_ADVICE = 'use torch.compile, or ask x.device.type in ["cuda", "hpu"]'
_with_is_cuda: dict[str, bool] = {}


@patch("torch._sources:parse_def", row="torch.jit.script", level=WARN)
def parse_def(original: Original, *args: Any, **kwargs: Any) -> Any:
    """TorchScript reads a function's source anew: CUDA's names in it, and questions for CUDA, are HPU's."""
    parsed = original(*args, **kwargs)
    if "cuda" not in parsed.source.lower():
        return parsed
    place = (parsed.filename or "<unknown>", parsed.file_lineno)
    return parsed._replace(ast=_translated(parsed.ast, place), ctx=_longer(parsed))


def _longer(parsed: Any) -> Any:
    """The function's source for messages, with a line more: torch looks for an attribute's name behind what it stands after."""
    from torch._sources import make_source_context

    first, name = parsed.source.split("\n", 1)[0], parsed.ast.body[0].name
    margin = len(first) - len(first.lstrip())
    source = f"{parsed.source}\n#\n"
    return make_source_context(source, parsed.filename, parsed.file_lineno, margin, True, name)


def _translated(tree: ast.Module, place: tuple[str, int]) -> ast.Module:
    compared = {one.node: one for one in find(tree) if not one.handled and one.sure}
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
        asked = ast.Compare(kind, [ast.In()], [ast.List(words, ast.Load())])
        return ast.copy_location(asked, node)

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
            return (
                node  # what torch scripts when it is imported asks of its own lists, which know HPU
            )
        log.refuse(
            "HPU512",
            f"TorchScript compiles {ast.unparse(node)}, which asks for CUDA and means nothing on HPU",
            _ADVICE,
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


@patch("torch._C:ScriptFunction.__call__", "torch._C:ScriptMethod.__call__", row="torch.jit.script", level=WARN)  # fmt: skip
def run_script(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Scripted code over HPU tensors: told where nobody else does; refused where it asks ``is_cuda``, which it answers itself."""
    if _on_card(self, args, kwargs):
        if _asks_is_cuda(self):
            log.refuse(
                "HPU512", "this TorchScript asks is_cuda, which is False in it on HPU", _ADVICE
            )
        if "hpushim.emulator" not in sys.modules:
            log.warn("HPU512", "TorchScript is not available on Gaudi; use torch.compile")
    return original(self, *args, **kwargs)


def _on_card(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    if not tensors and hasattr(script, "owner"):
        # Objects of C++ classes, such as what collectives are called with, say that they have it and have no parameters.
        with suppress(AttributeError):
            tensors = [value for _, value in script.owner.named_parameters()][:1]
    return any(devices.is_hpu(one.device) for one in tensors)


def _asks_is_cuda(script: Any) -> bool:
    name = getattr(script, "qualified_name", "") or f"{script.owner.qualified_name}.{script.name}"
    if name not in _with_is_cuda:
        graph = getattr(script, "inlined_graph", None) or script.graph
        _with_is_cuda[name] = bool(graph.findAllNodes("prim::is_cuda", True))
    return _with_is_cuda[name]
