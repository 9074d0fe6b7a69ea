"""How Gaudi's words are written, for every kind of file: ``hpu``, ``hpu:0``, ``hccl``, and the dual style's ``ACCELERATOR``.

The dual style has one constant in a file, which is ``"hpu"`` where a Gaudi is and ``"cuda"`` elsewhere; the rule ``dual_constant``
defines it in every file that comes to use it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from hpushim.engine.python import imports
from hpushim.engine.python.changes import Import, Replace

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

DEVICE = "hpu"
BACKEND = "hccl"
COMPILER = "hpu_backend"
#: The constant of the dual style.
ACCELERATOR = "ACCELERATOR"
#: What is in CUDA's place of a word that is no device.
_CUDA = {COMPILER: "inductor"}
_WORD = re.compile(r"\b(cuda|nccl)\b", re.IGNORECASE)


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


def dual(module: Module) -> bool:
    """Is the code to run on CUDA as well?"""
    return module.target.style == "dual"


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
    return (_for_both(text, mark) if dual(module) else None) or f"{mark}{text}{mark}"


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
    if not dual(module):
        return bfloat16, needed
    return either(bfloat16, bfloat16.removesuffix("bfloat16") + "float16"), needed


def retext(module: Module, node: ast.expr, new: str) -> Replace:
    """Gives a string constant the value ``new``, which must need no escapes, in its own quotes and with its prefix."""
    if dual(module) and _for_both(new, '"') is not None:
        if isinstance(module.parent(node), ast.MatchValue):
            both = module.source(node)  # a pattern cannot name a constant
            return Replace(node, f"{on_gaudi(both)} | {both}")
        return Replace(node, quoted(module, new, node))
    if len(module.string_tokens(node)) != 1:
        return Replace(node, quoted(module, new))
    return Replace(node, Literal(new))


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
    if isinstance(node, ast.Constant) and not (dual(module) and index not in ("", "0")):
        return retext(module, node, word)
    if dual(module):
        return Replace(node, chosen(module, node, quoted(module, word, node)))
    spans = module.string_tokens(_first(node))
    body = module.source(spans[0]).lstrip("fFrRuUbB") if spans else '"'
    mark = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    return Replace(node, f"{mark}{word}{mark}")


def word(module: Module, node: ast.expr, new: str) -> Replace:
    """Writes a larger text with Gaudi's word in place of CUDA's; in the dual style the text stays for CUDA."""
    if module.constant(node) == "cuda:":
        return retext(module, node, f"{DEVICE}:")
    return Replace(node, chosen(module, node, new) if dual(module) else new)


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


def numbered(module: Module, node: ast.expr) -> Replace:
    """Writes Gaudi's device in place of the number of a device; in the dual style the number stays for CUDA."""
    word = quoted(module, DEVICE, node)
    return Replace(node, chosen(module, node, word) if dual(module) else word)


def zero(module: Module, node: ast.expr) -> Replace:
    """Writes device 0 in place of the number of another; in the dual style the number stays for CUDA."""
    return Replace(node, chosen(module, node, "0") if dual(module) else "0")
