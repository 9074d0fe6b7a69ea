"""A device's text inside what is compared: its length, its hash, its letters, the text in a table or in JSON, padded in a text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.compare import texts
from hpushim.compare.subjects import Evidence
from hpushim.pycode.places import last_name

#: What reads a text's letters and gives no text that could be a device's.
_MEASURES = frozenset((
    "len", "hash", "ord", "list", "tuple", "set", "frozenset", "sorted", "reversed", "enumerate", "Counter", "bytes", "bytearray",
    "crc32", "adler32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s",
    "isalpha", "isidentifier", "find", "index", "count", "split", "findall", "encode", "ljust", "rjust", "center", "zfill",
))  # fmt: skip
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: Other devices' names: a text of theirs is theirs on CUDA as well.
_OTHERS = frozenset(("cpu", "mps", "xpu", "meta", "mtia", "xla", "tpu", "npu", "privateuseone"))


def readings_of(node: ast.AST, evidence: Evidence) -> list[ast.expr]:
    """The outermost parts of an expression that were surely read from a device; not the expression of a call's function."""
    found = [one for one in _shown(node) if evidence.is_device(one) and not _is_text(one, evidence)]
    for part in _parts(node):
        if isinstance(part, ast.FormattedValue):
            if evidence.is_device(part.value):
                found.append(part.value)
            continue
        found += [part] if isinstance(part, ast.expr) and _is_text(part, evidence) else readings_of(part, evidence)  # fmt: skip
    return found


def compared_inside(node: ast.Compare, evidence: Evidence) -> tuple[list[ast.expr], list[ast.expr]]:
    """The readings that a comparison holds inside its sides, and the literals beside them that name CUDA; none where it says nothing."""
    sides = [node.left, *node.comparators]
    if any(_knows_hpu(part) for side in sides for part in ast.walk(side)) or any(
        map(_is_other, sides)
    ):
        return [], []
    shown = [side for side in sides if _shows_several(side) and _is_text(side, evidence)]
    whole = [side for side in sides if side not in shown and _is_text(side, evidence)]
    inner = shown + [one for side in sides if side not in (*whole, *shown) for one in readings_of(side, evidence)]  # fmt: skip
    readings = [*whole, *inner]
    named: list[ast.expr] = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant) and texts.names_cuda(part)]  # fmt: skip
    if whole and any(isinstance(one, _ORDERS) for one in node.ops):
        return readings, named
    if inner and (named or any(is_measured(side, evidence) for side in sides)):
        # Beside a device's text, the `type` of an unknown object may be another one's.
        types = [one for one in ast.walk(node) if getattr(one, "attr", "") == "type"]
        return [*readings, *types], named  # type: ignore[list-item]
    return [], []


def is_measured(node: ast.expr, evidence: Evidence) -> bool:
    """Whether an expression reports the letters of a device's text: ``len(x.device.type)``, ``str(device)[5]``, padded text."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and last_name(part.func) in _MEASURES:
            given = [*part.args, part.func.value] if isinstance(part.func, ast.Attribute) else part.args  # fmt: skip
            if any(_is_text(one, evidence) or readings_of(one, evidence) for one in given):
                return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult) and _is_text(part.left, evidence):  # fmt: skip
            return True
        if isinstance(part, ast.Subscript | ast.comprehension):
            inner = part.value if isinstance(part, ast.Subscript) else part.iter
            if _is_text(inner, evidence) and _is_letter(part):
                return True
    return is_changed_inside(node)


def is_changed_inside(node: ast.expr) -> bool:
    """Whether a text is padded, or sorted among words that are between CUDA's name and HPU's: what comes out cannot be mapped."""
    return is_padded(node) or any(
        isinstance(part, ast.Call)
        and last_name(part.func) in ("sorted", "min", "max")
        and any(texts.CUDA < texts.constant(one) < texts.HPU for one in ast.walk(part))
        for part in ast.walk(node)
    )


def is_padded(node: ast.expr) -> bool:
    """Whether a text is made with a width: ``f"{x.device.type:>6}"``, ``"%6s" % device``, ``"{:>6}".format(device)``."""
    for part in ast.walk(node):
        if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
            parts = part.format_spec.values  # type: ignore[attr-defined]
            if not all(texts.constant(one) and not any(map(str.isdigit, texts.constant(one))) for one in parts):  # fmt: skip
                return True
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            if "%" in part.value and any(ch.isdigit() for ch in part.value.partition("%")[2][:3]):
                return True
            if "{" in part.value and ":" in part.value.partition("{")[2].partition("}")[0]:
                return True
        if isinstance(part, ast.Call) and last_name(part.func) == "format" and len(part.args) == 2:
            return True
    return False


def _shown(node: ast.AST) -> list[ast.expr]:
    """What ``"…".format(…)`` and ``"…" % …`` show."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):
        return []
    if isinstance(node, ast.Call) and last_name(node.func) == "join":
        return []
    return texts.made_of(node) if isinstance(node, ast.BinOp | ast.Call) else []


def _is_text(node: ast.expr, evidence: Evidence) -> bool:
    """A reading as a whole: ``x.device.type``, ``str(device)``; what is cut out of one is looked into."""
    if isinstance(node, ast.JoinedStr | ast.Subscript | ast.BinOp | ast.Constant):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return False
    return evidence.is_reading(node)


def _shows_several(node: ast.expr) -> bool:
    """``str({x.device})``, ``repr([x.device.type])``."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("str", "repr"):
        return False
    return isinstance(node.args[0] if node.args else None, ast.List | ast.Set | ast.Tuple | ast.Dict)  # fmt: skip


def _is_letter(node: ast.Subscript | ast.comprehension) -> bool:
    if isinstance(node, ast.comprehension):
        return True
    return isinstance(node.slice, ast.Slice | ast.UnaryOp) or (
        isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    )


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """What an expression is made of; of a method the text that it is called on, of no call its function."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Call) and name == "func":
            if isinstance(value, ast.Attribute):
                yield value.value
            continue
        if name in ("format_spec", "target") or isinstance(node, ast.Lambda | ast.NamedExpr):
            continue
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST))  # fmt: skip


def _is_other(node: ast.expr) -> bool:
    return texts.constant(node).lower().partition(":")[0].strip() in _OTHERS


def _knows_hpu(node: ast.AST) -> bool:
    """Whether a part of a comparison is about a Gaudi."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        low = text.lower()
        return "hpu" in low or "hccl" in low
    name = last_name(node).lower() if isinstance(node, ast.Name | ast.Attribute) else ""
    return "hpu" in name or "habana" in name
