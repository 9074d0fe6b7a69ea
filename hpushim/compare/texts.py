"""The texts that name a CUDA device in Python source: ``"cuda"``, ``"cuda:0"``, ``f"cuda:{rank}"`` and their like."""

from __future__ import annotations

import ast
import contextlib
import functools
import re

CUDA = "cuda"
HPU = "hpu"

_WHOLE = re.compile(r"cuda(?::\d+)?|device\(type='cuda'(?:, index=\d+)?\)")
_WORD = re.compile(r"(?<![a-z0-9])cuda(?![a-z])", re.IGNORECASE)
_FORMAT = re.compile(r"cuda:\{[^{}]*\}")
_PERCENT = re.compile(r"cuda:%[dis]")


def constant(node: ast.AST | None) -> str:
    """The text of a string literal; empty for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def is_cuda(node: ast.AST | None) -> bool:
    """Whether an expression spells a CUDA device and nothing else."""
    if isinstance(node, ast.Constant):
        return _WHOLE.fullmatch(constant(node)) is not None
    if isinstance(node, ast.JoinedStr):
        first = constant(node.values[0]) if node.values else ""
        return (first == "cuda:" and len(node.values) == 2) or _whole_of_one(node, first)
    if isinstance(node, ast.BinOp):
        left = constant(node.left)
        if isinstance(node.op, ast.Mod):
            return _PERCENT.fullmatch(left) is not None
        return isinstance(node.op, ast.Add) and left == "cuda:"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        base = constant(node.func.value)
        return node.func.attr == "format" and _FORMAT.fullmatch(base) is not None
    return False


def _whole_of_one(node: ast.JoinedStr, first: str) -> bool:
    return len(node.values) == 1 and _WHOLE.fullmatch(first) is not None


def shown(node: ast.expr) -> ast.expr | None:
    """What a text shows and nothing else: ``f"{device}"``, ``"%s" % device``, ``"{}".format(device)``."""
    if isinstance(node, ast.JoinedStr):
        only = node.values[0] if len(node.values) == 1 else None
        return only.value if isinstance(only, ast.FormattedValue) else None
    if isinstance(node, ast.BinOp):
        shows = isinstance(node.op, ast.Mod) and constant(node.left) == "%s"
        return _one_of(node.right) if shows else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        shows = node.func.attr == "format" and constant(node.func.value) in ("{}", "{0}")
        return node.args[0] if shows else None
    return None


def shows_text(node: ast.expr) -> bool:
    """Whether an expression is a text whatever it shows: ``str(device)``, ``f"{device}"``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("str", "repr", "format")
    return isinstance(node, ast.JoinedStr)


def _one_of(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Tuple):
        return node
    return node.elts[0] if len(node.elts) == 1 else None


def is_beginning(node: ast.AST | None) -> bool:
    """Whether a literal is a CUDA device or the beginning of one, as in ``startswith("cuda:")``."""
    return constant(node) == "cuda:" or is_cuda(node)


def is_pattern(node: ast.AST | None) -> bool:
    """Whether a literal is a regular expression, or a file name pattern, that CUDA devices match and an HPU does not, or the reverse."""
    return CUDA in constant(node) or _tells_apart(constant(node))


def matches_cuda(pattern: str) -> bool:
    """Whether a regular expression, or a file name pattern, finds a CUDA device."""
    with contextlib.suppress(re.error, OverflowError, RecursionError):
        return any(re.search(pattern, device) for device in ("cuda", "cuda:0"))
    return False


@functools.cache
def _tells_apart(pattern: str) -> bool:
    if not pattern or HPU in pattern:
        return False
    with contextlib.suppress(re.error, OverflowError, RecursionError):
        found = re.compile(pattern)
        return any(
            (found.match(one) is None) != (found.match(other) is None)
            for one, other in (("cuda", "hpu"), ("cuda:0", "hpu:0"))
        )
    return False


def names_cuda(node: ast.AST | None) -> bool:
    """Whether a literal has CUDA's name as a word in it, in any case, text or bytes: ``"run-cuda"``, ``"CUDA"``."""
    value = node.value if isinstance(node, ast.Constant) else None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and _WORD.search(text) is not None


def is_cased(node: ast.AST | None) -> bool:
    """Whether a literal is a CUDA device in other letters, or in bytes: ``"CUDA"``, ``"Cuda:0"``, ``b"cuda"``."""
    value = node.value if isinstance(node, ast.Constant) else None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and _WHOLE.fullmatch(text.lower().rstrip(":")) is not None


def is_part(node: ast.AST | None) -> bool:
    """Whether a literal may be cut out of CUDA's name: ``"c"``, ``"cu"``, ``"da"``."""
    return len(constant(node)) < len(CUDA) and constant(node) in CUDA and bool(constant(node))


def made_of(node: ast.expr) -> list[ast.expr]:
    """What a text is put together from: ``f"run-{device}"``, ``"on " + text``, ``", ".join(texts)``, ``"…".format(…)``."""
    if isinstance(node, ast.JoinedStr):
        return [one.value for one in node.values if isinstance(one, ast.FormattedValue)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and constant(node.left):
        return list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "format" and constant(node.func.value):
            return [*node.args, *(keyword.value for keyword in node.keywords)]
        if node.func.attr == "join" and isinstance(node.func.value, ast.Constant):
            return list(node.args)
    return []


def is_hpu(node: ast.AST | None) -> bool:
    """Whether an expression is the text of an HPU."""
    return constant(node).split(":")[0] == HPU
