"""The texts that name a CUDA device in Python source: ``"cuda"``, ``"cuda:0"``, ``f"cuda:{rank}"`` and their like."""

from __future__ import annotations

import ast
import contextlib
import functools
import re

from hpushim.pycode.composed import pieces

CUDA = "cuda"
HPU = "hpu"

#: What may be cut out of CUDA's name, as in ``x.device.type[:2] == "cu"``.
PARTS = frozenset(CUDA[i:j] for i in range(4) for j in range(i + 1, 5)) - {CUDA}
_WHOLE = re.compile(r"cuda(?::(\d+))?|device\(type='cuda'(?:, index=(\d+))?\)")
_WORD = re.compile(r"(?<![a-z0-9])cuda(?![a-z])", re.IGNORECASE)


def constant(node: ast.AST | None) -> str:
    """The text of a string literal; empty for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def index_of(node: ast.AST | None) -> str | None:
    """The index of a CUDA device that an expression spells: ``""`` (none), digits, or ``"?"`` (computed); None where it spells none."""
    if isinstance(node, ast.Constant):
        found = _WHOLE.fullmatch(constant(node))
        return (found[1] or found[2] or "") if found else None
    if not isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
        return None
    parts = pieces(node)
    if not parts or not isinstance(parts[0], str) or not parts[0].startswith(CUDA):
        return None
    if len(parts) == 1:
        return index_of(ast.Constant(parts[0]))
    computed = parts[0] == "cuda:" and not any(isinstance(part, str) for part in parts[1:])
    return "?" if computed else None


def is_cuda(node: ast.AST | None) -> bool:
    """Whether an expression spells a CUDA device and nothing else."""
    return index_of(node) is not None


def shown(node: ast.expr) -> ast.expr | None:
    """What a text shows and nothing else: ``f"{device}"``, ``"%s" % device``, ``"{}".format(device)``."""
    if not isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
        return None
    parts = pieces(node)
    only = parts[0] if parts and len(parts) == 1 else None
    return only if isinstance(only, ast.expr) else None


def shows_text(node: ast.expr) -> bool:
    """Whether an expression is a text whatever it shows: ``str(device)``, ``f"{device}"``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("str", "repr", "format")
    return isinstance(node, ast.JoinedStr)


def is_beginning(node: ast.AST | None) -> bool:
    """Whether a literal is a CUDA device or the beginning of one, as in ``startswith("cuda:")``."""
    return constant(node) == "cuda:" or is_cuda(node)


def is_pattern(node: ast.AST | None) -> bool:
    """Whether a literal is a regular expression, or a file name pattern, that CUDA devices match and an HPU does not, or the reverse."""
    return CUDA in constant(node) or _separates(constant(node))


def matches_cuda(pattern: str) -> bool:
    """Whether a regular expression, or a file name pattern, finds a CUDA device."""
    with contextlib.suppress(re.error, OverflowError, RecursionError):
        return any(re.search(pattern, device) for device in ("cuda", "cuda:0"))
    return False


@functools.cache
def _separates(pattern: str) -> bool:
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
    return constant(node) in PARTS


def made_of(node: ast.expr) -> list[ast.expr]:
    """What a text is put together from, without the texts: ``f"run-{device}"``, ``"on " + text``, ``", ".join(texts)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":  # fmt: skip
        return list(node.args) if isinstance(node.func.value, ast.Constant) else []
    return [part for part in pieces(node) or () if isinstance(part, ast.expr)]


def is_hpu(node: ast.AST | None) -> bool:
    """Whether an expression is the text of an HPU."""
    return constant(node).split(":")[0] == HPU
