"""float16 becomes bfloat16, which has the range of float32 and needs no loss scaling."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding, Fix

from . import _imports
from ._arguments import argument
from ._claims import claim, claimed, kept_whole
from ._strings import retext
from ._torch import attribute_values, proven
from ._verdict import ask
from .autocast import site

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

HALF = frozenset({"torch.float16", "torch.half"})
_DEPTH = 8
#: Where a mention of float16 asks about a dtype and sets none.
_ASKING = (ast.Compare, ast.MatchValue)
_ASKING_CALLS = ("torch.finfo", "torch.iinfo", "builtins.isinstance", "torch.promote_types")


class AutocastHalf(Rule):
    """The float16 that an autocast gets, and other uses of float16."""

    code = "HPU203"
    name = "autocast-float16"
    markers = (b"float16", b"half", b"fp16")
    also: ClassVar[dict[str, str]] = {"HPU208": "half-call", "HPU209": "float16-dtype"}

    def __init__(self) -> None:
        self._reached: list[ast.expr] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if kept_whole(module):
            return
        for part in module.of_type(ast.Call):
            found = site(module, part)
            if found is None or self._on_cpu(module, found.args, found.call):
                continue
            call = ast.Call(found.func, found.args, found.call.keywords)
            dtype = argument(call, "dtype", 1)
            if dtype is None:
                continue
            reached = halves(module, dtype)
            enabled = argument(call, "enabled", 2 if found.generic else 0)
            if reached and enabled is not None:
                reached += _compared(module, enabled)
            for half in reached:
                if half not in self._reached:
                    self._reached.append(half)
                    claim(module, half)
        yield from ()

    def _on_cpu(self, module: Module, args: list[ast.expr], call: ast.Call) -> bool:
        device = argument(ast.Call(call.func, args, call.keywords), "device_type", 0)
        return module.constant(device) == "cpu"

    def on_module(self, module: Module) -> Iterator[Finding]:
        answer = ask(module, "torch.float16")
        for half in self._reached:
            text, needed = _imports.of(module).through(half, "torch.bfloat16")
            edits = (module.replace(half, text), *needed)
            yield self.finding(
                module,
                half,
                f"`{module.source(half)}` reaches autocast; Gaudi trains in bfloat16, "
                "with float32's range and fewer digits: the numbers differ a little",
                fix=Fix("autocast to bfloat16", answer.safety, edits) if answer.fixable else None,
                row=answer.row,
                severity="error" if answer.status == "unsupported" else "warning",
            )

    # -- float16 elsewhere ------------------------------------------------------------------

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        if node.attr not in ("float16", "half") or module.qualified(node) not in HALF:
            return ()
        return self._dtype(module, node)

    def _dtype(self, module: Module, node: ast.Attribute) -> Iterator[Finding]:
        if kept_whole(module):
            return
        if claimed(module, node) or _asks(module, node):
            return
        answer = ask(module, "torch.float16", "unsafe")
        text, needed = _imports.of(module).through(node, "torch.bfloat16")
        fix = Fix("use bfloat16", "unsafe", (module.replace(node, text), *needed))
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` keeps float16, unscaled; bfloat16 is the half precision of Gaudi",
            fix=fix,
            row=answer.row,
            code="HPU209",
        )

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr != "half" or node.args or node.keywords:
            return ()
        return self._method(module, func)

    def _method(self, module: Module, func: ast.Attribute) -> Iterator[Finding]:
        if kept_whole(module):
            return
        if module.qualified(func) is not None or not proven(module, func.value):
            return
        answer = ask(module, "torch.Tensor.half", "unsafe")
        name = module.source(func)
        at = module.span(func).end
        edit = module.replace(type(module.span(func))(at - len("half"), at), "bfloat16")
        yield self.finding(
            module,
            func,
            f"`{name.splitlines()[-1].strip()}()` makes float16; bfloat16 is the half precision of Gaudi",
            fix=Fix("use bfloat16", "unsafe", (edit,)),
            row=answer.row,
            code="HPU208",
        )

    def on_keyword(self, module: Module, node: ast.keyword) -> Iterator[Finding]:
        if kept_whole(module):
            return
        call = module.parent(node)
        if not isinstance(call, ast.Call) or node.arg is None:
            return
        called = (module.qualified(call.func) or "").rpartition(".")[2]
        if (
            node.arg == "fp16"
            and not (isinstance(node.value, ast.Constant) and node.value.value is not True)
            and called.endswith("Arguments")
        ):
            name_end = module.span(node).start + len("fp16")
            where = type(module.span(node))(module.span(node).start, name_end)
            taken = any(keyword.arg == "bf16" for keyword in call.keywords)
            edit = module.replace(where, "bf16")
            answer = ask(module, "transformers.TrainingArguments(fp16=)")
            stops = (
                answer.status == "unsupported"
            )  # on Gaudi 1; the others run it, in other numbers
            fix = None if taken else Fix("use bfloat16", "safe" if stops else "unsafe", (edit,))
            text = f"`{module.source(node)}` trains in float16; bfloat16 is the half precision of Gaudi"
            yield self.finding(
                module, node, text, fix=fix, code="HPU209", row=answer.row,
                severity="error" if stops else None,
            )  # fmt: skip
        elif (
            node.arg == "mixed_precision"
            and module.constant(node.value) == "fp16"
            and called != "Accelerator"  # which has a row, and HPU704
        ):
            fix = Fix("use bfloat16", "unsafe", (retext(module, node.value, "bf16"),))
            text = '`mixed_precision="fp16"` trains in float16; bfloat16 is the half precision of Gaudi'
            yield self.finding(module, node, text, fix=fix, code="HPU209")


def halves(module: Module, node: ast.expr, depth: int = _DEPTH) -> list[ast.expr]:
    """Every mention of float16 that ``node`` may evaluate to: through names, tables, functions, attributes."""
    if depth == 0:
        return []
    again = depth - 1
    if isinstance(node, (ast.Attribute, ast.Name)) and module.qualified(node) in HALF:
        return [node] if isinstance(node, ast.Attribute) else []
    found: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        return _in_table(module, node.value, again)
    if isinstance(node, ast.Call):
        return _through_call(module, node, again)
    if isinstance(node, ast.Attribute):
        for value in attribute_values(module, node.attr):
            found += halves(module, value, again)
        return found
    for value in module.values(node):
        if value is not node:
            found += halves(module, value, again)
    return found


def _compared(module: Module, enabled: ast.expr) -> list[ast.expr]:
    """The float16 that a region's switch compares with: it has to follow the region's dtype."""
    return [
        part
        for value in module.values(enabled)
        for compare in ast.walk(value)
        if isinstance(compare, ast.Compare)
        for part in ast.walk(compare)
        if isinstance(part, ast.Attribute) and module.qualified(part) in HALF
    ]


def _in_table(module: Module, table: ast.expr, depth: int) -> list[ast.expr]:
    """float16 among the values of ``{"float16": torch.float16, …}``."""
    found: list[ast.expr] = []
    for value in module.values(table):
        if isinstance(value, ast.Dict):
            for item in value.values:
                found += halves(module, item, depth)
    return found


def _through_call(module: Module, call: ast.Call, depth: int) -> list[ast.expr]:
    """``table.get(name, torch.float16)``, and what a function of this file returns."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in ("get", "pop"):
        found = _in_table(module, func.value, depth)
        for default in call.args[1:2]:
            found += halves(module, default, depth)
        return found
    if isinstance(func, ast.Name):
        return [
            half
            for binding in module.bindings(func)
            if isinstance(binding.node, ast.FunctionDef)
            for part in ast.walk(binding.node)
            if isinstance(part, ast.Return) and part.value is not None
            for half in halves(module, part.value, depth)
        ]
    return []


def _asks(module: Module, node: ast.expr) -> bool:
    """Whether the mention only compares, looks up or describes."""
    child: ast.AST = node
    for above in module.ancestors(node):
        if isinstance(above, _ASKING):
            return True
        if isinstance(above, ast.Dict) and any(key is child for key in above.keys):
            return True
        if isinstance(above, ast.Subscript) and above.slice is child:
            return True
        if isinstance(above, ast.Call):
            return module.qualified(above.func) in _ASKING_CALLS
        if isinstance(above, ast.stmt):
            return False
        child = above
    return False
