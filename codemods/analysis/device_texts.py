"""Strings that spell a CUDA device, in every way that Python has to build a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpushim.compare import texts
from hpushim.engine.python.module import Module
from hpushim.patterns import lazily
from hpushim.pycode import composed

from ..edits.spelling import on_gaudi

CUDA = "cuda"
_WHOLE = lazily(r"cuda(?::(\d+))?")
_OTHERS = "cpu|mps|xpu|hpu|npu|mlu|musa|meta|xla|tpu|ipu|vulkan|auto"
_OTHER = lazily(rf"({_OTHERS})(:\d+)?")
#: What a file holds that names another device.
OTHER_NAMED = lazily(rf"['\"](?:{_OTHERS})\b".encode())
#: Names that people give to things that hold a device.
_NAME = lazily(
    r"(^|[_\-.])(device|devices|devicetype|devtype|device_?str|device_?name|map_location|maploc)($|[_\-.\d])"
    r"|(^|[_\-.])devs?(_(id|str|type|name))?($|\d)|[a-z]Devices?($|[A-Z])|^device[A-Z]",
)
#: A word that is set, and a device that it is set to.
_SETTING = lazily(
    r"""(?:(?<=\\[nrt])|(?<![\w\\-]))([\w-]+)\\?["']?(?:[ \t]*[:=][ \t]*|[ \t]+)\\?["']?cuda\b"""
)
#: What is between a text that is put together and its parts.
_INSIDE = (ast.Tuple, ast.List, ast.Dict, ast.FormattedValue, ast.keyword)
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
    if not str(constant.value).startswith(CUDA):
        return False
    return isinstance(parent := module.parent(constant), (ast.BinOp, ast.Attribute)) and any(
        module.view(_Larger).text(above) is not None
        for above in (parent, *module.ancestors(parent))
    )


class _Larger:
    """The device texts that larger expressions spell, each worked out once: a text in a long sum is in many sums."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._texts: dict[ast.AST, DeviceText | None] = {}
        self._found: dict[ast.AST, DeviceText | None] = {}

    def text(self, node: ast.AST) -> DeviceText | None:
        """What it spells itself."""
        if node not in self._texts:
            self._texts[node] = read(node)
        return self._texts[node]

    def found(self, node: ast.AST) -> DeviceText | None:
        """The same, also with a suffix that the file shows."""
        if node not in self._found:
            self._found[node] = self.text(node) or _suffixed(self._module, node)
        return self._found[node]


def _outermost(module: Module, constant: ast.Constant) -> DeviceText | None:
    """The device text that starts with a constant."""
    found = read(constant)
    parent = module.parent(constant) if str(constant.value).startswith(CUDA) else None
    while isinstance(parent, (*_INSIDE, ast.JoinedStr, ast.BinOp, ast.Attribute, ast.Call)):
        larger = module.view(_Larger).found(parent)
        if larger is not None:
            found = larger
        elif not isinstance(parent, (*_INSIDE, ast.Attribute, ast.BinOp)):
            break
        parent = module.parent(parent)
    if found is None:
        return None
    above = module.parent(found.node)
    return None if isinstance(above, (ast.JoinedStr, ast.Expr)) else found


def _suffixed(module: Module, node: ast.AST) -> DeviceText | None:
    """``f"cuda{suffix}"``, where the file has no other suffix than a number behind a colon, and none: ``f":{i}" if i else ""``."""
    parts = (
        composed.pieces(node) if isinstance(node, (ast.JoinedStr, ast.BinOp, ast.Call)) else None
    )
    if not parts or len(parts) != 2 or parts[0] != CUDA or not isinstance(parts[1], ast.expr):
        return None
    suffixes = [composed.pieces(value) for value in module.values(parts[1])]
    if not suffixes or any(each is None or (each and str(each[0])[:1] not in (":", "")) for each in suffixes):  # fmt: skip
        return None
    return DeviceText(node, "?")  # type: ignore[arg-type]


# -- what spells a device -------------------------------------------------------------------


def read(node: ast.AST) -> DeviceText | None:
    """The device text that an expression spells."""
    index = texts.index_of(node)
    return DeviceText(node, index) if index is not None and isinstance(node, ast.expr) and not texts.constant(node).startswith("device(") else None  # fmt: skip


def _text(node: ast.AST) -> str:
    return texts.constant(node)


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
    holder = module.parent(node)
    while isinstance(holder, _INSIDE):
        holder = module.parent(holder)
    while isinstance(holder, ast.BinOp) and isinstance(above := module.parent(holder), ast.BinOp) and isinstance(above.op, ast.Add):  # fmt: skip
        holder = above
    found = composed.pieces(holder, node) if isinstance(holder, ast.expr) else None
    place = next((i for i, part in enumerate(found or ()) if part is node), None)
    if found is None or place is None:
        return None
    before = found[place - 1] if place else ""
    after = found[place + 1] if place + 1 < len(found) else ""
    return (before if isinstance(before, str) else None), (after if isinstance(after, str) else None)  # fmt: skip


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
