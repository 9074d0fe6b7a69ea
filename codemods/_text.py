"""Device strings in every spelling, and the strings that replace them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hpushim.engine.syntax import Module

from ._dual import NAME, dual, either

DEVICE_TYPE = "cuda"
HPU = "hpu"
_WHOLE = re.compile(r"cuda(?::(\d+))?")
_OTHER = re.compile(r"(cpu|mps|xpu|hpu|npu|mlu|musa|meta|xla|tpu|ipu|vulkan|auto)(:\d+)?")
#: Names that people give to things that hold a device.
_NAME = re.compile(
    r"(^|[_\-.])(dev|devs|device|devices|devicetype|devtype|device_?str|device_?name|map_location|maploc)"
    r"($|[_\-.\d])|[a-z]Devices?($|[A-Z])|^device[A-Z]",
)

#: Those that make a path or a larger text of it.
_PATHS = frozenset(
    [
        "join",
        "open",
        "exists",
        "isfile",
        "isdir",
        "Path",
        "replace",
        "format",
        "split",
        "strip",
        "removeprefix",
        "run",
        "system",
    ]
)


@dataclass(frozen=True, eq=False)
class Text:
    """An expression that spells a CUDA device: its ``index`` is ``""`` (none), digits, or ``"?"`` (computed)."""

    node: ast.expr
    index: str

    @property
    def surely(self) -> bool:
        """Can it be nothing else than a device? The bare word may be."""
        return self.index != ""


def read(node: ast.AST) -> Text | None:
    """The device text that an expression spells, in any of Python's ways to build a string."""
    reader = _READERS.get(node.__class__)
    return reader(node) if reader is not None else None


def _constant(node: ast.Constant) -> Text | None:
    value = node.value
    if not isinstance(value, str) or not value.startswith(DEVICE_TYPE):
        return None
    found = _WHOLE.fullmatch(value)
    return Text(node, found[1] or "") if found else None


def _joined(node: ast.JoinedStr) -> Text | None:
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        if len(node.values) == 1 and (found := _WHOLE.fullmatch(first.value)):
            return Text(node, found[1] or "")
        if first.value == "cuda:" and len(node.values) == 2:
            return Text(node, "?")
    return None


def _operation(node: ast.BinOp) -> Text | None:
    template = _text(node.left)
    if isinstance(node.op, ast.Mod) and template in ("cuda:%d", "cuda:%s", "cuda:%i"):
        return Text(node, "?")
    if isinstance(node.op, ast.Add) and template == "cuda:":
        return Text(node, "?")
    return None


def _call(node: ast.Call) -> Text | None:
    func = node.func
    if (
        isinstance(func, ast.Attribute)
        and func.attr == "format"
        and re.fullmatch(r"cuda:\{[^{}]*\}", _text(func.value))
    ):
        return Text(node, "?")
    return None


_READERS: dict[type[ast.AST], Callable[[Any], Text | None]] = {
    ast.Constant: _constant,
    ast.JoinedStr: _joined,
    ast.BinOp: _operation,
    ast.Call: _call,
}


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def other_device(node: ast.AST) -> bool:
    """Is the expression the text of a device that is not CUDA (``"cpu"``, ``"mps"``)?"""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(
        _OTHER.fullmatch(node.value)
    )  # fmt: skip


def is_hpu(node: ast.AST) -> bool:
    """Is the expression the text ``"hpu"``?"""
    return _text(node).split(":")[0] == HPU


def device_name(name: str) -> bool:
    """Does a variable, option or key of this name hold a device?"""
    name = name.lstrip("-")
    return bool(_NAME.search(name) or _NAME.search(name.lower()))


def replacement(module: Module, text: Text) -> str:
    """The literal to write: index 0 stays, any other index goes, for a process holds one card."""
    word = f"{HPU}:0" if text.index == "0" else HPU
    if dual(module):
        return either(NAME, module.source(text.node))
    spans = module.string_tokens(_first(text.node))
    token = module.source(spans[0]) if spans else '"'
    body = token.lstrip("fFrRuUbB")
    mark = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    return f"{mark}{word}{mark}"


def _first(node: ast.expr) -> ast.expr:
    """The string literal that a composed text starts with."""
    if isinstance(node, ast.BinOp):
        return _first(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _first(node.func.value)
    return node


def placed(module: Module, node: ast.AST) -> bool:
    """Does the node stand where its position says? Before Python 3.12 nodes in f-strings may not."""
    if not any(isinstance(above, ast.JoinedStr) for above in module.ancestors(node)):
        return True
    try:
        again = ast.parse(module.source(node), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return ast.dump(again) == ast.dump(node)


def glued(module: Module, node: ast.AST) -> bool:
    """Does the choice become a part of a larger word: a path, a key, a file's name?"""
    parent = module.parent(node)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        node, parent = parent, module.parent(parent)
    if isinstance(parent, ast.BinOp):
        return True
    if isinstance(parent, ast.Call) and node is not parent.func:
        func = parent.func
        return getattr(func, "attr", getattr(func, "id", "")) in _PATHS
    string = module.parent(parent) if isinstance(parent, ast.FormattedValue) else None
    if not isinstance(string, ast.JoinedStr):
        return False
    place = next(i for i, part in enumerate(string.values) if part is parent)
    before = string.values[place - 1] if place else None
    after = string.values[place + 1] if place + 1 < len(string.values) else None
    return _ends_word(before, -1) or _ends_word(after, 0)


def _ends_word(part: ast.expr | None, place: int) -> bool:
    """Does the text beside a replacement field continue the word?"""
    if not isinstance(part, ast.Constant):
        return part is not None
    text = str(part.value)
    return bool(re.match(r"[\w./\-]", text[place])) if text else False
