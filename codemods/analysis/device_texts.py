"""Strings that spell a CUDA device, in every way that Python has to build a string."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..edits.spelling import on_gaudi

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

CUDA = "cuda"
_WHOLE = re.compile(r"cuda(?::(\d+))?")
_OTHER = re.compile(r"(cpu|mps|xpu|hpu|npu|mlu|musa|meta|xla|tpu|ipu|vulkan|auto)(:\d+)?")
#: Names that people give to things that hold a device.
_NAME = re.compile(
    r"(^|[_\-.])(dev|devs|device|devices|devicetype|devtype|device_?str|device_?name|map_location|maploc)"
    r"($|[_\-.\d])|[a-z]Devices?($|[A-Z])|^device[A-Z]",
)
#: A word that is set, and a device that it is set to.
_SETTING = re.compile(r"""([\w-]+)\\?["']?(?:[ \t]*[:=][ \t]*|[ \t]+)\\?["']?cuda\b""")
#: Calls that make a path, or a larger text, of what they are given.
_PATHS = frozenset(
    [
        *("join", "open", "exists", "isfile", "isdir", "Path", "replace", "format"),
        *("split", "strip", "removeprefix", "run", "system"),
    ]
)


@dataclass(frozen=True, eq=False)
class DeviceText:
    """An expression that spells a CUDA device: its ``index`` is ``""`` (none), digits, or ``"?"`` (computed)."""

    node: ast.expr
    index: str
    #: The source with Gaudi's word in place of CUDA's, where the text is more than a device, or begins one.
    new: str = ""

    @property
    def surely(self) -> bool:
        """Can it be nothing else than a device? The bare word may be."""
        return self.index != ""


def device_texts(module: Module) -> Iterator[DeviceText]:
    """Every device text of the file that is no part of a larger one, in source order."""
    for constant in module.index.strings(CUDA):
        found = _outermost(module, constant)
        if found is not None:
            yield found


def other_texts(module: Module) -> Iterator[DeviceText]:
    """Texts with CUDA's name beside something else, or in other letters: ``"cuda:"``, ``"CUDA"``, ``"run-cuda"``, ``r"cuda:(\\d+)"``."""
    for word in (CUDA, CUDA.upper(), CUDA.title()):
        for constant in module.index.strings(word):
            new = on_gaudi(str(constant.value))
            whole = _WHOLE.fullmatch(str(constant.value)) is not None
            parts = isinstance(module.parent(constant), (ast.JoinedStr, ast.Expr))
            if new != constant.value and not whole and not parts and not _begins(module, constant):
                yield DeviceText(constant, "", on_gaudi(module.source(constant)))


def settings_on_gaudi(source: str) -> str:
    """``device: cuda``, ``--device cuda``, ``"device": "cuda"`` in a larger text, with Gaudi's word."""
    return _SETTING.sub(
        lambda found: on_gaudi(found[0]) if device_name(found[1]) else found[0], source
    )


def _begins(module: Module, constant: ast.Constant) -> bool:
    """Is it the first part of a composed device text?"""
    return isinstance(parent := module.parent(constant), (ast.BinOp, ast.Attribute)) and any(
        read(above) is not None for above in (parent, *module.ancestors(parent))
    )


def _outermost(module: Module, constant: ast.Constant) -> DeviceText | None:
    """The device text that starts with a constant."""
    found = read(constant)
    parent = module.parent(constant)
    while isinstance(parent, (ast.JoinedStr, ast.BinOp, ast.Attribute, ast.Call)):
        larger = read(parent)
        if larger is not None:
            found = larger
        elif not isinstance(parent, (ast.Attribute, ast.BinOp)):
            break
        parent = module.parent(parent)
    if found is None:
        return None
    above = module.parent(found.node)
    return None if isinstance(above, (ast.JoinedStr, ast.Expr)) else found


# -- what spells a device -------------------------------------------------------------------


def read(node: ast.AST) -> DeviceText | None:
    """The device text that an expression spells."""
    reader = _READERS.get(node.__class__)
    return reader(node) if reader is not None else None


def _constant(node: ast.Constant) -> DeviceText | None:
    value = node.value
    if not isinstance(value, str) or not value.startswith(CUDA):
        return None
    found = _WHOLE.fullmatch(value)
    return DeviceText(node, found[1] or "") if found else None


def _joined(node: ast.JoinedStr) -> DeviceText | None:
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        if len(node.values) == 1 and (found := _WHOLE.fullmatch(first.value)):
            return DeviceText(node, found[1] or "")
        if first.value == "cuda:" and len(node.values) == 2:
            return DeviceText(node, "?")
    return None


def _operation(node: ast.BinOp) -> DeviceText | None:
    template = _text(node.left)
    if isinstance(node.op, ast.Mod) and template in ("cuda:%d", "cuda:%s", "cuda:%i"):
        return DeviceText(node, "?")
    if isinstance(node.op, ast.Add):
        parts = list(_added(node))
        begin = "".join(itertools.takewhile(bool, map(_text, parts)))
        constant = len(begin) == sum(len(_text(part)) for part in parts) and all(map(_text, parts))
        if constant and (found := _WHOLE.fullmatch(begin)):
            return DeviceText(node, found[1] or "")
        return DeviceText(node, "?") if begin == "cuda:" and len(parts) > 1 and not _text(parts[-1]) else None  # fmt: skip
    return None


def _added(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of ``"cuda" + ":" + str(n)``, from the left."""
    right: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        right.append(node.right)
        node = node.left
    yield node
    yield from reversed(right)


def _call(node: ast.Call) -> DeviceText | None:
    func = node.func
    if (
        isinstance(func, ast.Attribute)
        and func.attr == "format"
        and re.fullmatch(r"cuda:\{[^{}]*\}", _text(func.value))
    ):
        return DeviceText(node, "?")
    return None


_READERS: dict[type[ast.AST], Callable[[Any], DeviceText | None]] = {
    ast.Constant: _constant,
    ast.JoinedStr: _joined,
    ast.BinOp: _operation,
    ast.Call: _call,
}


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# -- what is reported by other texts and by names -----------------------------------------------


def other_device(node: ast.AST) -> bool:
    """Is the expression the text of a device that is not CUDA (``"cpu"``, ``"mps"``)?"""
    return _OTHER.fullmatch(_text(node)) is not None


def is_hpu(node: ast.AST) -> bool:
    """Is the expression the text ``"hpu"``?"""
    return _text(node).split(":")[0] == "hpu"


def device_name(name: str) -> bool:
    """Does a variable, option or key of this name hold a device?"""
    name = name.lstrip("-")
    return bool(_NAME.search(name) or _NAME.search(name.lower()))


def glued(module: Module, node: ast.AST) -> bool:
    """Does the choice become a part of a larger word: a path, a key, a file's name?"""
    parent = module.parent(node)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        node, parent = parent, module.parent(parent)
    beside = _beside(module, node)
    if beside is not None:
        before, after = beside
        return _ends_word(before, -1) or _ends_word(after, 0)
    if isinstance(parent, ast.Call) and node is not parent.func:
        func = parent.func
        return getattr(func, "attr", getattr(func, "id", "")) in _PATHS
    return isinstance(parent, ast.BinOp)


def is_type_of_text(module: Module, node: ast.AST) -> bool:
    """Is it what a device's text begins with: ``"{}:{}".format(kind, n)``, ``kind + ":" + n``?"""
    beside = _beside(module, node)
    return beside is not None and beside[0] == "" and (beside[1] or "").startswith(":")


def _beside(module: Module, node: ast.AST) -> tuple[str | None, str | None] | None:
    """The text before and after what becomes a part of a text: "" at its ends, None where it is not known there."""
    parent = module.parent(node)
    if isinstance(parent, ast.FormattedValue):
        string = module.parent(parent)
        values = string.values if isinstance(string, ast.JoinedStr) else []
        texts = [str(p.value) if isinstance(p, ast.Constant) else None for p in values]
        place = next((i for i, part in enumerate(values) if part is parent), None)
        return _around(texts, place)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add):
        top: ast.AST = parent
        while isinstance(above := module.parent(top), ast.BinOp) and isinstance(above.op, ast.Add):
            top = above
        parts = list(_added(top))  # type: ignore[arg-type]
        place = next((i for i, part in enumerate(parts) if part is node), None)
        if place is None:
            return None
        ends = _end(parts[place - 1], -1) if place else ""
        return ends, _end(parts[place + 1], 0) if place + 1 < len(parts) else ""
    holder = module.parent(parent) if isinstance(parent, ast.Tuple) else parent
    if isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mod):
        given = holder.right.elts if isinstance(holder.right, ast.Tuple) else [holder.right]
        return _in_template(re.split(r"%[sdir]", _text(holder.left)), given, node)
    if isinstance(parent, ast.Call) and not parent.keywords:
        func = parent.func
        if isinstance(func, ast.Attribute) and func.attr == "format":
            return _in_template(re.split(r"\{\}", _text(func.value)), parent.args, node)
    return None


def _end(part: ast.AST, place: int) -> str | None:
    """The text that a part begins or ends with, as far as it is written."""
    if isinstance(part, ast.JoinedStr) and part.values:
        part = part.values[place]
    return _text(part) or None


def _around(texts: list[str | None], place: int | None) -> tuple[str | None, str | None] | None:
    if place is None:
        return None
    after = texts[place + 1] if place + 1 < len(texts) else ""
    return (texts[place - 1] if place else ""), after


def _in_template(
    pieces: list[str], given: list[ast.expr], node: ast.AST
) -> tuple[str | None, str | None] | None:
    """Of a template that is cut where its fields are."""
    place = next((i for i, each in enumerate(given) if each is node), None)
    if place is None or len(pieces) != len(given) + 1:
        return None
    before = None if place and not pieces[place] else pieces[place]
    after = None if place + 1 < len(given) and not pieces[place + 1] else pieces[place + 1]
    return before, after


def _ends_word(text: str | None, place: int) -> bool:
    """Does the text beside continue the word? What is not known may."""
    return text is None or (bool(text) and re.match(r"[\w./\-]", text[place]) is not None)


def is_switch(module: Module, node: ast.AST) -> bool:
    """Is the text the name of a setting that is on or off: ``{"cuda": False}``, ``{"cuda": not args.cpu}``, ``dest="cuda"``?"""
    above = module.parent(node)
    if isinstance(above, ast.keyword) and above.arg == "dest":
        return True
    if not isinstance(above, ast.Dict) or node not in above.keys:
        return False
    value = above.values[above.keys.index(node)]
    return isinstance(value, ast.Compare) or isinstance(
        value.op if isinstance(value, ast.UnaryOp) else module.constant(value), (ast.Not, bool)
    )
