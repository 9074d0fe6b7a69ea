"""How Gaudi's words are written, for every kind of file: ``hpu``, ``hpu:0``, ``hccl``, and the dual style's ``ACCELERATOR``.

The dual style has one constant in a file, which is ``"hpu"`` where a Gaudi is and ``"cuda"`` elsewhere; the rule ``dual_constant``
defines it in every file that comes to use it.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from hpushim.engine.python import imports
from hpushim.engine.python.changes import Change, Import, Replace
from hpushim.engine.python.module import Module

from . import comparisons, neutral
from .at_hand import at_hand

DEVICE = "hpu"
BACKEND = "hccl"
COMPILER = "hpu_backend"
#: The constant of the dual style.
ACCELERATOR = "ACCELERATOR"
#: What is in CUDA's place of a word that is no device.
_CUDA = {COMPILER: "inductor"}
#: Also in front of a number: ``cuda_0``.
_WORD = re.compile(r"\b(cuda|nccl)(?:(?=_?\d+\b)|\b)", re.IGNORECASE)
_GAUDI = re.compile(rf"{DEVICE}|{BACKEND}")


def hpu(index: str | None) -> str:
    """Gaudi's device for a CUDA device of this index, the same in code, launchers and configurations.

    Index 0 stays, any other goes, for a process holds one device. An option's choices, its default and what a launcher
    gives it stay equal only so.
    """
    return f"{DEVICE}:0" if index == "0" else DEVICE


def on_gaudi(text: str) -> str:
    """``cpu:gloo,cuda:nccl`` as ``cpu:gloo,hpu:hccl``: every word of CUDA by Gaudi's."""
    return _WORD.sub(_one, text)


def _one(found: re.Match[str]) -> str:
    word = found.group()
    new = DEVICE if word.lower() == "cuda" else BACKEND
    return new.upper() if word.isupper() else new.title() if word.istitle() else new


# -- Python ---------------------------------------------------------------------------------


def shared(module: Module) -> bool:
    """Is the code to run on CUDA as well?"""
    return module.target.style != "native"


def agnostic(module: Module) -> bool:
    """Is the code to name no vendor? What has no neutral word stays as it is, and is reported."""
    return module.target.style == "agnostic"


def either(gaudi: str, cuda: str, mark: str = '"') -> str:
    """An expression that is one thing on Gaudi and another elsewhere."""
    return f"{gaudi} if {ACCELERATOR} == {mark}{DEVICE}{mark} else {cuda}"


#: True where the dual style runs on anything but Gaudi.
ELSEWHERE = f'{ACCELERATOR} != "{DEVICE}"'


def is_either(node: ast.AST | None) -> bool:
    """Is it such an expression?"""
    return isinstance(node, ast.IfExp) and is_choice(node.test)


def is_choice(test: ast.expr) -> bool:
    """Is it ``ACCELERATOR == "hpu"``?"""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == ACCELERATOR
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == DEVICE
    )


def kept_for_cuda(module: Module, node: ast.expr, gaudi: str) -> tuple[Replace, ...]:
    """``gaudi`` in place of an expression that stays as it is for CUDA; nothing where it is done already."""
    return () if is_either(node) else (Replace(node, chosen(module, node, gaudi)),)


def quoted(module: Module, text: str, at: ast.AST | None = None) -> str:
    """``text`` as a string literal in the quotes that the file prefers; in the dual style what represents it.

    Inside an f-string (``at`` says where) in other quotes than its own, which Python needs before 3.12.
    """
    mark = _inside(module, at) if at is not None else ""
    mark = mark or module.view(_preferred)
    if agnostic(module):
        return _neutral(module, text, mark, at)
    return (_for_both(text, mark) if shared(module) else None) or f"{mark}{text}{mark}"


def _neutral(module: Module, text: str, mark: str, at: ast.AST | None) -> str:
    """A word of Gaudi's in the agnostic style: a device, or the backend that torch has for it."""
    if text in (DEVICE, f"{DEVICE}:0"):
        return neutral.device(module, at)
    if text == BACKEND:
        return backend(module, at)
    return f"{mark}{text}{mark}"


def device_type(module: Module, at: ast.AST | None = None) -> str:
    """The type of the device as a text, for what takes no device with an index: ``device_type=``."""
    return neutral.kind(module, at) if agnostic(module) else quoted(module, DEVICE)


def and_not_cpu(module: Module, enabled: ast.expr | None, kind: str) -> str:
    """A condition that holds on an accelerator only, added to the one that is written."""
    mark = mark_of(module)
    off = f"{kind} != {mark}cpu{mark}"
    return (
        off
        if enabled is None or module.constant(enabled) is True
        else f"{grouped(module, enabled)} and {off}"
    )


def grouped(module: Module, node: ast.expr) -> str:
    """An operand of ``and``, in parentheses where it needs them."""
    text = module.source(node)
    wide = isinstance(node, (ast.IfExp, ast.Lambda, ast.NamedExpr))
    wide = wide or (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or))
    return f"({text})" if wide else text


def backend(module: Module, at: ast.AST | None) -> str:
    """``torch.distributed.get_default_backend_for_device(…)``, of the accelerator or of the CPU."""
    if at is None:
        return neutral.NONE
    now = neutral.at_least(module, at)
    if now == neutral.NONE:
        return neutral.NONE
    found = at_hand(module, at)
    given = found[0] if found and found[1] in ("device", "type") else now
    package = imports.local_name(module, "torch.distributed")
    if package == "torch.distributed":
        package = imports.through(module, at, package)[0]
    return f"{package}.get_default_backend_for_device({given})"


def mark_of(module: Module) -> str:
    """The quotes that the file prefers."""
    return module.view(_preferred)


def _preferred(module: Module) -> str:
    """The quotes that the file has more of."""
    return "'" if module.data.count(b"'") > module.data.count(b'"') else '"'


def _inside(module: Module, at: ast.AST) -> str:
    """The quotes that are free in the f-string around ``at``; "" where there is none."""
    mark = ""
    for above in module.ancestors(at):
        if isinstance(above, ast.JoinedStr):
            place = module.span(at).start
            around = [t for t in module.string_tokens(above) if t.start <= place < t.end]
            if around:
                token = module.source(around[0]).lstrip("fFrRbBuU")
                mark = '"' if token.startswith("'") else "'"
    return mark


def chosen(module: Module, node: ast.expr, gaudi: str) -> str:
    """``gaudi`` on Gaudi and what is written elsewhere."""
    return either(gaudi, module.source(node), _inside(module, node) or '"')


def _for_both(text: str, mark: str) -> str | None:
    """The expression that represents one of Gaudi's words in the dual style; None for any other text."""
    if text == DEVICE:
        return ACCELERATOR
    if text.startswith(f"{DEVICE}:"):
        return f"f{mark}{{{ACCELERATOR}}}{text.removeprefix(DEVICE)}{mark}"
    cuda = _CUDA.get(text)
    if BACKEND in text:
        cuda = text.replace(BACKEND, "nccl").replace(DEVICE, "cuda")
    return either(f"{mark}{text}{mark}", f"{mark}{cuda}{mark}", mark) if cuda is not None else None


def half(module: Module, node: ast.AST) -> tuple[str, tuple[Import, ...]]:
    """The half precision that autocast gets at ``node``, and the import that it needs; in the dual style CUDA keeps float16."""
    bfloat16, needed = imports.through(module, node, "torch.bfloat16")
    if agnostic(module):
        return neutral.NONE, ()
    if not shared(module):
        return bfloat16, needed
    return either(bfloat16, bfloat16.removesuffix("bfloat16") + "float16"), needed


def retext(module: Module, node: ast.expr, new: str) -> Replace:
    """Gives a string constant the value ``new``, which must need no escapes, in its own quotes and with its prefix."""
    if agnostic(module) and _GAUDI.search(new):
        return Replace(node, _neutral_text(module, node, new))
    if shared(module) and _for_both(new, '"') is not None:
        if isinstance(module.parent(node), ast.MatchValue):
            both = module.source(node)  # a pattern cannot name a constant
            return Replace(node, f"{on_gaudi(both)} | {both}")
        return Replace(node, quoted(module, new, node))
    if len(module.string_tokens(node)) != 1:
        return Replace(node, quoted(module, new))
    return Replace(node, Literal(new))


def _neutral_text(module: Module, node: ast.expr, new: str) -> str:
    """What is written in place of a text that becomes one of Gaudi's words."""
    above = module.parent(node)
    if isinstance(above, (ast.List, ast.Tuple, ast.Set)) and new == BACKEND:
        return neutral.NONE  # one of several that are compared, or may be given
    if isinstance(above, (ast.Compare, ast.MatchValue, ast.Dict, ast.Subscript)):
        return neutral.NONE
    mark = _inside(module, node) or mark_of(module)
    if new in (DEVICE, f"{DEVICE}:0"):
        return neutral.literal(module, node, mark)
    return backend(module, node) if new == BACKEND else neutral.NONE


class Literal:
    """The change of a string literal's value that keeps its prefix and quotes."""

    __slots__ = ("_new",)

    def __init__(self, new: str) -> None:
        self._new = new

    def __call__(self, node: Any) -> Any:
        return node.with_changes(value=f"{node.prefix}{node.quote}{self._new}{node.quote}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._new == other._new

    def __hash__(self) -> int:
        return hash(self._new)


def device(
    module: Module, node: ast.expr, index: str = "", *, keeps_index: bool = False
) -> Replace:
    """Writes Gaudi's device in place of a string that spells CUDA's, composed ones among them.

    Written as :func:`hpu` says, or as device 0 where the index is read again; in the dual style the index stays for CUDA.
    """
    word = hpu("0" if keeps_index else index)
    if agnostic(module):
        return Replace(node, _neutral_device(module, node, index))
    if isinstance(node, ast.Constant) and not (shared(module) and index not in ("", "0")):
        return retext(module, node, word)
    if shared(module):
        return Replace(node, chosen(module, node, quoted(module, word, node)))
    spans = module.string_tokens(_first(node))
    body = module.source(spans[0]).lstrip("fFrRuUbB") if spans else '"'
    mark = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    return Replace(node, f"{mark}{word}{mark}")


def _neutral_device(module: Module, node: ast.expr, index: str) -> str:
    """A device in the agnostic style; the number of a process's own device is counted among those that it sees."""
    mark = _inside(module, node) or mark_of(module)
    if isinstance(node, ast.Constant):
        if index in ("", "0"):
            return _neutral_text(module, node, DEVICE)
        now = neutral.at_least(module, node)
        return now if now == neutral.NONE else f"f{mark}{{{now}.type}}:{index}{mark}"
    number = number_in(node)
    now = neutral.at_least(module, node)
    if number is None or now == neutral.NONE or _inside(module, node):
        return neutral.NONE
    own = module.source(number)
    if mark in own or mark in now:
        return neutral.NONE
    return f"f{mark}{{{now}.type}}:{{{own}}}{mark}"


def number_in(node: ast.expr) -> ast.expr | None:
    """The number that a composed text ends with: ``f"cuda:{rank}"``, ``"cuda:" + str(rank)``, ``"cuda:%d" % rank``."""
    if isinstance(node, ast.JoinedStr) and len(node.values) == 2:
        last = node.values[1]
        spec = last.format_spec if isinstance(last, ast.FormattedValue) else None
        plain = spec is None or ast.unparse(spec) in ("f'd'", 'f"d"')
        return last.value if plain and isinstance(last, ast.FormattedValue) else None
    if isinstance(node, ast.BinOp):
        right = node.right
        if isinstance(node.op, ast.Mod):
            return None if isinstance(right, ast.Tuple) else right
        if isinstance(right, ast.Call) and getattr(right.func, "id", "") == "str" and right.args:
            return right.args[0]
        return None
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return node.args[0]
    return None


def comparison(module: Module, owner: ast.AST, node: ast.expr) -> tuple[Change, ...]:
    """A comparison with CUDA as one with the CPU, in the agnostic style."""
    found = comparisons.compared(module, owner, node, _inside(module, node) or mark_of(module))
    return (Replace(found[0], found[1]) if found else Replace(node, neutral.NONE),)


def numbered_device(module: Module, call: ast.Call, node: ast.expr) -> str:
    """``torch.device(rank)`` for ``torch.device("cuda", rank)``: a number is one of the accelerator's devices, and no text."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    number = next(each for each in given if each is not node)
    return f"{module.source(call.func)}({module.source(number)})"


def whole_device(module: Module, node: ast.expr) -> tuple[Change, ...]:
    """``torch.device("cuda")`` in the agnostic style, which is the accelerator itself; nothing where the call says more."""
    mark = _inside(module, node) or mark_of(module)
    if module.constant(node) not in ("cuda", "cuda:0"):
        return ()
    if (flagged := neutral.flagged(module, node, mark)) is not None:
        return (Replace(*flagged),)
    text = neutral.made(module, node, mark)
    call = neutral.whole(module, node)
    if call is not None and (found := comparisons.moved_if_elsewhere(module, call, mark)):
        return (Replace(*found),)
    return (Replace(call, text),) if text is not None and call is not None else ()


def word(module: Module, node: ast.expr, new: str) -> Replace:
    """Writes a larger text with Gaudi's word in place of CUDA's; in the dual style the text stays for CUDA."""
    if agnostic(module):
        return Replace(node, _begun(module, node))
    if module.constant(node) == "cuda:":
        return retext(module, node, f"{DEVICE}:")
    return Replace(node, chosen(module, node, new) if shared(module) else new)


def _begun(module: Module, node: ast.expr) -> str:
    """``"cuda:"``, which a number is put behind."""
    now = neutral.at_least(module, node)
    if module.constant(node) != "cuda:" or now == neutral.NONE or _inside(module, node):
        return neutral.NONE
    mark = mark_of(module)
    return f"f{mark}{{{now}.type}}:{mark}"


def as_on_cuda(module: Module, node: ast.expr) -> Replace:
    """A device's text with CUDA's name in it again: names that are looked up by it stay, in both styles."""
    text, mark = module.source(node), _inside(module, node) or '"'
    is_text = text.endswith(".type") or text.startswith("str(")
    return Replace(node, f"{text if is_text else f'str({text})'}.replace({mark}{DEVICE}{mark}, {mark}cuda{mark})")  # fmt: skip


def _first(node: ast.expr) -> ast.expr:
    """The string literal that a composed text starts with."""
    if isinstance(node, ast.BinOp):
        return _first(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _first(node.func.value)
    return node


def numbered(module: Module, node: ast.expr, device: str = DEVICE) -> Replace:
    """Writes Gaudi's device in place of the number of a device; in the dual style the number stays for CUDA.

    In the agnostic style it stays, for a number alone names no vendor.
    """
    if agnostic(module):
        return Replace(node, neutral.NONE)
    word = quoted(module, device, node)
    return Replace(node, chosen(module, node, word) if shared(module) else word)


def zero(module: Module, node: ast.expr) -> Replace:
    """Writes device 0 in place of the number of another; in the dual style the number stays for CUDA."""
    if agnostic(module):
        return Replace(node, neutral.NONE)
    return Replace(node, chosen(module, node, "0") if shared(module) else "0")
